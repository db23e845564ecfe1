/*
 * A deadlock: after some exchanges that complete, each rank receives from its right neighbour
 * before it sends to its left one, so all of them wait in a cycle. For three ranks or more.
 * It never ends by itself.
 */
#include <mpi.h>
#include "say.h"

enum { EXCHANGES = 10, GOOD = 1, BAD = 2 };

int main(int argc, char **argv)
{
    int rank, size, in = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;

    for (int i = 0; i < EXCHANGES; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, left, GOOD, &in, 1, MPI_INT, right, GOOD, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    say("rank %d: about to deadlock", rank);
    MPI_Recv(&in, 1, MPI_INT, right, BAD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&rank, 1, MPI_INT, left, BAD, MPI_COMM_WORLD);

    say("rank %d: there was no deadlock", rank);
    MPI_Finalize();
    return 0;
}
