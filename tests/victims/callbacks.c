/*
 * Callbacks of every kind that call MPI, most of them in tail position: compiled with -O2 such a
 * call becomes a jump, and MPI itself appears to be the caller.
 *
 * All these calls are the program's. A tool must record them, and return their results.
 */
#include <mpi.h>
#include "say.h"

static int rank, calls;
static MPI_Comm other;

static void operate(void *in, void *inout, int *n, MPI_Datatype *type)
{
    for (int i = 0; i < *n; i++)
        ((int *) inout)[i] += ((int *) in)[i];
    calls++;
    MPI_Type_size(*type, in); /* the last statement, in tail position */
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void) keyval;
    (void) extra;
    *(void **) out = (char *) in + 1;
    calls++;
    return MPI_Comm_test_inter(comm, flag) == MPI_SUCCESS ? (*flag = 1, MPI_SUCCESS) : MPI_ERR_OTHER;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void) comm;
    (void) keyval;
    (void) value;
    calls++;
    return MPI_Comm_size(other, extra);
}

static void handle(MPI_Comm *comm, int *code, ...)
{
    calls++;
    MPI_Comm_rank(*comm, code);
}

static int query(void *extra, MPI_Status *status)
{
    (void) extra;
    status->MPI_SOURCE = status->MPI_TAG = 3;
    MPI_Status_set_cancelled(status, 0);
    calls++;
    return MPI_Status_set_elements(status, MPI_INT, 4);
}

static int release(void *extra)
{
    calls++;
    return MPI_Comm_rank(other, extra);
}

static int cancel(void *extra, int complete)
{
    calls++;
    (void) complete;
    return MPI_Grequest_complete(*(MPI_Request *) extra);
}

int main(int argc, char **argv)
{
    int keyval, data[8], result[8] = { 0 }, flag = 0, size = 0, count = 0, cancelled = 0;
    void *value = NULL;
    MPI_Op op;
    MPI_Comm comm;
    MPI_Errhandler handler, old;
    MPI_Request request;
    MPI_Status status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);

    MPI_Op_create(operate, 1, &op);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++)
            data[i] = rank + i;
        MPI_Allreduce(data, result, 8, MPI_INT, op, MPI_COMM_WORLD);
        MPI_Reduce_local(data, result, 8, MPI_INT, op);
    }
    MPI_Op_free(&op);
    say("rank %d: operation, %d", rank, result[7]);

    calls = 0;
    MPI_Comm_create_keyval(copy, delete, &keyval, &size);
    MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, data);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_get_attr(comm, keyval, &value, &flag);
    say("rank %d: copied %d, by %d", rank, flag, (int) ((char *) value - (char *) data));
    MPI_Comm_free(&comm);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
    MPI_Comm_free_keyval(&keyval);
    say("rank %d: attributes, %d calls, size %d", rank, calls, size);

    calls = 0;
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &old);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    say("rank %d: send %s", rank, MPI_Send(data, 1, MPI_INT, 99, 0, MPI_COMM_WORLD) ? "failed" : "succeeded");
    MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, old);
    MPI_Errhandler_free(&handler);

    calls = 0;
    size = -1;
    MPI_Grequest_start(query, release, cancel, &size, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    say("rank %d: request, %d calls, count %d, tag %d, rank %d", rank, calls, count, status.MPI_TAG, size);
    calls = 0;
    static MPI_Request cancellable;
    MPI_Grequest_start(query, release, cancel, &cancellable, &cancellable);
    MPI_Cancel(&cancellable);
    request = cancellable;
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    say("rank %d: cancelled %d, %d calls", rank, cancelled, calls);

    MPI_Comm_free(&other);
    MPI_Finalize();
    return 0;
}
