/*
 * Runs until it is killed, or for a number of iterations: a ring of MPI_Sendrecv and an MPI_Allreduce
 * in each. Rank 0 prints its progress after every thousandth. For tests that kill it: all calls
 * before the last line that it printed were certainly made.
 *
 *     long_run [iterations]    10,000 by default; 0: until it is killed
 */
#include <mpi.h>
#include <stdlib.h>
#include "say.h"

int main(int argc, char **argv)
{
    long iterations = argc > 1 ? atol(argv[1]) : 10000, i = 0;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;

    while (iterations == 0 || i < iterations) {
        long in = -1, sum = -1;
        MPI_Sendrecv(&i, 1, MPI_LONG, right, 0, &in, 1, MPI_LONG, left, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Allreduce(&in, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (in != i || sum != i * size) {
            say("rank %d: iteration %ld went wrong", rank, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        i++;
        if (rank == 0 && i % 1000 == 0)
            say("iteration %ld", i);
    }
    MPI_Finalize();
    return 0;
}
