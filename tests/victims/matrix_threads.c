/*
 * Four threads on each of two ranks, all of them inside MPI at once. Each communicates with the same thread
 * of the other rank over a separate communicator. The calls of each thread must be in its own order.
 *
 * The main thread is number 0. The others make their first call one after the other, so that
 * their numbers are known. A thread that starts later gets a new number.
 */
#include <mpi.h>
#include <pthread.h>
#include "expect.h"

enum { THREADS = 4, ROUNDS = 50 };

static const MPI_Comm world = MPI_COMM_WORLD;
static MPI_Comm lines[THREADS];
static int rank, peer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static int started;

static void talk(int me)
{
    int data[2] = { me, 0 }, got[2], flag;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Comm line = lines[me];

    for (int round = 0; round < ROUNDS; round++) {
        data[1] = round;
        MPI_Sendrecv(data, 2, MPI_INT, peer, round, got, 2, MPI_INT, peer, round, line, &status);
        CALLED("MPI_Sendrecv(sendbuf=%p, sendcount=2, sendtype=MPI_INT, dest=%d, sendtag=%d, recvbuf=%p, recvcount=2, recvtype=MPI_INT, source=%d, recvtag=%d, comm=comm%d, status={source=%d, tag=%d, bytes=8})",
               (void *)data, peer, round, (void *)got, peer, round, me + 1, peer, round);
        MPI_Irecv(got, 2, MPI_INT, peer, 1000 + me, line, &requests[0]);
        /* Which request numbers are free depends on the other threads. */
        CALLED("MPI_Irecv(buf=%p, count=2, datatype=MPI_INT, source=%d, tag=%d, comm=comm%d, request=_)", (void *)got, peer, 1000 + me, me + 1);
        MPI_Isend(data, 1, MPI_INT, peer, 1000 + me, line, &requests[1]);
        CALLED("MPI_Isend(buf=%p, count=1, datatype=MPI_INT, dest=%d, tag=%d, comm=comm%d, request=_)", (void *)data, peer, 1000 + me, me + 1);
        do {
            MPI_Test(&requests[0], &flag, &status);
            if (!flag)
                CALLED("MPI_Test(request=_, flag=false, status=unset)");
        } while (!flag);
        CALLED("MPI_Test(request=_, flag=true, status={source=%d, tag=%d, bytes=4})", peer, 1000 + me);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        CALLED("MPI_Wait(request=_, status=MPI_STATUS_IGNORE)");
        if (round % 10 == 0) {
            MPI_Barrier(line);
            CALLED("MPI_Barrier(comm=comm%d)", me + 1);
        }
    }
}

static void *run(void *argument)
{
    const int me = *(int *)argument;
    int flag;

    expect_thread = me;
    pthread_mutex_lock(&lock);
    while (started != me)
        pthread_cond_wait(&turn, &lock);
    MPI_Is_thread_main(&flag);
    CALLED("MPI_Is_thread_main(flag=%s)", me == 0 ? "true" : "false");
    started++;
    pthread_cond_broadcast(&turn);
    pthread_mutex_unlock(&lock);
    if (me < THREADS)
        talk(me);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS + 1];
    int numbers[THREADS + 1], provided;

    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    CALLED("MPI_Init_thread(argc=NULL, argv=NULL, required=MPI_THREAD_MULTIPLE, provided=MPI_THREAD_MULTIPLE)");
    MPI_Comm_rank(world, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);
    MPI_Query_thread(&provided);
    CALLED("MPI_Query_thread(provided=MPI_THREAD_MULTIPLE)");
    peer = 1 - rank;
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(world, &lines[i]);
        CALLED("MPI_Comm_dup(comm=MPI_COMM_WORLD, newcomm=comm%d)", i + 1);
    }

    for (int i = 0; i <= THREADS; i++)
        numbers[i] = i;
    for (int i = 1; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, &numbers[i]);
    run(&numbers[0]);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    /* Started after another thread has ended. */
    pthread_create(&threads[THREADS], NULL, run, &numbers[THREADS]);
    pthread_join(threads[THREADS], NULL);

    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_free(&lines[i]);
        CALLED("MPI_Comm_free(comm=comm%d)", i + 1);
    }
    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(rank);
    return 0;
}
