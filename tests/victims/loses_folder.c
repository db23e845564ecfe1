/*
 * While the program runs, it removes the folder that a tool writes to, which the first argument
 * names. Without an argument, or without such a folder, nothing is removed.
 */
#define _GNU_SOURCE
#include <ftw.h>
#include <mpi.h>
#include <pthread.h>
#include "say.h"

static int rank, size;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void) status;
    (void) type;
    (void) where;
    return remove(path);
}

static void *call(void *unused)
{
    int value = -1, in = -1, wrong = 0;
    for (int i = 0; i < 100000; i++) {
        MPI_Comm_rank(MPI_COMM_WORLD, &value);
        wrong += value != rank;
    }
    for (int i = 0; i < 100; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, i, &in, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        wrong += in != i;
    }
    say("rank %d: %d wrong", rank, wrong);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    call(NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && argc > 1)
        nftw(argv[1], remove_one, 16, FTW_DEPTH | FTW_PHYS);
    MPI_Barrier(MPI_COMM_WORLD);
    call(NULL);
    pthread_create(&thread, NULL, call, NULL);
    pthread_join(thread, NULL);
    MPI_Finalize();
    return 0;
}
