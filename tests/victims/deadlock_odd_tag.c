/*
 * A hang by a tag that nothing else uses. In rows of two ranks, the first sends to the second in every sweep, with a tag
 * that follows from the sweep. In sweep 27 rank 0 sends with another tag, and rank 3 waits for another tag. The two rows
 * hang together by a barrier. Made for four ranks. It never ends by itself.
 */
#include <mpi.h>
#include "say.h"

enum { SWEEPS = 30, WRONG = 27, ODD = 130 };

static void pass(int *x, int tag, MPI_Comm row)
{
    int rank;
    MPI_Comm_rank(row, &rank);
    if (rank > 0)
        MPI_Recv(x, 1, MPI_INT, rank - 1, tag, row, MPI_STATUS_IGNORE); /* wait */
    else
        MPI_Send(x, 1, MPI_INT, rank + 1, tag, row); /* send */
}

int main(int argc, char **argv)
{
    int rank, x = 0;
    MPI_Comm row;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
    say("rank %d: about to deadlock", rank);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        int is_wrong = sweep == WRONG && (rank == 0 || rank == 3);
        pass(&x, is_wrong ? ODD : 100 + 10 * (sweep / 5 % 3), row);
        if (sweep == WRONG)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    say("rank %d: there was no deadlock", rank);
    MPI_Comm_free(&row);
    MPI_Finalize();
    return 0;
}
