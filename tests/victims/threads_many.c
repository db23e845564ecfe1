/*
 * MPI_THREAD_MULTIPLE for any number of iterations: several threads on each rank, each of which
 * exchanges messages with the same thread of the ranks on its left and right, on a communicator
 * that only these threads use.
 *
 *     threads_many [iterations] [threads]
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include "say.h"

enum { TO_LEFT, TO_RIGHT };

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    int number, wrong;
};

static int rank, size, iterations;

static void *work(void *argument)
{
    struct worker *me = argument;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int i = 0; i < iterations; i++) {
        int out[3] = { rank, me->number, i }, in[2][3];
        MPI_Request requests[4];
        MPI_Irecv(in[0], 3, MPI_INT, left, TO_RIGHT, me->comm, &requests[0]);
        MPI_Irecv(in[1], 3, MPI_INT, right, TO_LEFT, me->comm, &requests[1]);
        MPI_Isend(out, 3, MPI_INT, left, TO_LEFT, me->comm, &requests[2]);
        MPI_Isend(out, 3, MPI_INT, right, TO_RIGHT, me->comm, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        me->wrong += in[0][0] != left || in[0][1] != me->number || in[0][2] != i;
        me->wrong += in[1][0] != right || in[1][1] != me->number || in[1][2] != i;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, wrong = 0;
    iterations = argc > 1 ? atoi(argv[1]) : 100;
    int threads = argc > 2 ? atoi(argv[2]) : 8;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (rank == 0)
            say("this MPI has no MPI_THREAD_MULTIPLE");
        MPI_Finalize();
        return 0;
    }

    struct worker *workers = calloc(threads, sizeof *workers);
    for (int t = 0; t < threads; t++) {
        workers[t].number = t;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[t].comm);
    }
    for (int t = 0; t < threads; t++)
        pthread_create(&workers[t].thread, NULL, work, &workers[t]);
    for (int t = 0; t < threads; t++) {
        pthread_join(workers[t].thread, NULL);
        wrong += workers[t].wrong;
        MPI_Comm_free(&workers[t].comm);
    }
    free(workers);

    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && wrong > 0)
        say("%d messages were wrong", wrong);
    else if (rank == 0)
        say("threads ok");
    MPI_Finalize();
    return wrong > 0;
}
