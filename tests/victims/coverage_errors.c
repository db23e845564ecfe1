/* Calls that must fail, where a tool might itself query MPI about the wrong argument: the error handler
 * must be called once for each, as without the tool. Runs on 2 ranks, which do the same. */
#include "coverage.h"

static int times_called;

static void count_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    times_called++;
}

#define FAIL(...)                                  \
    do {                                           \
        times_called = 0;                          \
        CALL(__VA_ARGS__);                         \
        say("    handled %d times", times_called); \
    } while (0)

static int numbers[8], counts[8], places[8];
static MPI_Datatype types[8];
static MPI_Request request;

/* Queries of communicators without a graph. MPICH crashes in the functions that are missing here. */
static void graphs(MPI_Comm comm)
{
    int n, m;

    FAIL(MPI_Graphdims_get(comm, &n, &m));
    FAIL(MPI_Graph_get(comm, 4, 4, numbers, numbers));
    FAIL(MPI_Graph_neighbors_count(comm, 0, &n));
    FAIL(MPI_Graph_neighbors(comm, 0, 4, numbers));
    FAIL(MPI_Graph_neighbors(comm, 77, 4, numbers));
    FAIL(MPI_Dist_graph_neighbors(comm, 4, numbers, numbers, 4, numbers, numbers));
}

/* Queries of communicators without a topology. */
static void topologies(MPI_Comm comm)
{
    int n, m, zero[4] = { 0 };

    graphs(comm);
    FAIL(MPI_Cartdim_get(comm, &n));
    FAIL(MPI_Cart_coords(comm, 0, 4, numbers));
    FAIL(MPI_Cart_rank(comm, zero, &n));
    FAIL(MPI_Cart_shift(comm, 0, 1, &n, &m));
}

static void null_communicator(void)
{
    MPI_Comm none = MPI_COMM_NULL;
    int n;

    FAIL(MPI_Comm_size(none, &n));
    FAIL(MPI_Gatherv(numbers, 1, MPI_INT, numbers, counts, places, MPI_INT, 0, none));
    FAIL(MPI_Allgatherv(numbers, 1, MPI_INT, numbers, counts, places, MPI_INT, none));
    FAIL(MPI_Alltoallw(numbers, counts, places, types, numbers, counts, places, types, none));
    FAIL(MPI_Reduce_scatter(numbers, numbers + 4, counts, MPI_INT, MPI_SUM, none));
    FAIL(MPI_Ialltoallv(numbers, counts, places, MPI_INT, numbers, counts, places, MPI_INT,
                        none, &request));
    FAIL(MPI_Neighbor_allgatherv(numbers, 1, MPI_INT, numbers, counts, places, MPI_INT, none));
    FAIL(MPI_Ineighbor_alltoallv(numbers, counts, places, MPI_INT, numbers, counts, places,
                                 MPI_INT, none, &request));
    topologies(none);
}

static void communicators(void)
{
    FAIL(MPI_Scatterv(numbers, counts, places, MPI_INT, numbers, 0, MPI_INT, 99,
                      MPI_COMM_WORLD));
    FAIL(MPI_Recv(numbers, 1, MPI_INT, 99, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    FAIL(MPI_Recv(numbers, 1, MPI_INT, MPI_ANY_SOURCE, -77, MPI_COMM_WORLD,
                  MPI_STATUS_IGNORE));
    FAIL(MPI_Irecv(numbers, -1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &request));
}

static void datatypes(void)
{
    MPI_Datatype none = MPI_DATATYPE_NULL;
    MPI_Aint addresses[8];
    int integers, n_addresses, datatypes, combiner;

    FAIL(MPI_Type_get_envelope(none, &integers, &n_addresses, &datatypes, &combiner));
    FAIL(MPI_Type_get_contents(none, 8, 8, 8, numbers, addresses, types));
    FAIL(MPI_Type_get_contents(MPI_INT, 8, 8, 8, numbers, addresses, types));
#if HAVE_LARGE_COUNTS
    MPI_Count large_counts[8];
    MPI_Datatype made;
    MPI_Type_vector_c(2, 1, 2, MPI_INT, &made);
    FAIL(MPI_Type_get_envelope(made, &integers, &n_addresses, &datatypes, &combiner));
    FAIL(MPI_Type_get_contents(made, 8, 8, 8, numbers, addresses, types));
    FAIL(MPI_Type_get_contents_c(none, 8, 8, 8, 8, numbers, addresses, large_counts, types));
    MPI_Type_free(&made);
#endif
}

static void others(void)
{
    int n;
    char text[MPI_MAX_ERROR_STRING];

    FAIL(MPI_Group_size(MPI_GROUP_NULL, &n));
    FAIL(MPI_Op_commutative(MPI_OP_NULL, &n));
    FAIL(MPI_Info_get_nkeys(MPI_INFO_NULL, &n));
    FAIL(MPI_Error_class(-4711, &n));
    FAIL(MPI_Error_string(-4711, text, &n));
    request = MPI_REQUEST_NULL;
    FAIL(MPI_Start(&request));
    FAIL(MPI_Cancel(&request));
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_Comm cartesian;
    int dims[] = { 2 }, periods[] = { 0 };

    MPI_Init(&argc, &argv);
    for (int i = 0; i < LENGTH(types); i++)
        types[i] = MPI_INT;
    MPI_Comm_create_errhandler(count_error, &handler);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &cartesian);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Comm_set_errhandler(cartesian, handler);

    topologies(MPI_COMM_WORLD);
    graphs(cartesian);
    null_communicator();
    communicators();
    datatypes();
    others();

    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&cartesian);
    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
