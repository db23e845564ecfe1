/*
 * Even ranks are in a collective, odd ranks in another, where all should be in the same.
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
    /* Nor do they get past this, should the MPI not mind. */
    MPI_Recv(&one, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
