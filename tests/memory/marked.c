/* Three phases in two threads; only the middle one is between `begin_here` and `end_here`, which access
 * memory themselves. */
#include <pthread.h>
#include <stdio.h>

static volatile long cells[2][3][100];
static volatile int begun, ended;
static pthread_barrier_t barrier;

__attribute__((noinline)) static void
begin_here(void)
{
    begun++;
}

__attribute__((noinline)) static void
end_here(void)
{
    ended++;
}

static void
phase(long thread, int phase)
{
    for (int i = 0; i < 100; i++)
        cells[thread][phase][i] = i;
    pthread_barrier_wait(&barrier);
}

static void *
work(void *argument)
{
    long thread = (long)argument;
    phase(thread, 0);
    if (thread == 0)
        begin_here();
    pthread_barrier_wait(&barrier);
    phase(thread, 1);
    if (thread == 0)
        end_here();
    pthread_barrier_wait(&barrier);
    phase(thread, 2);
    return NULL;
}

int
main(void)
{
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&other, NULL, work, (void *)1L);
    work(NULL);
    pthread_join(other, NULL);
    for (int thread = 0; thread < 2; thread++) {
        for (int phase = 0; phase < 3; phase++) {
            printf("%p %p%s", (void *)cells[thread][phase], (void *)(cells[thread][phase] + 100),
                   phase < 2 ? " " : "\n");
        }
    }
    return 0;
}
