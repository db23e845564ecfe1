/* Threads without OpenMP, each with thread-local data and a part of one array. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static double data[1 << 14];
static __thread double local;
static long threads;

static void *
work(void *number)
{
    long me = (long)number, n = sizeof(data) / sizeof(*data);
    for (long i = me * n / threads; i < (me + 1) * n / threads; i++) {
        data[i] += i;
        local += data[i];
    }
    double *result = malloc(sizeof(*result));
    *result = local;
    return result;
}

int
main(int argc, char **argv)
{
    threads = argc > 1 ? atol(argv[1]) : 4;
    pthread_t *all = malloc(threads * sizeof(*all));
    double sum = 0;
    for (long i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, work, (void *)i);
    for (long i = 0; i < threads; i++) {
        void *part;
        pthread_join(all[i], &part);
        sum += *(double *)part;
        free(part);
    }
    printf("%g\n", sum);
    return 0;
}
