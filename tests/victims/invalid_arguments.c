/*
 * Calls with arguments that MPI refuses, first under MPI_ERRORS_RETURN, then with an error
 * handler that counts.
 *
 * A tool that queries MPI about the program's arguments (how many ranks does this communicator
 * have?) would cause another call of the handler for every invalid argument.
 */
#include <mpi.h>
#include "say.h"

static int handled;

static void count_errors(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    (void) code;
    handled++;
}

#define TRY(call)                                                  \
    do {                                                           \
        handled = 0;                                               \
        int code = (call);                                         \
        int class = 0;                                             \
        MPI_Error_class(code, &class);                             \
        say("%s: class %d, handled %d times", #call, class, handled); \
    } while (0)

static void try_all(void)
{
    int data[4] = { 0 }, four[4] = { 1, 1, 1, 1 }, n, flag;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Group group;
    MPI_Status status;
    MPI_Comm_group(MPI_COMM_WORLD, &group);

    /* Point to point. */
    TRY(MPI_Send(data, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
    TRY(MPI_Send(data, -1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    TRY(MPI_Send(data, 1, MPI_INT, 99, 0, MPI_COMM_WORLD));
    TRY(MPI_Send(data, 1, MPI_INT, 0, -77, MPI_COMM_WORLD));
    TRY(MPI_Send(data, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD));
    TRY(MPI_Recv(data, -1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status));
    TRY(MPI_Recv(data, 1, MPI_INT, 99, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TRY(MPI_Irecv(data, 1, MPI_INT, 99, 0, MPI_COMM_WORLD, &request));
    TRY(MPI_Irecv(data, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_NULL, &request));
    TRY(MPI_Sendrecv(data, 1, MPI_INT, 99, 0, data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status));
    TRY(MPI_Probe(99, 0, MPI_COMM_WORLD, &status));
#ifndef OPEN_MPI /* aborts with any handler */
    TRY(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_NULL, &flag, MPI_STATUS_IGNORE));
#endif
    TRY(MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE));
#ifndef MPI_ABI /* converts the handles without a check */
    TRY(MPI_Waitall(1, NULL, MPI_STATUSES_IGNORE));
    TRY(MPI_Wait(NULL, MPI_STATUS_IGNORE));
#endif
    TRY(MPI_Get_count(&status, MPI_DATATYPE_NULL, &n));

    /* Collectives with arrays whose length depends on the communicator. */
    TRY(MPI_Bcast(data, 1, MPI_INT, 99, MPI_COMM_WORLD));
    TRY(MPI_Bcast(data, 1, MPI_INT, 0, MPI_COMM_NULL));
    TRY(MPI_Alltoallv(data, four, four, MPI_INT, data, four, four, MPI_INT, MPI_COMM_NULL));
    TRY(MPI_Allgatherv(data, 1, MPI_INT, data, four, four, MPI_INT, MPI_COMM_NULL));
    TRY(MPI_Gatherv(data, 1, MPI_INT, data, four, four, MPI_INT, 99, MPI_COMM_WORLD));
    TRY(MPI_Gatherv(data, 1, MPI_INT, data, four, four, MPI_INT, 0, MPI_COMM_NULL));
    TRY(MPI_Scatterv(data, four, four, MPI_INT, data, 1, MPI_INT, -5, MPI_COMM_WORLD));
    TRY(MPI_Reduce_scatter(data, data + 2, four, MPI_INT, MPI_SUM, MPI_COMM_NULL));
    TRY(MPI_Allreduce(data, data + 2, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD));

    /* Topologies, on a communicator without one, and on no communicator. */
    handled = 0; /* MPICH 4.0 reads the number of neighbours from uninitialised memory, so the class varies */
    n = MPI_Neighbor_allgatherv(data, 1, MPI_INT, data, four, four, MPI_INT, MPI_COMM_WORLD);
    say("MPI_Neighbor_allgatherv: %s, handled %d times", n ? "error" : "success", handled);
    TRY(MPI_Neighbor_alltoallv(data, four, four, MPI_INT, data, four, four, MPI_INT, MPI_COMM_NULL));
    TRY(MPI_Cart_coords(MPI_COMM_WORLD, 0, 4, four));
    TRY(MPI_Cart_rank(MPI_COMM_WORLD, four, &n));
    TRY(MPI_Cart_rank(MPI_COMM_NULL, four, &n));
    TRY(MPI_Cart_sub(MPI_COMM_WORLD, four, &comm));
    TRY(MPI_Graph_get(MPI_COMM_WORLD, 4, 4, four, four));
    TRY(MPI_Graph_neighbors(MPI_COMM_WORLD, 0, 4, four));
    TRY(MPI_Graph_neighbors_count(MPI_COMM_NULL, 0, &n));
    TRY(MPI_Dist_graph_neighbors(MPI_COMM_WORLD, 1, four, four, 1, four, four));
    TRY(MPI_Cart_create(MPI_COMM_NULL, 1, four, four, 0, &comm));
    TRY(MPI_Cart_create(MPI_COMM_WORLD, -1, four, four, 0, &comm));

    /* Objects. */
    TRY(MPI_Comm_rank(MPI_COMM_NULL, &n));
    TRY(MPI_Comm_rank(MPI_COMM_WORLD, NULL));
    TRY(MPI_Comm_size(MPI_COMM_NULL, &n));
    TRY(MPI_Comm_dup(MPI_COMM_NULL, &comm));
    comm = MPI_COMM_NULL;
    TRY(MPI_Comm_free(&comm));
    TRY(MPI_Comm_remote_size(MPI_COMM_WORLD, &n));
    TRY(MPI_Group_size(MPI_GROUP_NULL, &n));
    four[0] = 99;
    TRY(MPI_Group_incl(group, 1, four, &group));
    TRY(MPI_Group_translate_ranks(MPI_GROUP_NULL, 1, four, group, data));
    TRY(MPI_Type_vector(-1, 1, 1, MPI_INT, &type));
    TRY(MPI_Type_indexed(-1, four, four, MPI_INT, &type));
#ifndef MPI_ABI
    TRY(MPI_Type_create_struct(1, NULL, NULL, NULL, &type));
#endif
    TRY(MPI_Type_get_envelope(MPI_DATATYPE_NULL, &n, &n, &n, &n));
    TRY(MPI_Type_get_contents(MPI_INT, 4, 0, 0, four, NULL, NULL));
    TRY(MPI_Type_get_contents(MPI_DATATYPE_NULL, 4, 0, 0, four, NULL, NULL));
    TRY(MPI_Type_size(MPI_DATATYPE_NULL, &n));
    TRY(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, NULL));
    TRY(MPI_Info_set(MPI_INFO_NULL, "key", "value"));
    TRY(MPI_Comm_rank(MPI_COMM_WORLD, &n));
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_Init(&argc, &argv);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    try_all();

    MPI_Comm_create_errhandler(count_errors, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    try_all();

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return 0;
}
