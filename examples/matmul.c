/* A product of two matrices, rows shared between OpenMP threads.
 *
 *     gcc -O2 -g -fopenmp -o matmul examples/matmul.c && refrain mem -- ./matmul 200
 */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 100;
    double *a = malloc(sizeof *a * n * n), *b = malloc(sizeof *b * n * n), *c = malloc(sizeof *c * n * n);
    for (int i = 0; i < n * n; i++)
        a[i] = i % 7, b[i] = i % 5;
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    printf("%g\n", c[n * n - 1]);
    free(a), free(b), free(c);
    return 0;
}
