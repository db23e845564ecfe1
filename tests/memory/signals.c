/* Signals at any time, handled on an alternative stack, while the program counts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile long ticks, seen;
static volatile long data[1024];

static void
at_tick(int signal)
{
    (void)signal;
    ticks++;
    for (int i = 0; i < 16; i++)
        seen += data[i] != 0;
}

int
main(void)
{
    stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
    sigaltstack(&stack, NULL);
    struct sigaction action = { .sa_handler = at_tick, .sa_flags = SA_ONSTACK | SA_RESTART };
    sigaction(SIGPROF, &action, NULL);
    struct itimerval every = { { 0, 500 }, { 0, 500 } };
    setitimer(ITIMER_PROF, &every, NULL);
    long turns = 0;
    while (ticks < 20) {
        for (int i = 0; i < 1024; i++)
            data[i]++;
        turns++;
    }
    every = (struct itimerval){ { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_PROF, &every, NULL);
    for (int i = 0; i < 1024; i++) {
        if (data[i] != turns)
            return 1;
    }
    printf("counted\n");
    return 0;
}
