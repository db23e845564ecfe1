/* Like a code with adaptive mesh refinement that measures each of its phases with MPI_Wtime: the clock is read before and
 * after the exchange of each level, the advance of each box and the reductions. Every ten steps boxes and neighbours
 * change. Receives have wildcards.
 *
 * usage: timers [steps]
 * Rank 0 prints how many times all ranks read the clock. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEVELS = 3, MOST = 16, LARGEST = 1024, EVERY = 10 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27, x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static int rank, size;
static long readings;
static double spent[4];
static volatile double sink;

static double now(void)
{
    readings++;
    return MPI_Wtime();
}

static int touches(int mesh, int level, int other)
{
    int low = rank < other ? rank : other, high = rank < other ? other : rank;
    return other != rank && mix(mix(mix(mesh * LEVELS + level) + low) + high) % size < 4;
}

static void exchange(int mesh, int level)
{
    static double in[MOST][LARGEST], out[LARGEST];
    MPI_Request requests[2 * MOST];
    int n = 0, all;
    double start = now();
    for (int other = 0; other < size && n < MOST; other++)
        if (touches(mesh, level, other)) {
            MPI_Irecv(in[n], LARGEST, MPI_DOUBLE, MPI_ANY_SOURCE, level, MPI_COMM_WORLD, &requests[n]);
            n++;
        }
    all = n;
    for (int other = 0; other < size; other++)
        if (touches(mesh, level, other))
            MPI_Isend(out, 1 + mix(mesh + other) % (LARGEST >> level), MPI_DOUBLE, other, level, MPI_COMM_WORLD, &requests[all++]);
    MPI_Waitall(all, requests, MPI_STATUSES_IGNORE);
    spent[0] += now() - start;
}

static void advance(int mesh, int level)
{
    int boxes = 1 + mix(mesh * 31 + rank * 7 + level) % 6;
    for (int box = 0; box < boxes; box++) {
        double start = now(), x = box;
        for (uint64_t i = 0; i < 2000 + mix(mesh + box) % 20000; i++)
            x = x * 0.999 + 1;
        sink = x;
        spent[1] += now() - start;
    }
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 500;
    double dt = 1, least;
    long all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 0; step < steps; step++) {
        for (int level = 0; level < LEVELS; level++) {
            exchange(step / EVERY, level);
            advance(step / EVERY, level);
        }
        double start = now();
        MPI_Allreduce(&dt, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        spent[2] += now() - start;
    }
    MPI_Reduce(&readings, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("readings %ld\n", all);
    MPI_Finalize();
    return 0;
}
