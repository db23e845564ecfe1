/*
 * A program for tests of tools: a known number of sends, receives, waits and reductions.
 */
#include <mpi.h>
#include "say.h"

int main(int argc, char **argv)
{
    int rank, size, in = -1, sum = 0;
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 10; i++) {
        MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, i, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Send(&sum, 1, MPI_INT, 1, i, MPI_COMM_WORLD);
        if (rank == 1)
            MPI_Recv(&sum, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    say("rank %d: in %d, sum %d", rank, in, sum);
    MPI_Finalize();
    return 0;
}
