/* Three phases; only the middle one is between `begin_here` and `end_here`. */
#include <pthread.h>
#include <stdio.h>

static volatile long before[100], inside[100], after[100];
static pthread_barrier_t barrier;

__attribute__((noinline)) static void
begin_here(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) static void
end_here(void)
{
    __asm__ volatile("nop");
}

static void
phase(volatile long *cells)
{
    for (int i = 0; i < 100; i++)
        cells[i] = i;
}

static void *
other(void *nothing)
{
    phase(before);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    phase(inside);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    phase(after);
    return nothing;
}

int
main(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, other, NULL);
    phase(before);
    pthread_barrier_wait(&barrier);
    begin_here();
    pthread_barrier_wait(&barrier);
    phase(inside);
    pthread_barrier_wait(&barrier);
    end_here();
    pthread_barrier_wait(&barrier);
    phase(after);
    pthread_join(thread, NULL);
    printf("buffer %p %p\n", (void *)inside, (void *)(inside + 100));
    printf("outside %p %p %p %p\n", (void *)before, (void *)(before + 100), (void *)after,
           (void *)(after + 100));
    return 0;
}
