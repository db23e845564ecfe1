/* Like adaptive mesh refinement: every ten steps the mesh changes, and with it the neighbours of each rank and the
 * sizes of their messages; between changes the same messages are exchanged in every step.
 *
 * usage: amr [steps] */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 32, LARGEST = 1024, EVERY = 10 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27, x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t pair(int mesh, int a, int b)
{
    int low = a < b ? a : b, high = a < b ? b : a;
    return mix(mix(mix(mesh + 1) + low) + high);
}

int main(int argc, char **argv)
{
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 500;
    double norm, dt = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *in = calloc(MOST * LARGEST, sizeof(double)), *out = calloc(MOST * LARGEST, sizeof(double));
    int peers[MOST], counts[MOST], n = 0;
    for (int step = 0; step < steps; step++) {
        if (step % EVERY == 0) {
            int mesh = step / EVERY, blocks = 1 + (int)(mix(mesh * 1000 + rank) % 50), all;
            MPI_Allreduce(&blocks, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            n = 0;
            for (int other = 0; other < size; other++)
                if (other != rank && n < MOST && pair(mesh, rank, other) % size < 5) {
                    peers[n] = other;
                    counts[n++] = 1 + (int)(pair(mesh + 7, rank, other) % LARGEST);
                }
        }
        MPI_Request requests[2 * MOST];
        long at = 0;
        for (int i = 0; i < n; i++) {
            MPI_Irecv(in + at, counts[i], MPI_DOUBLE, peers[i], 5, MPI_COMM_WORLD, &requests[i]);
            at += counts[i];
        }
        at = 0;
        for (int i = 0; i < n; i++) {
            MPI_Isend(out + at, counts[i], MPI_DOUBLE, peers[i], 5, MPI_COMM_WORLD, &requests[n + i]);
            at += counts[i];
        }
        MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&dt, &norm, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
