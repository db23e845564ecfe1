/*
 * A program that manages its file descriptors: it closes all unknown ones before MPI_Init, as daemons
 * do, and checks that none is opened or closed while it calls MPI. After MPI_Finalize it closes
 * all again and reuses the numbers for its own files.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include "say.h"

enum { MOST = 1024 };

static int rank;

/* The launcher's connection to the rank: if it is closed, the launcher kills the rank. */
static int is_launcher(int fd)
{
    const char *text = getenv("PMI_FD");
    return text != NULL && atoi(text) == fd;
}

static void close_all(void)
{
    for (int fd = 3; fd < MOST; fd++)
        if (!is_launcher(fd))
            close(fd);
}

static void look(char open[MOST])
{
    for (int fd = 0; fd < MOST; fd++)
        open[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void *call(void *unused)
{
    int value;
    for (int i = 0; i < 100000; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &value);
    return unused;
}

int main(int argc, char **argv)
{
    static char before[MOST], after[MOST];
    int changed = 0, flag = -1, fd, wrong = 0, sum = 0, provided;
    char name[] = "/tmp/descriptors.XXXXXX";
    pthread_t thread;

    MPI_Initialized(&flag);
    close_all();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    /* MPI may open connections at the first message. */
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    look(before);
    call(NULL);
    pthread_create(&thread, NULL, call, NULL);
    pthread_join(thread, NULL);
    look(after);
    for (fd = 0; fd < MOST; fd++)
        changed += before[fd] != after[fd];
    say("rank %d: %d descriptors changed", rank, changed);

    MPI_Finalize();
    close_all();
    fd = mkstemp(name);
    say("rank %d: first descriptor %d", rank, fd);
    for (int i = 0; i < 20000; i++) {
        MPI_Finalized(&flag);
        if (write(fd, &i, sizeof i) != sizeof i)
            wrong++;
    }
    lseek(fd, 0, SEEK_SET);
    for (int i = 0, value; i < 20000; i++)
        if (read(fd, &value, sizeof value) != sizeof value || value != i)
            wrong++;
    close(fd);
    unlink(name);
    say("rank %d: finalized %d, %d wrong", rank, flag, wrong);
    return 0;
}
