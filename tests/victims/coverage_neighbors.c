/* Neighbourhood collectives, blocking, nonblocking and persistent: on a line (cartesian, with ends), a
 * star (graph), and a directed graph in which every rank has a different number of neighbours in and
 * out. Runs on 3 ranks. */
#ifndef F
#include "coverage.h"

static MPI_Comm comm;
static MPI_Request request;
static int rank, sources, destinations;
static int out[12], in[12];

static void prepare(void)
{
    for (int i = 0; i < LENGTH(out); i++) {
        out[i] = 100 * (rank + 1) + i;
        in[i] = -1;
    }
}

static void show(void)
{
    show_ints("result", in, LENGTH(in));
}

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
#define FORMS(name, ...)                                                         \
    do {                                                                         \
        prepare();                                                               \
        CALL(F(MPI_N##name)(__VA_ARGS__));                                       \
        show();                                                                  \
        prepare();                                                               \
        CALL(F(MPI_In##name)(__VA_ARGS__, &request));                            \
        CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));                             \
        show();                                                                  \
        PERSISTENT(F(MPI_N##name##_init)(__VA_ARGS__, MPI_INFO_NULL, &request)); \
    } while (0)

/* The rest of the file, once for each size of counts. */
#define F(name) name
#define OF(name) name##_small
#define COUNT int
#define DISPLACEMENT int
#include "coverage_neighbors.c"
#undef F
#undef OF
#undef COUNT
#undef DISPLACEMENT
#if HAVE_LARGE_COUNTS
#define F(name) name##_c
#define OF(name) name##_large
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#include "coverage_neighbors.c"
#endif

static void all(const char *topology, int in_degree, int out_degree)
{
    say("%s", topology);
    sources = in_degree;
    destinations = out_degree;
    return_errors(comm);
    movements_small();
#if HAVE_LARGE_COUNTS
    movements_large();
#endif
    MPI_Comm_free(&comm);
}

static void on_line(void)
{
    const int dims[] = { 3 }, periods[] = { 0 };

    CALL(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm));
    all("line", 2, 2);
}

/* 1 - 0 - 2 */
static void on_star(void)
{
    const int index[] = { 2, 3, 4 }, edges[] = { 1, 2, 0, 0 };

    CALL(MPI_Graph_create(MPI_COMM_WORLD, 3, index, edges, 0, &comm));
    all("star", rank == 0 ? 2 : 1, rank == 0 ? 2 : 1);
}

/* 0 -> 1, 0 -> 2, 1 -> 2, 2 -> 0, 2 -> 2. Every rank receives something: MPICH 4.0 loses messages
 * if a process has nothing to receive and runs ahead of the others. */
static void on_directed_graph(void)
{
    static const int from[3][3] = { { 2 }, { 0 }, { 0, 1, 2 } }, in_degrees[] = { 1, 1, 3 };
    static const int to[3][2] = { { 1, 2 }, { 2 }, { 0, 2 } }, out_degrees[] = { 2, 1, 2 };

    CALL(MPI_Dist_graph_create_adjacent(
        MPI_COMM_WORLD, in_degrees[rank], from[rank], MPI_UNWEIGHTED, out_degrees[rank],
        to[rank], MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    all("directed graph", in_degrees[rank], out_degrees[rank]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return_errors(MPI_COMM_WORLD);

    on_line();
    on_star();
    on_directed_graph();

    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

#else /* once for each size of counts */

static void OF(movements)(void)
{
    /* Exactly as long as there are neighbours: nothing may be read beyond. */
    COUNT *send = malloc((size_t)destinations * sizeof *send);
    COUNT *receive = malloc((size_t)sources * sizeof *receive);
    DISPLACEMENT *send_places = malloc((size_t)destinations * sizeof *send_places);
    DISPLACEMENT *receive_places = malloc((size_t)sources * sizeof *receive_places);
    MPI_Aint *send_bytes = malloc((size_t)destinations * sizeof *send_bytes);
    MPI_Aint *receive_bytes = malloc((size_t)sources * sizeof *receive_bytes);
    MPI_Datatype *send_types = malloc((size_t)destinations * sizeof *send_types);
    MPI_Datatype *receive_types = malloc((size_t)sources * sizeof *receive_types);

    for (int i = 0; i < destinations; i++) {
        send[i] = 2;
        send_places[i] = 3 * i;
        send_bytes[i] = 3 * i * (MPI_Aint)sizeof(int);
        send_types[i] = MPI_INT;
    }
    for (int i = 0; i < sources; i++) {
        receive[i] = 2;
        receive_places[i] = 4 * i;
        receive_bytes[i] = 4 * i * (MPI_Aint)sizeof(int);
        receive_types[i] = MPI_INT;
    }
    FORMS(eighbor_allgather, out, 2, MPI_INT, in, 2, MPI_INT, comm);
    FORMS(eighbor_allgatherv, out, 2, MPI_INT, in, receive, receive_places, MPI_INT, comm);
    FORMS(eighbor_alltoall, out, 2, MPI_INT, in, 2, MPI_INT, comm);
    FORMS(eighbor_alltoallv, out, send, send_places, MPI_INT, in, receive, receive_places,
          MPI_INT, comm);
    FORMS(eighbor_alltoallw, out, send, send_bytes, send_types, in, receive, receive_bytes,
          receive_types, comm);
    free(send);
    free(receive);
    free(send_places);
    free(receive_places);
    free(send_bytes);
    free(receive_bytes);
    free(send_types);
    free(receive_types);
}

#endif
