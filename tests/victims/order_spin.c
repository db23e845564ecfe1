/* Reads MPI_Wtime very often, like programs that spin until a given time or that time small pieces of work;
 * and receives from any source.
 *
 *     order_spin spin|timers READINGS [quiet]
 *
 * Prints a digest of all times unless `quiet`.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t digest = 1;
static long left;

static double now(void) {
    double time = MPI_Wtime();
    uint64_t bits;
    memcpy(&bits, &time, sizeof bits);
    digest = (digest ^ bits) * 0x9e3779b97f4a7c15u;
    digest ^= digest >> 29;
    left--;
    return time;
}

/* Refines, communicates and computes in pieces of very different sizes, each between two readings. */
static void timers(void) {
    static const int pieces[] = {50, 400, 90, 2000, 30, 30, 700, 120};
    static double cells[4096], spent[8];
    for (int i = 0; i < 8; i++) {
        double start = now();
        for (int j = 0; j < pieces[i]; j++)
            cells[j % 4096] = cells[j % 4096] * 0.5 + j;
        spent[i] += now() - start;
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, in;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = atol(argv[2]);
    while (left > 0) {
        if (strcmp(argv[1], "spin") == 0)
            now();
        else
            timers();
    }
    int quiet = argc > 3;
    for (int to = 0; to < size; to++)
        if (to != rank)
            MPI_Send(&rank, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
    for (int i = 1; i < size; i++) {
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        digest = digest * 31 + in;
    }
    if (!quiet)
        printf("rank %d: %016llx\n", rank, (unsigned long long)digest);
    MPI_Finalize();
    return 0;
}
