/*
 * A ring of messages and a barrier, repeatedly: no rank leaves the barrier before the last one has
 * entered it, whatever the Lamport clocks say.
 *
 *     barriers [rounds]
 */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
#include "say.h"

int main(int argc, char **argv)
{
    int rank, size, in = -1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = argc > 1 ? atoi(argv[1]) : 50;
    for (int i = 0; i < rounds; i++) {
        int next = (rank + 1) % size, last = (rank + size - 1) % size;
        if (i % size == rank)
            usleep(5000);
        MPI_Sendrecv(&rank, 1, MPI_INT, next, 1, &in, 1, MPI_INT, last, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        sum += in;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    say("rank %d: %d", rank, sum);
    MPI_Finalize();
    return 0;
}
