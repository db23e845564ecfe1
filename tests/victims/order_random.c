/* Prints what the system's clocks and random numbers say, which is never the same twice. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static char room[1 << 14];
    setvbuf(stdout, room, _IOFBF, sizeof room);
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
        if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
            return 1;
        printf("%d: %ld.%09ld %ld.%06ld %ld %d %ld ", rank, (long)precise.tv_sec, precise.tv_nsec,
               (long)day.tv_sec, (long)day.tv_usec, (long)time(NULL), rand(), random());
        for (size_t n = 0; n < sizeof bytes; n++)
            printf("%02x", bytes[n]);
        printf(" %.9f\n", MPI_Wtime());
    }
    MPI_Finalize();
    return 0;
}
