/*
 * Calls inside calls inside calls, three hundred deep: an operation that reduces with an operation,
 * and attributes of datatypes whose deletion deletes the next: deeper than any fixed table of open calls.
 */
#include <mpi.h>
#include "say.h"

enum { DEEP = 300 };

static MPI_Op op;
static MPI_Datatype types[DEEP];
static int rank, depth, deepest, deleted, keyval;

static void reduce(void *in, void *inout, int *n, MPI_Datatype *type)
{
    int here = ++depth, value = -1, got = -1;
    MPI_Request request;
    if (depth > deepest)
        deepest = depth;
    /* A wildcard whose status is ignored, at every depth. */
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &request);
    MPI_Send(&here, 1, MPI_INT, 0, here, MPI_COMM_SELF);
    if (depth < DEEP)
        MPI_Reduce_local(in, inout, *n, *type, op);
    MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    MPI_Comm_rank(MPI_COMM_WORLD, &value);
    if (value != rank)
        say("rank %d: wrong rank", rank);
    ((int *) inout)[0] += ((int *) in)[0] + (got == here);
    depth--;
}

static int delete(MPI_Datatype type, int key, void *value, void *extra)
{
    long i = (long) value;
    (void) type;
    (void) extra;
    deleted++;
    return i + 1 < DEEP ? MPI_Type_delete_attr(types[i + 1], key) : MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int in = 1, out = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Op_create(reduce, 1, &op);
    for (int i = 0; i < 3; i++)
        MPI_Reduce_local(&in, &out, 1, MPI_INT, op);
    say("rank %d: %d deep, result %d", rank, deepest, out);
    MPI_Op_free(&op);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete, &keyval, NULL);
    for (long i = 0; i < DEEP; i++) {
        MPI_Type_dup(MPI_INT, &types[i]);
        MPI_Type_set_attr(types[i], keyval, (void *) i);
    }
    MPI_Type_delete_attr(types[0], keyval);
    say("rank %d: %d deleted", rank, deleted);
    for (int i = 0; i < DEEP; i++)
        MPI_Type_free(&types[i]);
    MPI_Type_free_keyval(&keyval);
    MPI_Finalize();
    return 0;
}
