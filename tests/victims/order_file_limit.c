/*
 * Limits the size of its files after MPI_Init to as many bytes as its first argument says, and then gives a
 * recorder more to write than that: clock readings between receives from any source. The time between two readings
 * is random, so that no recorder can predict them. A write past the limit raises SIGXFSZ, which ends the program.
 * Its exit code is 3.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Takes a random time. */
static void idle(void) {
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    for (volatile unsigned i = state >> 22; i > 0; i--)
        ;
}

int main(int argc, char **argv) {
    int rank, size, got, wrong = 0;
    long readings = 0;
    double last = 0;
    MPI_Init(&argc, &argv);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = atol(argv[1]);
    setrlimit(RLIMIT_FSIZE, &limit);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 2000; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, i, &got, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        wrong += got != i;
        for (int j = 0; j < 200; j++) {
            double now = MPI_Wtime();
            wrong += now < last;
            last = now;
            readings++;
            idle();
        }
    }
    printf("rank %d: %ld readings, %d wrong\n", rank, readings, wrong);
    MPI_Finalize();
    return 3;
}
