/* A sparse matrix with random columns, times a vector: indirect addresses. */
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 2000, sweeps = argc > 2 ? atol(argv[2]) : 3;
    int *starts = malloc((n + 1) * sizeof(*starts)), *columns = malloc(16 * n * sizeof(*columns));
    double *values = malloc(16 * n * sizeof(*values)), *x = malloc(n * sizeof(*x)),
           *y = malloc(n * sizeof(*y));
    unsigned random = 1;
    int entries = 0;
    for (long i = 0; i < n; i++) {
        starts[i] = entries;
        random = random * 1664525 + 1013904223;
        for (unsigned k = 4 + (random >> 29); k > 0; k--) {
            random = random * 1664525 + 1013904223;
            columns[entries] = (random >> 8) % n;
            values[entries++] = 1.0 / (1 + (random >> 24));
        }
        x[i] = 1;
    }
    starts[n] = entries;
    for (long sweep = 0; sweep < sweeps; sweep++) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) {
            double sum = 0;
            for (int k = starts[i]; k < starts[i + 1]; k++)
                sum += values[k] * x[columns[k]];
            y[i] = sum;
        }
        double *swap = x;
        x = y;
        y = swap;
    }
    printf("%.12g\n", x[n / 2]);
    return 0;
}
