/*
 * Two hundred short-lived threads, twenty at a time, each of which calls MPI a few times. Some end by
 * pthread_exit, some are detached, one ends after MPI_Finalize.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include "say.h"

static int rank, size;
static atomic_int calls, detached;

static void *work(void *argument)
{
    long t = (long) argument;
    int in = -1, out = (int) t, value;
    MPI_Comm_rank(MPI_COMM_WORLD, &value);
    if (value == rank)
        calls++;
    MPI_Sendrecv(&out, 1, MPI_INT, 0, (int) t, &in, 1, MPI_INT, MPI_ANY_SOURCE, (int) t, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    if (in == out)
        calls++;
    if (t % 5 == 4)
        detached--;
    if (t % 3 == 0)
        pthread_exit(NULL);
    return NULL;
}

static void *wait_for_the_end(void *unused)
{
    int finalized = 0;
    while (!finalized) {
        MPI_Finalized(&finalized);
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[20], last;
    int provided, sum = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pthread_create(&last, NULL, wait_for_the_end, NULL);
    for (long t = 0; t < 200; t += 20) {
        for (long i = 0; i < 20; i++) {
            if (i % 5 == 4)
                detached++;
            pthread_create(&threads[i], NULL, work, (void *) (t + i));
            if (i % 5 == 4)
                pthread_detach(threads[i]);
        }
        for (long i = 0; i < 20; i++)
            if (i % 5 != 4)
                pthread_join(threads[i], NULL);
        while (detached > 0)
            usleep(1000);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: %d calls, sum %d", rank, calls, sum);
    MPI_Finalize();
    pthread_join(last, NULL);
    say("rank %d: all gone", rank);
    return 0;
}
