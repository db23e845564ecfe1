/*
 * MPI_THREAD_MULTIPLE under load: eight threads on each rank, all sending and receiving at once,
 * with wildcards, collectives on communicators of their own, and requests.
 */
#include <mpi.h>
#include <pthread.h>
#include "say.h"

enum { THREADS = 8, ROUNDS = 50 };

static int rank, size;
static MPI_Comm comms[THREADS];
static long results[THREADS];

static void *work(void *argument)
{
    long t = (long) argument, total = 0;
    MPI_Comm comm = comms[t];
    int next = (rank + 1) % size;
    for (int i = 0; i < ROUNDS; i++) {
        int out = rank * 1000 + i, in[2] = { -1, -1 }, sum = 0;
        MPI_Request requests[3];
        MPI_Irecv(&in[0], 1, MPI_INT, MPI_ANY_SOURCE, i, comm, &requests[0]);
        MPI_Irecv(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[1]);
        MPI_Isend(&out, 1, MPI_INT, next, i, comm, &requests[2]);
        MPI_Send(&out, 1, MPI_INT, next, i + ROUNDS, comm);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        if (i % 10 == 0)
            MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM, comm);
        total = (total * 31 + in[0] + 7 * in[1] + sum) % 1000003;
    }
    results[t] = total;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    say("rank %d: thread level %d", rank, provided == MPI_THREAD_MULTIPLE);
    for (long t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    for (long t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *) t);
    for (long t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        say("rank %d: thread %ld: %ld", rank, t, results[t]);
        MPI_Comm_free(&comms[t]);
    }
    MPI_Finalize();
    return 0;
}
