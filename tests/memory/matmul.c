/* c = a b for square matrices, rows over threads. */
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 48;
    double *a = malloc(n * n * sizeof(*a)), *b = malloc(n * n * sizeof(*b)),
           *c = malloc(n * n * sizeof(*c));
    for (long i = 0; i < n * n; i++) {
        a[i] = i % 7;
        b[i] = i % 5;
    }
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        for (long j = 0; j < n; j++) {
            double sum = 0;
            for (long k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    }
    double sum = 0;
    for (long i = 0; i < n * n; i++)
        sum += c[i];
    printf("%g\n", sum);
    return 0;
}
