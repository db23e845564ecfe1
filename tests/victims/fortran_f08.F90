! Every kind of call from Fortran, by way of `use mpi_f08`.

#define USE_MPI use mpi_f08
#define INCLUDE_MPI
#define MPI_F08 1
#define HANDLE(kind) type(kind)
#define STATUS_TYPE type(MPI_Status)
#define STATUSES_TYPE(n) type(MPI_Status), dimension(n)
#define SOURCE_OF(status) status%MPI_SOURCE
#define TAG_OF(status) status%MPI_TAG
#define VALUE_OF(handle) handle%MPI_VAL
#define POINTER_TYPE type(c_ptr)
#define POINTER_VALUE(pointer) transfer(pointer, 0_MPI_ADDRESS_KIND)

#include "fortran_calls.h"
