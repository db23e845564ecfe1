/* Ways to end while other threads run. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile long turns;

static void *
work(void *nothing)
{
    for (;;)
        turns++;
    return nothing;
}

static void *
leave(void *nothing)
{
    exit(7);
    return nothing;
}

int
main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "return";
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, work, NULL);
    while (turns < 10000)
        usleep(1000);
    printf("%s\n", way);
    fflush(stdout);
    if (strcmp(way, "_exit") == 0)
        _exit(3);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "thread") == 0) {
        pthread_create(&thread, NULL, leave, NULL);
        work(NULL);
    }
    if (strcmp(way, "fault") == 0)
        *(volatile int *)8 = 1;
    if (strcmp(way, "signal") == 0)
        raise(SIGTERM);
    return 9;
}
