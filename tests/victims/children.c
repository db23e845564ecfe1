/*
 * Child processes of every kind: fork with _exit and exit, with MPI calls that are allowed at any
 * time, with exec, system, popen, posix_spawn, vfork; while the parent continues to call MPI.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include "say.h"

extern char **environ;

static int rank, size;

static void say_end(const char *what, pid_t child)
{
    int status = 0;
    waitpid(child, &status, 0);
    say("rank %d: %s: exit code %d, signal %d", rank, what, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
        WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void communicate(void)
{
    int next = (rank + 1) % size, in = -1;
    for (int i = 0; i < 100; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, next, i, &in, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    if (in != (rank + size - 1) % size)
        say("rank %d: wrong data", rank);
}

int main(int argc, char **argv)
{
    pid_t child;
    char word[64] = "";
    FILE *pipe;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    communicate();

    if ((child = fork()) == 0)
        _exit(11);
    communicate();
    say_end("fork, _exit", child);

    if ((child = fork()) == 0)
        exit(12);
    communicate();
    say_end("fork, exit", child);

    if ((child = fork()) == 0) {
        int initialized = -1, version = -1, subversion = -1;
        for (int i = 0; i < 5000; i++) {
            MPI_Initialized(&initialized);
            MPI_Get_version(&version, &subversion);
        }
        say("child of rank %d: initialized %d, version %d.%d", rank, initialized, version, subversion);
        _exit(13);
    }
    communicate();
    say_end("fork, MPI_Initialized", child);

    if ((child = fork()) == 0) {
        execl("/bin/echo", "echo", "> echo after fork", NULL);
        _exit(99);
    }
    communicate();
    say_end("fork, exec", child);

    if ((child = fork()) == 0) {
        char *none[] = { NULL };
        execle("/bin/sh", "sh", "-c", "echo \"> sh without an environment\"; exit 14", NULL, none);
        _exit(99);
    }
    communicate();
    say_end("fork, execle", child);

    if ((child = vfork()) == 0) {
        execl("/bin/echo", "echo", "> echo after vfork", NULL);
        _exit(99);
    }
    communicate();
    say_end("vfork, exec", child);

    char *arguments[] = { "echo", "> echo after posix_spawn", NULL };
    posix_spawn(&child, "/bin/echo", NULL, NULL, arguments, environ);
    communicate();
    say_end("posix_spawn", child);

    say("rank %d: system %d", rank, WEXITSTATUS(system("echo '> system'; exit 15")));
    communicate();
    pipe = popen("echo word; exit 16", "r");
    if (pipe != NULL && fgets(word, sizeof word, pipe) != NULL)
        say("rank %d: popen %.4s %d", rank, word, WEXITSTATUS(pclose(pipe)));
    communicate();

    if ((child = fork()) == 0)
        kill(getpid(), 9);
    communicate();
    say_end("fork, killed", child);
    MPI_Finalize();
    say("rank %d: finalized", rank);
    return 0;
}
