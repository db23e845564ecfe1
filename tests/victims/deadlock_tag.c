/*
 * A hang because of a wrong tag, on a communicator of half of the ranks: the last rank waits for tag 9 from the
 * rank before it, which has sent tag 10; the others wait for both in a barrier. For four ranks. It never ends by
 * itself.
 */
#include <mpi.h>
#include "say.h"

enum { EXCHANGES = 10, GOOD = 8, WANTED = 9, SENT = 10 };

static void wait_for_it(MPI_Comm half, int from)
{
    int in[2];
    MPI_Request requests[2];
    MPI_Irecv(&in[0], 1, MPI_INT, from, GOOD, half, &requests[0]);
    MPI_Irecv(&in[1], 1, MPI_INT, from, WANTED, half, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); /* wait */
}

int main(int argc, char **argv)
{
    int rank, size, in = -1;
    MPI_Comm half;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank >= size - 2, rank, &half);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;

    for (int i = 0; i < EXCHANGES; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, right, GOOD, &in, 1, MPI_INT, left, GOOD, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    say("rank %d: about to deadlock", rank);
    if (rank == size - 2) {
        MPI_Send(&rank, 1, MPI_INT, 1, GOOD, half);
        MPI_Send(&rank, 1, MPI_INT, 1, SENT, half); /* wrong */
    } else if (rank == size - 1) {
        wait_for_it(half, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* barrier */

    say("rank %d: there was no deadlock", rank);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
