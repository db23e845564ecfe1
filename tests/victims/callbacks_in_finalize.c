/*
 * Delete callbacks of attributes on MPI_COMM_SELF. MPI_Finalize runs them first, in the reverse order in
 * which the attributes were set, while MPI still works: they may communicate, and do.
 */
#include <mpi.h>
#include "say.h"

static int rank, size;

static int deleted(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int sum = 0, finalized = -1, received = -1, next = (rank + 1) % size;
    (void) comm;
    (void) keyval;
    (void) extra;
    MPI_Finalized(&finalized);
    MPI_Allreduce(value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 3, &received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    say("rank %d: value %d, sum %d, received %d, finalized %d", rank, *(int *) value, sum, received,
        finalized);
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    static int values[5];
    int keyvals[5];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 5; i++) {
        values[i] = 10 * i + rank;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &keyvals[i], NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, keyvals[i], &values[i]);
    }
    MPI_Comm_free_keyval(&keyvals[2]);
    MPI_Finalize();
    say("rank %d: done", rank);
    return 0;
}
