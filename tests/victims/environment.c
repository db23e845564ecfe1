/*
 * A program that changes its environment: removes LD_PRELOAD, clears all variables, changes the
 * directory, sets a umask without permissions; before and after MPI_Init, and in threads that
 * start afterwards.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "say.h"

extern char **environ;

static int rank, size;

static void *communicate(void *unused)
{
    int in = -1, value = -1;
    for (int i = 0; i < 20000; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &value);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (value != rank || in != (rank + size - 1) % size)
        say("rank %d: wrong", rank);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int provided, entries = 0;
    char *directory;

    unsetenv("LD_PRELOAD");
    umask(0777);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    communicate(NULL);

    if (chdir("/") != 0)
        say("rank %d: no root directory", rank);
    clearenv();
    communicate(NULL);
    pthread_create(&thread, NULL, communicate, NULL);
    pthread_join(thread, NULL);

    for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
        entries++;
    directory = getcwd(NULL, 0);
    say("rank %d: %d variables, in %s, umask %o", rank, entries, directory, umask(0));
    free(directory);
    say("rank %d: system %d", rank, WEXITSTATUS(system("echo \"> a shell with ${LD_PRELOAD-nothing} preloaded\"")));
    MPI_Finalize();
    return 0;
}
