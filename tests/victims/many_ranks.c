/*
 * Any number of ranks, each of which exchanges a message with every other rank.
 */
#include <mpi.h>
#include "say.h"

int main(int argc, char **argv)
{
    int rank, size, sum = 0, in = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d of %d: sum %d, from %d", rank, size, sum, in);
    MPI_Finalize();
    return 0;
}
