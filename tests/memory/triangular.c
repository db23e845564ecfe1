/* Forward substitution with a lower triangular matrix: trip counts that grow with the row. */
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 100;
    double *l = malloc(n * n * sizeof(*l)), *x = malloc(n * sizeof(*x));
    for (long i = 0; i < n; i++) {
        for (long j = 0; j <= i; j++)
            l[i * n + j] = i == j ? n : 1.0 / (1 + i - j);
        x[i] = i;
    }
    for (long i = 0; i < n; i++) {
        double sum = x[i];
        for (long j = 0; j < i; j++)
            sum -= l[i * n + j] * x[j];
        x[i] = sum / l[i * n + i];
    }
    printf("%.12g\n", x[n - 1]);
    return 0;
}
