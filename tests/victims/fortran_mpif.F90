! Every kind of call from Fortran, by way of `include 'mpif.h'`.

#define USE_MPI
#define INCLUDE_MPI include 'mpif.h'
#define MPI_1 1
#define MPI_UNTYPED 1
#define HANDLE(kind) integer
#define STATUS_TYPE integer, dimension(MPI_STATUS_SIZE)
#define STATUSES_TYPE(n) integer, dimension(MPI_STATUS_SIZE, n)
#define SOURCE_OF(status) status(MPI_SOURCE)
#define TAG_OF(status) status(MPI_TAG)
#define VALUE_OF(handle) handle
#define POINTER_TYPE integer(kind=MPI_ADDRESS_KIND)
#define POINTER_VALUE(pointer) pointer

#include "fortran_calls.h"
