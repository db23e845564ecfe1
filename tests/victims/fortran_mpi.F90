! Every kind of call from Fortran, by way of `use mpi`.

#define USE_MPI use mpi
#define INCLUDE_MPI
#define MPI_1 1
#define HANDLE(kind) integer
#define STATUS_TYPE integer, dimension(MPI_STATUS_SIZE)
#define STATUSES_TYPE(n) integer, dimension(MPI_STATUS_SIZE, n)
#define SOURCE_OF(status) status(MPI_SOURCE)
#define TAG_OF(status) status(MPI_TAG)
#define VALUE_OF(handle) handle
#define POINTER_TYPE type(c_ptr)
#define POINTER_VALUE(pointer) transfer(pointer, 0_MPI_ADDRESS_KIND)

#include "fortran_calls.h"
