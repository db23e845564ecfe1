/* Threads that are cancelled: one at a cancellation point, one asynchronously in a loop without calls, where
 * the signal must be delivered. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile long turns;

static void
clean_up(void *counter)
{
    *(volatile long *)counter = -1;
}

static void *
asks(void *counter)
{
    pthread_cleanup_push(clean_up, counter);
    for (;;) {
        ++*(volatile long *)counter;
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void *
does_not_ask(void *nothing)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        turns++;
    return nothing;
}

int
main(void)
{
    pthread_t first, second;
    long counter = 0;
    void *result;
    pthread_create(&first, NULL, asks, &counter);
    pthread_create(&second, NULL, does_not_ask, NULL);
    while (turns < 100000)
        usleep(1000);
    pthread_cancel(first);
    pthread_cancel(second);
    pthread_join(first, &result);
    printf("%ld %d\n", counter, result == PTHREAD_CANCELED);
    pthread_join(second, &result);
    printf("%d\n", result == PTHREAD_CANCELED);
    return 0;
}
