/* Prints times and random numbers of the system, which differ in every run. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct timespec precise;
    struct timeval day;
    unsigned char bytes[11];
    srand((unsigned)getpid());
    srandom((unsigned)getpid());
    for (int i = 0; i < 3; i++) {
        clock_gettime(CLOCK_MONOTONIC, &precise);
        gettimeofday(&day, NULL);
        if (getrandom(bytes, 5, 0) != 5 || getentropy(bytes + 5, 6) != 0)
            return 1;
        char hex[2 * sizeof bytes + 1];
        for (size_t n = 0; n < sizeof bytes; n++)
            sprintf(hex + 2 * n, "%02x", bytes[n]);
        /* One printf per line: MPICH's output is not buffered, and other ranks print too. */
        printf("%d: %ld.%09ld %ld.%06ld %ld %d %ld %s %.9f\n", rank, (long)precise.tv_sec,
               precise.tv_nsec, (long)day.tv_sec, (long)day.tv_usec, (long)time(NULL), rand(),
               random(), hex, MPI_Wtime());
    }
    MPI_Finalize();
    return 0;
}
