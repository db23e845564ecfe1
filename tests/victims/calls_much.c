/*
 * Many calls and nothing else: more than a small file can record. For tests that give a tool too
 * little disk space.
 */
#include <mpi.h>
#include "say.h"

int main(int argc, char **argv)
{
    int rank, size, value = -1, in = -1, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 300000; i++) {
        MPI_Comm_size(MPI_COMM_WORLD, &value);
        wrong += value != size;
    }
    for (int i = 0; i < 100; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, i, &in, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        wrong += in != i;
    }
    say("rank %d: %d wrong", rank, wrong);
    MPI_Finalize();
    return 0;
}
