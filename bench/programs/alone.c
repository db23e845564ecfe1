/* Ranks that exchange messages with themselves alone, so that millions of calls on 64 ranks take seconds on two cores.
 * Like in algebraic multigrid, each rank has levels with their own neighbours and message sizes; the set-up phase never
 * repeats a size, and each rank's sequence of calls is its own.
 *
 * usage: alone [cycles]
 * Each rank prints when its MPI_Finalize returned, in seconds since 1970. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LEVELS = 6, MOST = 12, SETUP = 40, BYTES = 4096 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27, x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static char in[MOST][BYTES], out[MOST][BYTES];
static int rank;

static void exchange(int level, int step)
{
    MPI_Request requests[2 * MOST];
    int n = 1 + mix(rank * 64 + level) % MOST;
    for (int i = 0; i < n; i++) {
        int count = 1 + mix(mix(rank * 64 + level) + 1000 * i + step) % (BYTES >> level);
        MPI_Irecv(in[i], count, MPI_CHAR, 0, level * MOST + i, MPI_COMM_SELF, &requests[i]);
        MPI_Isend(out[i], count, MPI_CHAR, 0, level * MOST + i, MPI_COMM_SELF, &requests[n + i]);
    }
    MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    struct timespec now;
    int cycles = argc > 1 ? atoi(argv[1]) : 100;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int level = 0; level < LEVELS; level++)
        for (int step = 1; step <= SETUP; step++)
            exchange(level, step);
    for (int cycle = 0; cycle < cycles; cycle++) {
        for (int level = 0; level < LEVELS; level++)
            exchange(level, 0);
        for (int level = LEVELS - 2; level >= 0; level--)
            exchange(level, mix(rank + cycle) % 3 == 0);
    }
    MPI_Finalize();
    clock_gettime(CLOCK_REALTIME, &now);
    printf("ended %ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
    return 0;
}
