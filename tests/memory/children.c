/* Forks, and executes another program: itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long cells[256];

static void
work(long turns)
{
    for (long i = 0; i < turns; i++)
        cells[i % 256] += i;
}

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        work(3000);
        printf("again %ld\n", cells[7]);
        return 5;
    }
    int status;
    work(1000);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        work(2000);
        printf("child %ld\n", cells[7]);
        fflush(stdout);
        _exit(3);
    }
    waitpid(child, &status, 0);
    printf("status %d\n", WEXITSTATUS(status));
    fflush(stdout);
    child = fork();
    if (child == 0) {
        char *const words[] = { argv[0], "again", NULL }, *const nothing[] = { NULL };
        execve("/proc/self/exe", words, nothing);
        _exit(9);
    }
    waitpid(child, &status, 0);
    printf("status %d\n", WEXITSTATUS(status));
    printf("shell %d\n", WEXITSTATUS(system("exit 4")));
    work(500);
    printf("parent %ld\n", cells[7]);
    return 0;
}
