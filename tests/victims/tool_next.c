/*
 * A tool that finds the next definition of a function with dlsym(RTLD_NEXT), so that later tools are
 * called too.
 *
 * Built with -shared -fPIC.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include "say.h"

static int sends, reductions;

#define NEXT(name) ((__typeof__(name) *) dlsym(RTLD_NEXT, #name))

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return NEXT(MPI_Send)(buf, count, type, dest, tag, comm);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    reductions++;
    return NEXT(MPI_Allreduce)(in, out, count, type, op, comm);
}

int MPI_Finalize(void)
{
    int rank;
    NEXT(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
    say("next on rank %d: %d sends, %d reductions", rank, sends, reductions);
    return NEXT(MPI_Finalize)();
}
