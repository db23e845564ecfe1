/* Quicksort of our own, recursive, and the C library's with a callback. */
#include <stdio.h>
#include <stdlib.h>

static void
sort(int *a, long n)
{
    while (n > 1) {
        int pivot = a[n / 2];
        long i = 0, j = n - 1;
        while (i <= j) {
            while (a[i] < pivot)
                i++;
            while (a[j] > pivot)
                j--;
            if (i <= j) {
                int swap = a[i];
                a[i++] = a[j];
                a[j--] = swap;
            }
        }
        sort(a, j + 1);
        a += i;
        n -= i;
    }
}

static int
compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 3000;
    int *a = malloc(n * sizeof(*a)), *b = malloc(n * sizeof(*b));
    unsigned random = 1;
    for (long i = 0; i < n; i++)
        a[i] = b[i] = (random = random * 1664525 + 1013904223) >> 4;
    sort(a, n);
    qsort(b, n, sizeof(*b), compare);
    long wrong = 0;
    for (long i = 0; i < n; i++)
        wrong += a[i] != b[i];
    printf("%ld %d\n", wrong, a[n / 2]);
    return 0;
}
