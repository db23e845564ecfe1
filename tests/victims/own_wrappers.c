/*
 * A program that defines MPI functions itself, like one with a profiling library linked into it: its
 * own definitions take precedence over preloaded ones.
 */
#include <mpi.h>
#include "say.h"

static int sends, inits;

int MPI_Init(int *argc, char ***argv)
{
    inits++;
    return PMPI_Init(argc, argv);
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int main(int argc, char **argv)
{
    int rank, in = -1;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 10; i++) {
        MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &request);
        MPI_Send(&i, 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD);
        PMPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    say("rank %d: %d sends, %d inits, last %d", rank, sends, inits, in);
    MPI_Finalize();
    return 0;
}
