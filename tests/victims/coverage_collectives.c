/* Collective operations, blocking, nonblocking and persistent, on an intracommunicator, in
 * place, and on an intercommunicator of 1 and 2 processes; reductions with operations of the
 * program's own. Runs on 3 ranks. */
#ifndef F
#include "coverage.h"

static MPI_Comm comm;
static MPI_Request request;
/* `size`: of the remote group (or the group itself); `local_size`: of the local group. */
static int rank, size, local_size, root, is_root;
/* For operations in place, the result buffer has this rank's data. */
static int out[12], in[12], is_preset;

static void prepare(void)
{
    for (int i = 0; i < LENGTH(out); i++) {
        out[i] = 100 * (rank + 1) + i;
        in[i] = is_preset ? 1000 + out[i] : -1;
    }
}

static void show(void)
{
    show_ints("result", in, LENGTH(in));
}

/* An argument that is significant only at the root. */
#define AT_ROOT(value) (is_root ? (value) : NOWHERE)

#if HAVE_MPI_4
#define PERSISTENT(...)                               \
    prepare();                                        \
    CALL(__VA_ARGS__);                                \
    for (int round = 0; round < STARTS; round++) {    \
        CALL(MPI_Start(&request));                    \
        CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));  \
        show();                                       \
    }                                                 \
    CALL(MPI_Request_free(&request))
#else
#define PERSISTENT(...) (void)0
#endif

/* An operation in all its forms. */
#define FORMS(Name, name, ...)                                                  \
    do {                                                                        \
        prepare();                                                              \
        CALL(F(MPI_##Name)(__VA_ARGS__));                                       \
        show();                                                                 \
        prepare();                                                              \
        CALL(F(MPI_I##name)(__VA_ARGS__, &request));                            \
        CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));                            \
        show();                                                                 \
        PERSISTENT(F(MPI_##Name##_init)(__VA_ARGS__, MPI_INFO_NULL, &request)); \
    } while (0)

/* The rest of the file, once for each size of counts. */
#define F(name) name
#define OF(name) name##_small
#define COUNT int
#define DISPLACEMENT int
#include "coverage_collectives.c"
#undef F
#undef OF
#undef COUNT
#undef DISPLACEMENT
#if HAVE_LARGE_COUNTS
#define F(name) name##_c
#define OF(name) name##_large
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#include "coverage_collectives.c"
#endif

static void barriers(void)
{
    CALL(MPI_Barrier(comm));
    CALL(MPI_Ibarrier(comm, &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    PERSISTENT(MPI_Barrier_init(comm, MPI_INFO_NULL, &request));
}

static void on_intracommunicator(void)
{
    comm = MPI_COMM_WORLD;
    MPI_Comm_size(comm, &size);
    local_size = size;
    root = 1;
    is_root = rank == root;
    say("intracommunicator");
    barriers();
    movements_small();
    reductions_small();
    scans_small();
    in_place_small();
    operations_small();
#if HAVE_LARGE_COUNTS
    movements_large();
    reductions_large();
    scans_large();
    in_place_large();
    operations_large();
#endif
}

/* Ranks 0 | 1 2; the root is the first of the second group, whose other member does not take part. */
static void on_intercommunicator(void)
{
    MPI_Comm local;
    int world_rank = rank;

    MPI_Comm_split(MPI_COMM_WORLD, world_rank > 0, world_rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, world_rank > 0 ? 0 : 1, 7, &comm);
    return_errors(comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &local_size);
    MPI_Comm_remote_size(comm, &size);
    root = world_rank == 0 ? 0 : world_rank == 1 ? MPI_ROOT : MPI_PROC_NULL;
    is_root = root == MPI_ROOT;
    say("intercommunicator");
    barriers();
    movements_small();
    reductions_small();
#if HAVE_LARGE_COUNTS
    movements_large();
    reductions_large();
#endif
    MPI_Comm_free(&comm);
    MPI_Comm_free(&local);
    rank = world_rank;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return_errors(MPI_COMM_WORLD);

    on_intracommunicator();
    on_intercommunicator();

    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

#else /* once for each size of counts */

/* The number of elements between one process and the i-th of the others, and their displacements: in
 * elements, and for Alltoallw in bytes. */
static COUNT OF(by_sender)[3], OF(mutual)[3];
static DISPLACEMENT OF(places)[3], OF(bytes)[3];
static MPI_Datatype OF(types)[3];

static void OF(movements)(void)
{
    COUNT *by_sender = OF(by_sender), *mutual = OF(mutual);
    DISPLACEMENT *places = OF(places), *bytes = OF(bytes);
    MPI_Datatype *types = OF(types);

    for (int i = 0; i < 3; i++) {
        by_sender[i] = i + 1;
        mutual[i] = 1 + (rank + i) % 2;
        places[i] = 4 * i;
        bytes[i] = 4 * i * (DISPLACEMENT)sizeof(int);
        types[i] = MPI_INT;
    }

    is_preset = is_root || (size == local_size && rank == root);
    FORMS(Bcast, bcast, in, 4, MPI_INT, root, comm);
    is_preset = 0;
    FORMS(Gather, gather, out, 2, MPI_INT, AT_ROOT(in), 2, MPI_INT, root, comm);
    FORMS(Gatherv, gatherv, out, by_sender[rank], MPI_INT, AT_ROOT(in), AT_ROOT(by_sender),
          AT_ROOT(places), MPI_INT, root, comm);
    FORMS(Scatter, scatter, AT_ROOT(out), 2, MPI_INT, in, 2, MPI_INT, root, comm);
    FORMS(Scatterv, scatterv, AT_ROOT(out), AT_ROOT(by_sender), AT_ROOT(places), MPI_INT, in,
          by_sender[rank], MPI_INT, root, comm);
    FORMS(Allgather, allgather, out, 2, MPI_INT, in, 2, MPI_INT, comm);
    FORMS(Allgatherv, allgatherv, out, by_sender[rank], MPI_INT, in, by_sender, places,
          MPI_INT, comm);
    FORMS(Alltoall, alltoall, out, 2, MPI_INT, in, 2, MPI_INT, comm);
    FORMS(Alltoallv, alltoallv, out, mutual, places, MPI_INT, in, mutual, places, MPI_INT,
          comm);
    FORMS(Alltoallw, alltoallw, out, mutual, bytes, types, in, mutual, bytes, types, comm);
}

static void OF(reductions)(void)
{
    static COUNT counts[3];

    /* The same total number of elements in groups of one, two and three. */
    for (int i = 0; i < local_size; i++)
        counts[i] = 6 / local_size;
    FORMS(Reduce, reduce, out, AT_ROOT(in), 3, MPI_INT, MPI_SUM, root, comm);
    FORMS(Allreduce, allreduce, out, in, 3, MPI_INT, MPI_MAX, comm);
    FORMS(Reduce_scatter, reduce_scatter, out, in, counts, MPI_INT, MPI_SUM, comm);
    FORMS(Reduce_scatter_block, reduce_scatter_block, out, in, counts[0], MPI_INT, MPI_MIN,
          comm);
}

static void OF(scans)(void)
{
    FORMS(Scan, scan, out, in, 2, MPI_INT, MPI_SUM, comm);
    FORMS(Exscan, exscan, out, in, 2, MPI_INT, MPI_SUM, comm);
}

static void OF(in_place)(void)
{
    static COUNT two[3] = { 2, 2, 2 };
    static DISPLACEMENT places[3] = { 0, 4, 8 }, bytes[3] = { 0, 16, 32 };
    static MPI_Datatype types[3];

    types[0] = types[1] = types[2] = MPI_INT;
    is_preset = 1;
    FORMS(Gather, gather, is_root ? MPI_IN_PLACE : out, 2, MPI_INT, AT_ROOT(in), 2, MPI_INT,
          root, comm);
    FORMS(Scatterv, scatterv, AT_ROOT(out), AT_ROOT(two), AT_ROOT(places), MPI_INT,
          is_root ? MPI_IN_PLACE : in, 2, MPI_INT, root, comm);
    FORMS(Allgather, allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 2, MPI_INT, comm);
    FORMS(Allgatherv, allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, two, places,
          MPI_INT, comm);
    FORMS(Alltoall, alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 2, MPI_INT, comm);
    /* The arguments for receiving describe what is sent; the others are ignored. */
    FORMS(Alltoallv, alltoallv, MPI_IN_PLACE, NOWHERE, NOWHERE, MPI_DATATYPE_NULL, in, two,
          places, MPI_INT, comm);
    FORMS(Alltoallw, alltoallw, MPI_IN_PLACE, NOWHERE, NOWHERE, NOWHERE, in, two, bytes, types,
          comm);
    FORMS(Reduce, reduce, is_root ? MPI_IN_PLACE : out, AT_ROOT(in), 2, MPI_INT, MPI_SUM,
          root, comm);
    FORMS(Allreduce, allreduce, MPI_IN_PLACE, in, 2, MPI_INT, MPI_SUM, comm);
    FORMS(Scan, scan, MPI_IN_PLACE, in, 2, MPI_INT, MPI_SUM, comm);
    is_preset = 0;
}

/* Not commutative: keeps the first operand, and counts its calls' elements. */
static void OF(first)(void *given, void *result, COUNT *count, MPI_Datatype *datatype)
{
    int bytes;
    MPI_Type_size(*datatype, &bytes);
    if (bytes == (int)sizeof(int))
        for (COUNT i = 0; i < *count; i++)
            ((int *)result)[i] = ((int *)given)[i] + 0 * bytes;
}

static void OF(operations)(void)
{
    struct { int value, place; } mine = { 10 - rank, rank }, least = { 0, 0 };
    MPI_Op op;
    int commutes;

    CALL(F(MPI_Op_create)(OF(first), 0, &op));
    CALL(MPI_Op_commutative(op, &commutes));
    say("    commutes %d", commutes);
    CALL(MPI_Op_commutative(MPI_SUM, &commutes));
    say("    commutes %d", commutes);
    prepare();
    CALL(F(MPI_Reduce_local)(out, in, 3, MPI_INT, op));
    show();
    FORMS(Allreduce, allreduce, out, in, 3, MPI_INT, op, comm);
    FORMS(Scan, scan, out, in, 3, MPI_INT, op, comm);
    CALL(MPI_Op_free(&op));
    say("    null: %d", op == MPI_OP_NULL);
    CALL(F(MPI_Allreduce)(&mine, &least, 1, MPI_2INT, MPI_MINLOC, comm));
    say("    least %d at %d", least.value, least.place);
}

#endif
