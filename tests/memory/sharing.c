/* False sharing of eight kinds, each with a twin that has none: `sharing KIND [padded]`. A comment marks the
 * line that writes to a shared line of the cache. Run with four threads. */
#include <omp.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 2000, THREADS = 4 };

static int padded;

static void *
lines(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(memory, 0, bytes);
    return memory;
}

static void
counters(void)
{
    long stride = padded ? 8 : 1;
    volatile long *counters = lines(8 * THREADS * sizeof(long));
#pragma omp parallel
    for (int i = 0; i < TIMES; i++)
        counters[omp_get_thread_num() * stride] += i; /* counters */
}

static void
fields(void)
{
    static alignas(64) struct { volatile long made, used; } near;
    static alignas(64) struct { volatile long made; alignas(64) volatile long used; } far;
    volatile long *made = padded ? &far.made : &near.made;
    volatile long *used = padded ? &far.used : &near.used;
#pragma omp parallel
    for (int i = 0; i < TIMES; i++) {
        if (omp_get_thread_num() == 1)
            *made += i; /* fields */
        if (omp_get_thread_num() == 2)
            *used += i; /* fields */
    }
}

static void
arrays(void)
{
    static alignas(64) volatile long both[48];
    volatile long *first = both, *second = both + (padded ? 24 : 20);
#pragma omp parallel
    for (int i = 0; i < TIMES; i++) {
        if (omp_get_thread_num() == 0)
            first[i % 20] += i; /* arrays */
        if (omp_get_thread_num() == 3)
            second[i % 20] += i; /* arrays */
    }
}

static void
reduction(void)
{
    long stride = padded ? 8 : 1;
    double *x = lines(TIMES * sizeof(double));
    volatile double *sums = lines(8 * THREADS * sizeof(double));
#pragma omp parallel for schedule(static, TIMES / THREADS)
    for (int i = 0; i < TIMES; i++)
        sums[omp_get_thread_num() * stride] += x[i]; /* reduction */
}

static void
tasks(void)
{
    long stride = padded ? 64 : 1;
    volatile char *results = lines(64 * 16);
    static alignas(64) int next;
#pragma omp parallel
    {
        int task;
#pragma omp atomic capture
        task = next++;
        /* Every thread has a task. */
#pragma omp barrier
        while (task < 16) {
            for (int i = 0; i < TIMES; i++)
                results[task * stride] += i; /* tasks */
#pragma omp atomic capture
            task = next++;
        }
    }
}

static void
edges(void)
{
    long part = padded ? 256 : 250;
    volatile long *cells = lines(256 * THREADS * sizeof(long));
#pragma omp parallel
    for (int sweep = 0; sweep < 200; sweep++) {
        long begin = omp_get_thread_num() * part;
        for (long i = begin; i < begin + part; i++)
            cells[i] += sweep; /* edges */
    }
}

static void
neighbours(void)
{
    volatile long *own[THREADS];
    for (int i = 0; i < THREADS; i++)
        own[i] = padded ? lines(64) : calloc(3, sizeof(long));
#pragma omp parallel
    {
        volatile long *mine = own[omp_get_thread_num()];
        for (int i = 0; i < TIMES; i++)
            *mine += i; /* neighbours */
    }
}

static void
ring(void)
{
    static alignas(64) struct { volatile long head, tail; } near;
    static alignas(64) struct { volatile long head; alignas(64) volatile long tail; } far;
    volatile long *head = padded ? &far.head : &near.head, *tail = padded ? &far.tail : &near.tail;
    volatile long *items = lines(64 * sizeof(long));
#pragma omp parallel
    {
        if (omp_get_thread_num() == 1) {
            for (int i = 0; i < TIMES; i++) {
                while (*head - *tail == 64)
                    sched_yield();
                items[i % 64] = i;
                *head = i + 1; /* ring */
            }
        }
        if (omp_get_thread_num() == 2) {
            for (int i = 0; i < TIMES; i++) {
                while (*head == i)
                    sched_yield();
                if (items[i % 64] != i)
                    abort();
                *tail = i + 1; /* ring */
            }
        }
    }
}

int
main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } kinds[] = {
        { "counters", counters }, { "fields", fields }, { "arrays", arrays },
        { "reduction", reduction }, { "tasks", tasks }, { "edges", edges },
        { "neighbours", neighbours }, { "ring", ring },
    };
    padded = argc > 2;
    omp_set_num_threads(THREADS);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (argc > 1 && strcmp(argv[1], kinds[i].name) == 0)
            kinds[i].run();
    printf("%s\n", argc > 1 ? argv[1] : "no kind");
    return 0;
}
