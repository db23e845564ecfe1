/*
 * A profiling library as in the standard: defines MPI_X, calls PMPI_X, and prints at the end which
 * calls it saw. It must see the same calls if it is preloaded before or after another tool.
 *
 * Built with -shared -fPIC.
 */
#include <mpi.h>
#include "say.h"

static int sends, receives, reductions, waits;

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    receives++;
    return PMPI_Recv(buf, count, type, source, tag, comm, status);
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    waits += count;
    return PMPI_Waitall(count, requests, statuses);
}

/* It also makes its own calls: a communicator, and a reduction on it. */
int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    MPI_Comm own;
    int rank, sum;
    reductions++;
    PMPI_Comm_dup(comm, &own);
    PMPI_Comm_rank(own, &rank);
    PMPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, own);
    PMPI_Comm_free(&own);
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    say("profiler on rank %d: %d sends, %d receives, %d reductions, %d waited for", rank, sends, receives,
        reductions, waits);
    return PMPI_Finalize();
}
