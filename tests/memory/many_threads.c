/* Three hundred threads at once, and then as many one after the other. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 1000
static long counts[MOST];
static pthread_barrier_t barrier;

static void *
together(void *number)
{
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 100; i++)
        ((volatile long *)counts)[(long)number]++;
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void *
alone(void *number)
{
    for (int i = 0; i < 10; i++)
        ((volatile long *)counts)[(long)number]++;
    return NULL;
}

int
main(int argc, char **argv)
{
    long threads = argc > 1 ? atol(argv[1]) : 300, sum = 0;
    pthread_t all[MOST];
    pthread_barrier_init(&barrier, NULL, threads);
    for (long i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, together, (void *)i);
    for (long i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    for (long i = 0; i < threads; i++) {
        pthread_create(&all[i], NULL, alone, (void *)i);
        if (i % 3 == 0)
            pthread_detach(all[i]);
        else
            pthread_join(all[i], NULL);
    }
    for (long i = 0; i < threads; i++) {
        while (__atomic_load_n(&counts[i], __ATOMIC_ACQUIRE) < 110)
            sched_yield();
        sum += counts[i];
    }
    printf("%ld\n", sum);
    return 0;
}
