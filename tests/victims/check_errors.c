/* One error, which the argument chooses. Its line has the word in a comment. Two ranks. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int rank, data[4], got[4];

/* No communication is allowed in a reduction operation, not even with oneself. */
static void sum(void *in, void *out, int *count, MPI_Datatype *type)
{
    int from = 1, to;
    for (int i = 0; i < *count; i++)
        ((int *) out)[i] += ((int *) in)[i];
    MPI_Sendrecv(&from, 1, MPI_INT, 0, 0, &to, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE); /* callback */
    (void) type;
}

int main(int argc, char **argv)
{
    const char *error = argc > 1 ? argv[1] : "";
    int peer;
    MPI_Request request;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    if (!strcmp(error, "callback")) {
        MPI_Op op;
        MPI_Op_create(sum, 1, &op);
        MPI_Allreduce(data, got, 1, MPI_INT, op, MPI_COMM_WORLD);
        MPI_Op_free(&op);
    }
    if (!strcmp(error, "started-twice")) {
        MPI_Recv_init(got, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Start(&request); /* started-twice */
    }
    if (!strcmp(error, "never-freed")) {
        MPI_Send_init(data, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request); /* never-freed */
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
#if MPI_VERSION >= 4
    if (!strcmp(error, "not-started")) {
        MPI_Psend_init(data, 2, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Pready(0, request); /* not-started */
    }
#endif
    if (!strcmp(error, "no-epoch") || !strcmp(error, "no-lock")) {
        MPI_Win_create(got, sizeof got, sizeof *got, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        if (!strcmp(error, "no-lock"))
            MPI_Win_unlock(peer, win); /* no-lock */
        else
            MPI_Put(data, 1, MPI_INT, peer, 0, 1, MPI_INT, win); /* no-epoch */
        MPI_Win_free(&win);
    }
    MPI_Finalize();
    return 0;
}
