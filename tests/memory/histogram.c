/* A histogram that threads share, by atomic additions. */
#include <stdio.h>
#include <stdlib.h>

#define BINS 64
static long bins[BINS];

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 20000, sum = 0;
    unsigned *data = malloc(n * sizeof(*data)), random = 5;
    for (long i = 0; i < n; i++)
        data[i] = (random = random * 1664525 + 1013904223) >> 26;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
#pragma omp atomic
        bins[data[i] % BINS]++;
    }
    for (int i = 0; i < BINS; i++)
        sum += bins[i] * i;
    printf("%ld\n", sum);
    return 0;
}
