/* c = a + b; each thread computes a part. */
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 10000;
    double *a = malloc(n * sizeof(*a)), *b = malloc(n * sizeof(*b)), *c = malloc(n * sizeof(*c));
    for (long i = 0; i < n; i++) {
        a[i] = i;
        b[i] = 2 * i;
    }
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        c[i] = a[i] + b[i];
    printf("%g\n", c[n - 1]);
    return 0;
}
