/*
 * pthread_cancel, in three ways: a thread that is cancelled before its first MPI call but only
 * reaches a cancellation point of its own after it; one that is cancelled while it polls; one
 * that is cancelled inside a callback inside an MPI call. Cleanup handlers run, and call MPI.
 *
 * With an argument, the second is left out: it polls a different number of times in every run.
 *
 * A tool must add no cancellation point to an MPI call, and must not stop the unwinding.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include "say.h"

static int rank;
static atomic_int step;

static void clean_up(void *what)
{
    int size = -1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    say("rank %d: cleaned up after %s, size %d, step %d", rank, (char *) what, size, step);
}

static void *cancelled_before(void *unused)
{
    int value = -1;
    pthread_cleanup_push(clean_up, "the first call");
    step = 0;
    pthread_cancel(pthread_self());
    step = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &value);
    step = 2;
    for (int i = 0; i < 20000; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &value);
    step = 3;
    pthread_testcancel();
    step = 4;
    pthread_cleanup_pop(0);
    return unused;
}

static void *cancelled_while_polling(void *unused)
{
    MPI_Request request;
    int data, flag = 0, old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    MPI_Irecv(&data, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_SELF, &request);
    pthread_cleanup_push(clean_up, "polling");
    step = 1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    while (!flag) {
        pthread_testcancel();
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    }
    pthread_cleanup_pop(0);
    return unused;
}

static void cancel_here(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void) in;
    (void) inout;
    (void) n;
    (void) type;
    step = 5;
    pthread_cancel(pthread_self());
    pthread_testcancel();
    step = 6;
}

static void *cancelled_inside(void *op)
{
    int in = 1, out = 2;
    pthread_cleanup_push(clean_up, "a callback");
    MPI_Reduce_local(&in, &out, 1, MPI_INT, *(MPI_Op *) op);
    pthread_cleanup_pop(0);
    return NULL;
}

static void say_end(pthread_t thread, const char *what)
{
    void *result = NULL;
    pthread_join(thread, &result);
    say("rank %d: %s: %s", rank, what, result == PTHREAD_CANCELED ? "cancelled" : "ended");
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int provided, sum = 0, value = 1;
    MPI_Op op;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    pthread_create(&thread, NULL, cancelled_before, NULL);
    say_end(thread, "cancelled before its first call");

    if (argc == 1) {
        step = 0;
        pthread_create(&thread, NULL, cancelled_while_polling, NULL);
        while (step == 0)
            usleep(1000);
        usleep(10000);
        pthread_cancel(thread);
        say_end(thread, "cancelled while polling");
        MPI_Send(&value, 1, MPI_INT, 0, 9, MPI_COMM_SELF);
    }

    MPI_Op_create(cancel_here, 1, &op);
    pthread_create(&thread, NULL, cancelled_inside, &op);
    say_end(thread, "cancelled inside");
    MPI_Op_free(&op);

    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: sum %d", rank, sum);
    MPI_Finalize();
    return 0;
}
