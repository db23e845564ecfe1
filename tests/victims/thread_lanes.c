/*
 * Threads that send to the same rank with the same tag on the same communicator, and threads that
 * receive there, all at once. MPI does not define the order of concurrent calls: the program accepts any
 * order. For two ranks.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include "say.h"

enum { THREADS = 4, MESSAGES = 200, TAG = 3 };

static int rank;

static void *send_many(void *unused)
{
    int word = rank;
    for (int i = 0; i < MESSAGES; i++)
        MPI_Send(&word, 1, MPI_INT, 1 - rank, TAG, MPI_COMM_WORLD);
    return unused;
}

static void *receive_many(void *unused)
{
    int word = -1;
    for (int i = 0; i < MESSAGES; i++) {
        if (i % 2 == 0) {
            MPI_Recv(&word, 1, MPI_INT, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Request request;
            MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (word != 1 - rank)
            say("%d got %d instead of %d", rank, word, 1 - rank);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[2 * THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_create(&threads[i], NULL, i % 2 == 0 ? send_many : receive_many, NULL);
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_join(threads[i], NULL);
    say("%d ok", rank);
    MPI_Finalize();
    return 0;
}
