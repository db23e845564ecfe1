/* Kills itself with SIGKILL after a known number of stores. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile long cells[1000];

int
main(void)
{
    for (int turn = 0; turn < 50; turn++) {
        for (int i = 0; i < 1000; i++)
            cells[i] = turn;
    }
    printf("buffer %p %p\n", (void *)cells, (void *)(cells + 1000));
    fflush(stdout);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}
