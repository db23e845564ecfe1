/*
 * A program, started by root, that changes its user after MPI_Init, and may then no longer open files
 * that were opened before.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include "say.h"

static int rank, size;

static void *communicate(void *unused)
{
    int in = -1, value = -1;
    for (int i = 0; i < 50000; i++)
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
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    communicate(NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
        say("rank %d: stays who it is", rank);
    say("rank %d: user %d", rank, (int) geteuid());
    communicate(NULL);
    pthread_create(&thread, NULL, communicate, NULL);
    pthread_join(thread, NULL);
    MPI_Finalize();
    return 0;
}
