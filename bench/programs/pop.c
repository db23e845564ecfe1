/* Like the ocean model POP: each step has a solver whose number of iterations varies with the step, by a pattern or
 * at random. Each iteration exchanges a halo with two neighbours and reduces a residual.
 *
 * usage: pop [steps] [pattern]: periodic, affine, modulo or random. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27, x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static int iterations(const char *pattern, int step, int steps)
{
    static const int period[5] = { 3, 7, 4, 4, 9 };
    if (!strcmp(pattern, "periodic"))
        return period[step % 5];
    if (!strcmp(pattern, "affine")) /* from 1 to 8 */
        return 1 + (int)(7l * step / steps);
    if (!strcmp(pattern, "modulo"))
        return 2 + step % 11;
    return 1 + (int)(mix(step) % 16);
}

int main(int argc, char **argv)
{
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 1000;
    const char *pattern = argc > 2 ? argv[2] : "periodic";
    double halo[64] = { 0 }, edge[64] = { 0 }, norm, sum = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int step = 0; step < steps; step++) {
        for (int i = iterations(pattern, step, steps); i > 0; i--) {
            MPI_Sendrecv(edge, 64, MPI_DOUBLE, right, 1, halo, 64, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            MPI_Allreduce(&sum, &norm, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        MPI_Bcast(&norm, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
