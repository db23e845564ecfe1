/* An irregular program like algebraic multigrid: every level has its own random neighbours and message sizes,
 * each cycle visits the levels down and up, and the coarsest level completes its receives with MPI_Testsome.
 * Before the cycles, a set-up phase exchanges messages whose sizes never repeat.
 *
 * usage: multigrid [cycles] [work]: V-cycles, and units of computation on each rank and sweep.
 * Prints the seconds between two barriers and the number of MPI calls of rank 0 between them. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEVELS = 6, NEIGHBOURS = 6, SWEEPS = 2, MOST = 4096, SETUP = 40 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27, x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t pair(int level, int a, int b)
{
    int low = a < b ? a : b, high = a < b ? b : a;
    return mix(mix(mix(level + 1) + low) + high);
}

static int rank, size;
static long calls;
static volatile double sink;

static void compute(int units)
{
    double x = rank;
    for (int i = 0; i < units * 20; i++)
        x = x * 0.999 + 1;
    sink = x;
}

/* Whether a rank still has rows at a level: each level halves the ranks, at random. */
static int is_active(int r, int level)
{
    for (int l = 1; l <= level; l++)
        if (mix(r * 131 + l) % 3 == 0)
            return r < 2;
    return 1;
}

static int neighbours(int level, int *list)
{
    int n = 0;
    if (!is_active(rank, level))
        return 0;
    for (int other = 0; other < size; other++)
        if (other != rank && is_active(other, level) &&
            pair(level, rank, other) % size < (uint64_t)NEIGHBOURS && n < 64)
            list[n++] = other;
    return n;
}

static double *in[64], *out[64];

static int count_of(int level, int other, int step)
{
    return 1 + (int)(mix(pair(level, rank, other) + step) % (MOST >> level));
}

static void exchange(int level, int step, int tag, int some)
{
    int list[64], n = neighbours(level, list);
    MPI_Request requests[128];
    for (int i = 0; i < n; i++, calls++)
        MPI_Irecv(in[i], count_of(level, list[i], step), MPI_DOUBLE, list[i], tag, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < n; i++, calls++)
        MPI_Isend(out[i], count_of(level, list[i], step), MPI_DOUBLE, list[i], tag, MPI_COMM_WORLD, &requests[n + i]);
    for (int left = some ? 2 * n : 0; left > 0;) {
        int done, which[128];
        MPI_Testsome(2 * n, requests, &done, which, MPI_STATUSES_IGNORE);
        calls++;
        left -= done;
    }
    if (!some) {
        MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE);
        calls++;
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int cycles = argc > 1 ? atoi(argv[1]) : 50, work = argc > 2 ? atoi(argv[2]) : 1;
    for (int i = 0; i < 64; i++) {
        in[i] = calloc(MOST, sizeof(double));
        out[i] = calloc(MOST, sizeof(double));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int level = 0; level < LEVELS; level++)
        for (int step = 1; step <= SETUP; step++)
            exchange(level, step, 10 + level, 0);
    double norm = 1, sum;
    for (int cycle = 0; cycle < cycles; cycle++) {
        for (int level = 0; level < LEVELS; level++)
            for (int sweep = 0; sweep < SWEEPS; sweep++) {
                compute(work * (int)(1 + mix(rank + level) % 8));
                exchange(level, 0, 100 + level, level == LEVELS - 1);
            }
        for (int level = LEVELS - 2; level >= 0; level--) {
            compute(work * (int)(1 + mix(rank + level) % 8));
            exchange(level, 0, 200 + level, 0);
        }
        if (cycle % 5 == 4) {
            MPI_Allreduce(&norm, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            calls++;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;
    if (rank == 0)
        printf("seconds %.4f calls %ld\n", seconds, calls);
    MPI_Finalize();
    return 0;
}
