/*
 * A thread uses a communicator and ends. Then the main thread frees the communicator and makes so many calls that
 * they are encoded before the program ends. The thread's calls must be encoded before the free, with the communicator
 * that they used.
 */
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>

static MPI_Comm comm;

static void *use(void *unused)
{
    int value = 1, got;
    for (int i = 0; i < 3; i++)
        MPI_Sendrecv(&value, 1, MPI_INT, 0, i, &got, 1, MPI_INT, 0, i, comm, MPI_STATUS_IGNORE);
    return unused;
}

int main(void)
{
    int provided, rank;
    pthread_t thread;

    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    for (int round = 0; round < 3; round++) {
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        pthread_create(&thread, NULL, use, NULL);
        pthread_join(thread, NULL);
        MPI_Comm_free(&comm);
        for (int i = 0; i < 10000; i++)
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    MPI_Finalize();
    return 0;
}
