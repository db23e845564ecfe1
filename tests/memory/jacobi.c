/* Jacobi's iteration on a square grid: a stencil, and two grids that change places. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 64, sweeps = argc > 2 ? atol(argv[2]) : 10;
    double *old = calloc(n * n, sizeof(*old)), *new = calloc(n * n, sizeof(*new));
    double change = 0;
    for (long i = 0; i < n; i++)
        old[i] = new[i] = 1;
    for (long sweep = 0; sweep < sweeps; sweep++) {
        change = 0;
#pragma omp parallel for schedule(static) reduction(max : change)
        for (long i = 1; i < n - 1; i++) {
            for (long j = 1; j < n - 1; j++) {
                double mean = 0.25 *
                    (old[(i - 1) * n + j] + old[(i + 1) * n + j] + old[i * n + j - 1] +
                     old[i * n + j + 1]);
                double step = fabs(mean - old[i * n + j]);
                new[i * n + j] = mean;
                change = step > change ? step : change;
            }
        }
        double *swap = old;
        old = new;
        new = swap;
    }
    printf("%.12g %.12g\n", change, old[n + 1]);
    return 0;
}
