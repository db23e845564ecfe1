/* Like a transport sweep on an unstructured mesh: for every angle, ranks receive from those before them and send to
 * those behind them, in an order that differs by angle. The size of a message depends on angle and neighbour. Receives are
 * completed by MPI_Testsome, in the order in which messages arrive.
 *
 * usage: sweep [sweeps] [angles] */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 32, LARGEST = 512 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27, x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t pair(uint64_t angle, int a, int b)
{
    int low = a < b ? a : b, high = a < b ? b : a;
    return mix(mix(mix(angle + 1) + low) + high);
}

int main(int argc, char **argv)
{
    int rank, size, sweeps = argc > 1 ? atoi(argv[1]) : 4, angles = argc > 2 ? atoi(argv[2]) : 64;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *in = calloc(MOST * LARGEST, sizeof(double)), *out = calloc(LARGEST, sizeof(double));
    for (int sweep = 0; sweep < sweeps; sweep++) {
        for (int angle = 0; angle < angles; angle++) {
            MPI_Request requests[MOST];
            int n = 0, done, which[MOST];
            long at = 0;
            for (int other = 0; other < size; other++) {
                /* The rank with the smaller hash is before the other one. */
                int is_before = mix(angle * 977 + other) < mix(angle * 977 + rank);
                if (other == rank || !is_before || n == MOST || pair(0, rank, other) % size >= 6)
                    continue;
                int count = 1 + (int)(pair(angle + 3, rank, other) % LARGEST);
                MPI_Irecv(in + at, count, MPI_DOUBLE, other, angle, MPI_COMM_WORLD, &requests[n++]);
                at += count;
            }
            for (int left = n; left > 0; left -= done)
                MPI_Testsome(n, requests, &done, which, MPI_STATUSES_IGNORE);
            for (int other = 0; other < size; other++) {
                int is_behind = mix(angle * 977 + other) > mix(angle * 977 + rank);
                if (other == rank || !is_behind || pair(0, rank, other) % size >= 6)
                    continue;
                int count = 1 + (int)(pair(angle + 3, rank, other) % LARGEST);
                MPI_Send(out, count, MPI_DOUBLE, other, angle, MPI_COMM_WORLD);
            }
        }
        double sum, norm = 1;
        MPI_Allreduce(&norm, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
