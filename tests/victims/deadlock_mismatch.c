/*
 * A deadlock: even ranks call one collective, odd ranks another one on the same communicator.
 */
#include <mpi.h>
#include "say.h"

int main(int argc, char **argv)
{
    int rank, one = 1, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: about to deadlock", rank);
    if (rank % 2)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    /* If the MPI completes mismatched collectives, the ranks hang here. */
    MPI_Recv(&one, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
