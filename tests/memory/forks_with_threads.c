/* Forks while other threads write and allocate without a pause. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long cells[8];
static volatile int stop;

static void *
work(void *number)
{
    while (!stop) {
        cells[(long)number]++;
        free(malloc(100));
    }
    return NULL;
}

int
main(void)
{
    pthread_t threads[4];
    int good = 0;
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int turn = 0; turn < 10; turn++) {
        pid_t child = fork();
        if (child == 0) {
            long sum = 0;
            for (int i = 0; i < 1000; i++)
                sum += cells[i % 8];
            _exit(sum >= 0 ? 42 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 42;
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d\n", good);
    return 0;
}
