/*
 * A deadlock of requests, on a communicator that numbers the ranks backwards: each rank sends to its
 * right neighbour there, and waits for two messages from its left one, of which one never comes.
 * For three ranks or more. It never ends by itself.
 */
#include <mpi.h>
#include "say.h"

enum { EXCHANGES = 10, GOOD = 1, BAD = 2 };

int main(int argc, char **argv)
{
    int rank, size, in[2] = { -1, -1 };
    MPI_Comm backwards;
    MPI_Request requests[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &backwards);
    MPI_Comm_rank(backwards, &rank);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;

    for (int i = 0; i < EXCHANGES; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, right, GOOD, in, 1, MPI_INT, MPI_ANY_SOURCE, GOOD, backwards,
                     MPI_STATUS_IGNORE);
    say("rank %d: about to deadlock", rank);
    MPI_Isend(&rank, 1, MPI_INT, right, GOOD, backwards, &requests[0]);
    MPI_Irecv(&in[0], 1, MPI_INT, left, GOOD, backwards, &requests[1]);
    MPI_Irecv(&in[1], 1, MPI_INT, left, BAD, backwards, &requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);

    say("rank %d: there was no deadlock", rank);
    MPI_Comm_free(&backwards);
    MPI_Finalize();
    return 0;
}
