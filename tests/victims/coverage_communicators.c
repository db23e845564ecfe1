/* Groups, communicators, intercommunicators and topologies: created, queried, compared, freed.
 * Runs on 4 ranks. */
#include "coverage.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank;

static const char *comparison(int result)
{
    return result == MPI_IDENT       ? "identical"
           : result == MPI_CONGRUENT ? "congruent"
           : result == MPI_SIMILAR   ? "similar"
           : result == MPI_UNEQUAL   ? "unequal"
                                     : "?";
}

/* The members of a group, by rank in the world. */
static void show_group(const char *what, MPI_Group group)
{
    int size, mine, ranks[4] = { 0, 1, 2, 3 }, translated[4] = { -1, -1, -1, -1 };
    MPI_Group everyone;

    if (group == MPI_GROUP_NULL) {
        say("    %s: null", what);
        return;
    }
    CALL(MPI_Group_size(group, &size));
    CALL(MPI_Group_rank(group, &mine));
    MPI_Comm_group(world, &everyone);
    CALL(MPI_Group_translate_ranks(group, size, ranks, everyone, translated));
    say("    rank %s", rank_text(mine));
    show_ints(what, translated, size);
    MPI_Group_free(&everyone);
}

static void show_comm(const char *what, MPI_Comm comm)
{
    int result, size = -1, mine = -1, is_inter = -1;
    MPI_Group group;

    if (comm == MPI_COMM_NULL) {
        say("    %s: null", what);
        return;
    }
    CALL(MPI_Comm_size(comm, &size));
    CALL(MPI_Comm_rank(comm, &mine));
    CALL(MPI_Comm_test_inter(comm, &is_inter));
    say("    %s: rank %d of %d, inter %d", what, mine, size, is_inter);
    CALL(MPI_Comm_group(comm, &group));
    show_group("members", group);
    MPI_Group_free(&group);
    if (is_inter) {
        CALL(MPI_Comm_remote_size(comm, &size));
        CALL(MPI_Comm_remote_group(comm, &group));
        say("    remote size %d", size);
        show_group("remote", group);
        MPI_Group_free(&group);
    } else {
        CALL(MPI_Comm_compare(comm, world, &result));
        say("    to the world: %s", comparison(result));
    }
}

static void free_comm(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL) {
        CALL(MPI_Comm_free(comm));
        say("    null: %d", *comm == MPI_COMM_NULL);
    }
}

static void groups(void)
{
    MPI_Group everyone, low, high, made;
    int result, ranks[] = { 2, 0 }, nobody[] = { MPI_PROC_NULL, 1 }, translated[2];
    int ranges[][3] = { { 0, 2, 2 }, { 3, 3, 1 } };

    CALL(MPI_Comm_group(world, &everyone));
    show_group("everyone", everyone);
    CALL(MPI_Group_incl(everyone, 2, ranks, &low));
    show_group("included", low);
    CALL(MPI_Group_excl(everyone, 2, ranks, &high));
    show_group("excluded", high);
    CALL(MPI_Group_range_incl(everyone, 2, ranges, &made));
    show_group("ranges included", made);
    CALL(MPI_Group_compare(low, made, &result));
    say("    %s", comparison(result));
    CALL(MPI_Group_free(&made));
    say("    null: %d", made == MPI_GROUP_NULL);
    CALL(MPI_Group_range_excl(everyone, 1, ranges, &made));
    show_group("ranges excluded", made);
    CALL(MPI_Group_compare(high, made, &result));
    say("    %s", comparison(result));
    MPI_Group_free(&made);
    CALL(MPI_Group_union(high, low, &made));
    show_group("union", made);
    CALL(MPI_Group_compare(everyone, made, &result));
    say("    %s", comparison(result));
    MPI_Group_free(&made);
    CALL(MPI_Group_intersection(everyone, low, &made));
    show_group("intersection", made);
    MPI_Group_free(&made);
    CALL(MPI_Group_difference(everyone, low, &made));
    show_group("difference", made);
    MPI_Group_free(&made);
    CALL(MPI_Group_intersection(high, low, &made));
    say("    empty: %d", made == MPI_GROUP_EMPTY);
    CALL(MPI_Group_translate_ranks(everyone, 2, nobody, low, translated));
    say("    %s, %s", rank_text(translated[0]), rank_text(translated[1]));
    MPI_Group_free(&low);
    MPI_Group_free(&high);
    MPI_Group_free(&everyone);
}

static void communicators(void)
{
    MPI_Comm comm, other;
    MPI_Group everyone, some;
    MPI_Info info, used;
    MPI_Request request;
    char name[MPI_MAX_OBJECT_NAME], value[MPI_MAX_INFO_VAL + 1];
    int length, flag, ranks[] = { 3, 1, 0 };

    show_comm("world", world);
    show_comm("self", MPI_COMM_SELF);
    CALL(MPI_Comm_get_name(world, name, &length));
    say("    %s, %d", name, length);

    CALL(MPI_Comm_dup(world, &comm));
    show_comm("dup", comm);
    CALL(MPI_Comm_set_name(comm, "a copy of the world"));
    CALL(MPI_Comm_get_name(comm, name, &length));
    say("    %s, %d", name, length);
    CALL(MPI_Info_create(&info));
    CALL(MPI_Info_set(info, "mpi_assert_allow_overtaking", "true"));
    CALL(MPI_Comm_set_info(comm, info));
    CALL(MPI_Comm_get_info(comm, &used));
    CALL(MPI_Info_get(used, "mpi_assert_allow_overtaking", MPI_MAX_INFO_VAL, value, &flag));
    say("    flag %d, value %s", flag, flag ? value : "none");
    MPI_Info_free(&used);
    free_comm(&comm);

    CALL(MPI_Comm_dup_with_info(world, info, &comm));
    show_comm("dup with info", comm);
    CALL(MPI_Comm_idup(comm, &other, &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    show_comm("idup", other);
    CALL(MPI_Comm_disconnect(&other));
    say("    null: %d", other == MPI_COMM_NULL);
#if HAVE_MPI_4
    CALL(MPI_Comm_idup_with_info(comm, info, &other, &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    show_comm("idup with info", other);
    free_comm(&other);
#endif
    free_comm(&comm);

    CALL(MPI_Comm_split(world, rank == 3 ? MPI_UNDEFINED : rank % 2, -rank, &comm));
    show_comm("split", comm);
    free_comm(&comm);
    CALL(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, -rank, info, &comm));
    show_comm("split by type", comm);
    free_comm(&comm);
    MPI_Info_free(&info);

    CALL(MPI_Comm_group(world, &everyone));
    CALL(MPI_Group_incl(everyone, 3, ranks, &some));
    CALL(MPI_Comm_create(world, some, &comm));
    show_comm("created", comm);
    if (rank != 2) {
        CALL(MPI_Comm_create_group(world, some, 5, &other));
        show_comm("created of a group", other);
        CALL(MPI_Comm_compare(comm, other, &flag));
        say("    %s", comparison(flag));
        free_comm(&other);
    }
    free_comm(&comm);
    MPI_Group_free(&some);
    MPI_Group_free(&everyone);
}

/* Ranks 0 2 | 1 3. */
static void intercommunicators(void)
{
    MPI_Comm local, inter, other;
    MPI_Group group, some;
    int result, zero = 0;

    MPI_Comm_split(world, rank % 2, rank, &local);
    CALL(MPI_Intercomm_create(local, 0, world, rank % 2 ? 0 : 1, 12, &inter));
    show_comm("inter", inter);
    CALL(MPI_Comm_dup(inter, &other));
    CALL(MPI_Comm_compare(inter, other, &result));
    say("    %s", comparison(result));
    free_comm(&other);
    CALL(MPI_Intercomm_merge(inter, rank % 2 == 0, &other));
    show_comm("merged", other);
    free_comm(&other);
    /* The first of each side. */
    MPI_Comm_group(inter, &group);
    MPI_Group_incl(group, 1, &zero, &some);
    CALL(MPI_Comm_create(inter, some, &other));
    show_comm("created", other);
    free_comm(&other);
    MPI_Group_free(&some);
    MPI_Group_free(&group);
    CALL(MPI_Comm_split(inter, rank / 2, 0, &other));
    show_comm("split", other);
    free_comm(&other);
    free_comm(&inter);
    MPI_Comm_free(&local);
}

static const char *topology(MPI_Comm comm)
{
    int kind = -1;
    CALL(MPI_Topo_test(comm, &kind));
    return kind == MPI_CART         ? "cartesian"
           : kind == MPI_GRAPH      ? "graph"
           : kind == MPI_DIST_GRAPH ? "distributed graph"
           : kind == MPI_UNDEFINED  ? "none"
                                    : "?";
}

/* Arrays have one more element than needed, which must not change. */
static void cartesian(void)
{
    MPI_Comm comm, row;
    int dims[3] = { 0, 0, -7 }, periods[3] = { 1, 0, -7 }, coords[3] = { -7, -7, -7 };
    int n, source, destination, all[] = { 0, 2, 0 }, remain[] = { 0, 1 }, there[] = { -1, 1 };

    say("topology %s", topology(world));
    CALL(MPI_Dims_create(4, 2, dims));
    show_ints("dims", dims, 2);
    CALL(MPI_Dims_create(12, 3, all));
    show_ints("dims", all, 3);
    CALL(MPI_Cart_map(world, 2, dims, periods, &n));
    say("    rank %s", rank_text(n));
    CALL(MPI_Cart_create(world, 2, dims, periods, 0, &comm));
    show_comm("cartesian", comm);
    say("topology %s", topology(comm));
    CALL(MPI_Cartdim_get(comm, &n));
    say("    dims %d", n);
    dims[0] = dims[1] = periods[0] = periods[1] = -1;
    CALL(MPI_Cart_get(comm, 3, dims, periods, coords));
    show_ints("dims", dims, 3);
    show_ints("periods", periods, 3);
    show_ints("coords", coords, 3);
    CALL(MPI_Cart_coords(comm, 3 - rank, 2, coords));
    show_ints("coords", coords, 3);
    CALL(MPI_Cart_rank(comm, there, &n));
    say("    rank %d", n);
    CALL(MPI_Cart_shift(comm, 0, 1, &source, &destination));
    say("    from %s to %s", rank_text(source), rank_text(destination));
    CALL(MPI_Cart_shift(comm, 1, -1, &source, &destination));
    say("    from %s to %s", rank_text(source), rank_text(destination));
    CALL(MPI_Cart_sub(comm, remain, &row));
    show_comm("row", row);
    free_comm(&row);
    free_comm(&comm);
}

static void graph(void)
{
    MPI_Comm comm;
    /* 0: 1 2 3, 1: 0, 2: 0 3, 3: 0 2 */
    int index[] = { 3, 4, 6, 8, -7 }, edges[] = { 1, 2, 3, 0, 0, 3, 0, 2, -7 };
    int n, m, neighbors[4] = { -7, -7, -7, -7 };

    CALL(MPI_Graph_map(world, 4, index, edges, &n));
    say("    rank %s", rank_text(n));
    CALL(MPI_Graph_create(world, 4, index, edges, 0, &comm));
    show_comm("graph", comm);
    say("topology %s", topology(comm));
    CALL(MPI_Graphdims_get(comm, &n, &m));
    say("    nodes %d, edges %d", n, m);
    memset(index, 0, 4 * sizeof(int));
    memset(edges, 0, 8 * sizeof(int));
    CALL(MPI_Graph_get(comm, 5, 9, index, edges));
    show_ints("index", index, 5);
    show_ints("edges", edges, 9);
    CALL(MPI_Graph_neighbors_count(comm, rank, &n));
    say("    neighbors %d", n);
    CALL(MPI_Graph_neighbors(comm, rank, 4, neighbors));
    show_ints("neighbors", neighbors, 4);
    free_comm(&comm);
}

/* Neighbours may come in any order: shown by rank. */
static void show_neighbors(MPI_Comm comm)
{
    int in, out, weighted, sources[4], destinations[4], in_weights[4], out_weights[4];
    int weights[2][4] = { { 0 } };

    CALL(MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted));
    say("    %d in, %d out, weighted %d", in, out, weighted);
    for (int i = 0; i < 4; i++)
        in_weights[i] = out_weights[i] = 1;
    /* The arrays have exactly the needed size: MPICH would fill any size. */
    if (weighted)
        CALL(MPI_Dist_graph_neighbors(comm, in, sources, in_weights, out, destinations,
                                      out_weights));
    else
        CALL(MPI_Dist_graph_neighbors(comm, in, sources, MPI_UNWEIGHTED, out, destinations,
                                      MPI_UNWEIGHTED));
    for (int i = 0; i < in; i++)
        weights[0][sources[i]] = in_weights[i];
    for (int i = 0; i < out; i++)
        weights[1][destinations[i]] = out_weights[i];
    show_ints("weights in", weights[0], 4);
    show_ints("weights out", weights[1], 4);
}

static void distributed_graph(void)
{
    MPI_Comm comm;
    int next = (rank + 1) % 4, previous = (rank + 3) % 4, weights[] = { 10 + rank, 20 + rank };
    /* Rank 0 specifies its own edges and those of rank 1, rank 3 those of rank 2; ranks 1 and 2 specify nothing. */
    int sources[] = { rank, rank == 0 ? 1 : 2 }, degrees[] = { 1, 2 };
    int destinations[] = { 2, 3, 0 }, edge_weights[] = { 5, 6, 7 };
    int n = rank == 0 ? 2 : rank == 3 ? 1 : 0;

    CALL(MPI_Dist_graph_create_adjacent(world, 1, &previous, weights, 1, &next, weights + 1,
                                        MPI_INFO_NULL, 0, &comm));
    show_comm("ring", comm);
    say("topology %s", topology(comm));
    show_neighbors(comm);
    free_comm(&comm);
    CALL(MPI_Dist_graph_create_adjacent(world, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL,
                                        MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &comm));
    show_neighbors(comm);
    free_comm(&comm);
    CALL(MPI_Dist_graph_create(world, n, sources + (rank == 3), degrees, destinations,
                               edge_weights, MPI_INFO_NULL, 0, &comm));
    show_comm("distributed", comm);
    show_neighbors(comm);
    free_comm(&comm);
    CALL(MPI_Dist_graph_create(world, n, sources + (rank == 3), degrees, destinations,
                               MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    show_neighbors(comm);
    free_comm(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    return_errors(world);

    groups();
    communicators();
    intercommunicators();
    cartesian();
    graph();
    distributed_graph();

    print_lines(world);
    MPI_Finalize();
    return 0;
}
