/* A fast Fourier transform in place: bit reversal, then strides of powers of two. */
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    long n = 1L << (argc > 1 ? atol(argv[1]) : 10);
    double complex *x = malloc(n * sizeof(*x)), *roots = malloc(n / 2 * sizeof(*roots));
    for (long i = 0; i < n; i++)
        x[i] = i % 17;
    for (long i = 0; i < n / 2; i++)
        roots[i] = cos(2 * M_PI * i / n) - I * sin(2 * M_PI * i / n);
    for (long i = 0, j = 0; i < n; i++) {
        if (i < j) {
            double complex swap = x[i];
            x[i] = x[j];
            x[j] = swap;
        }
        for (long bit = n >> 1; (j ^= bit) < bit; bit >>= 1)
            ;
    }
    for (long half = 1; half < n; half *= 2) {
        for (long start = 0; start < n; start += 2 * half) {
            for (long k = 0; k < half; k++) {
                double complex turned = roots[k * (n / 2 / half)] * x[start + half + k];
                x[start + half + k] = x[start + k] - turned;
                x[start + k] += turned;
            }
        }
    }
    printf("%.9g %.9g\n", creal(x[1]), cimag(x[n - 1]));
    return 0;
}
