/* Forward substitution for as many right-hand sides as there are rows, distributed over threads. */
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 48;
    double *l = malloc(n * n * sizeof(*l)), *x = malloc(n * n * sizeof(*x));
    for (long i = 0; i < n; i++) {
        for (long j = 0; j <= i; j++)
            l[i * n + j] = i == j ? n : 1.0 / (1 + i - j);
        for (long j = 0; j < n; j++)
            x[j * n + i] = i + j;
    }
#pragma omp parallel for schedule(static)
    for (long side = 0; side < n; side++) {
        double *y = x + side * n;
        for (long i = 0; i < n; i++) {
            double sum = y[i];
            for (long j = 0; j < i; j++)
                sum -= l[i * n + j] * y[j];
            y[i] = sum / l[i * n + i];
        }
    }
    printf("%.12g\n", x[n * n - 1]);
    return 0;
}
