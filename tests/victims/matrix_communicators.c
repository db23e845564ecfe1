/*
 * Groups, communicators, intercommunicators, topologies and neighbourhood collectives on
 * three ranks; attributes with predefined callbacks; names.
 */
#include <mpi.h>
#include "expect.h"

enum { N = 3 };

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank, data[16], got[16];

static void groups(void)
{
    MPI_Group all, same, some, none, rest;
    int n, ranks[2] = { 2, 0 }, ranges[1][3] = { { 0, 2, 2 } }, everybody[N] = { 0, 1, 2 }, others[N];

    MPI_Comm_group(world, &all);
    CALLED("MPI_Comm_group(comm=MPI_COMM_WORLD, group=group1)");
    MPI_Group_size(all, &n);
    CALLED("MPI_Group_size(group=group1, size=3)");
    MPI_Group_rank(all, &n);
    CALLED("MPI_Group_rank(group=group1, rank=%d)", rank);
    MPI_Group_incl(all, 2, ranks, &some);
    CALLED("MPI_Group_incl(group=group1, n=2, ranks=[2, 0], newgroup=group2)");
    MPI_Group_rank(some, &n);
    CALLED("MPI_Group_rank(group=group2, rank=%s)", rank == 0 ? "1" : rank == 1 ? "MPI_UNDEFINED" : "0");
    MPI_Group_translate_ranks(all, N, everybody, some, others);
    CALLED("MPI_Group_translate_ranks(group1=group1, n=3, ranks1=[0, 1, 2], group2=group2, ranks2=[1, MPI_UNDEFINED, 0])");
    MPI_Group_compare(all, some, &n);
    CALLED("MPI_Group_compare(group1=group1, group2=group2, result=MPI_UNEQUAL)");
    MPI_Group_excl(all, 2, ranks, &rest);
    CALLED("MPI_Group_excl(group=group1, n=2, ranks=[2, 0], newgroup=group3)");
    MPI_Group_free(&rest);
    CALLED("MPI_Group_free(group=group3)");
    MPI_Group_range_incl(all, 1, ranges, &rest);
    CALLED("MPI_Group_range_incl(group=group1, n=1, ranges=[0, 2, 2], newgroup=group3)");
    MPI_Group_compare(rest, some, &n);
    CALLED("MPI_Group_compare(group1=group3, group2=group2, result=MPI_SIMILAR)");
    MPI_Group_difference(some, all, &none);
    CALLED("MPI_Group_difference(group1=group2, group2=group1, newgroup=MPI_GROUP_EMPTY)");
    MPI_Group_incl(all, 0, NULL, &none);
    CALLED("MPI_Group_incl(group=group1, n=0, ranks=NULL, newgroup=MPI_GROUP_EMPTY)");
    MPI_Group_free(&rest);
    CALLED("MPI_Group_free(group=group3)");
    /* MPI may return the same handle again: it is freed as often as it was returned. */
    MPI_Comm_group(world, &same);
    const char *name = same == all ? "group1" : "group3";
    CALLED("MPI_Comm_group(comm=MPI_COMM_WORLD, group=%s)", name);
    MPI_Group_free(&same);
    CALLED("MPI_Group_free(group=%s)", name);
    MPI_Comm_group(MPI_COMM_SELF, &rest);
    CALLED("MPI_Comm_group(comm=MPI_COMM_SELF, group=group3)");
    MPI_Group_size(all, &n);
    CALLED("MPI_Group_size(group=group1, size=3)");
    MPI_Group_free(&rest);
    CALLED("MPI_Group_free(group=group3)");
    MPI_Group_free(&some);
    CALLED("MPI_Group_free(group=group2)");
    MPI_Group_free(&all);
    CALLED("MPI_Group_free(group=group1)");
}

static void communicators(void)
{
    MPI_Comm dup, split, part, made;
    MPI_Group all, some;
    MPI_Request request;
    int n, ranks[2] = { 0, 1 }, flag;
    char name[MPI_MAX_OBJECT_NAME];

    MPI_Comm_dup(world, &dup);
    CALLED("MPI_Comm_dup(comm=MPI_COMM_WORLD, newcomm=comm1)");
    MPI_Comm_compare(world, dup, &n);
    CALLED("MPI_Comm_compare(comm1=MPI_COMM_WORLD, comm2=comm1, result=MPI_CONGRUENT)");
    MPI_Comm_set_name(dup, "a \"name\"");
    CALLED("MPI_Comm_set_name(comm=comm1, comm_name=\"a \\\"name\\\"\")");
    MPI_Comm_get_name(dup, name, &n);
    CALLED("MPI_Comm_get_name(comm=comm1, comm_name=\"a \\\"name\\\"\", resultlen=8)");
    MPI_Comm_get_name(MPI_COMM_SELF, name, &n);
    CALLED("MPI_Comm_get_name(comm=MPI_COMM_SELF, comm_name=\"MPI_COMM_SELF\", resultlen=13)");
    MPI_Comm_split(dup, rank == 1 ? MPI_UNDEFINED : 7, -rank, &split);
    CALLED("MPI_Comm_split(comm=comm1, color=%s, key=%d, newcomm=%s)", rank == 1 ? "MPI_UNDEFINED" : "7", -rank, rank == 1 ? "MPI_COMM_NULL" : "comm2");
    if (rank != 1) {
        MPI_Comm_rank(split, &n);
        CALLED("MPI_Comm_rank(comm=comm2, rank=%d)", rank == 0 ? 1 : 0);
        MPI_Comm_free(&split);
        CALLED("MPI_Comm_free(comm=comm2)");
    }
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &split);
    CALLED("MPI_Comm_split_type(comm=MPI_COMM_WORLD, split_type=MPI_COMM_TYPE_SHARED, key=0, info=MPI_INFO_NULL, newcomm=comm2)");
    MPI_Comm_split_type(world, MPI_UNDEFINED, 0, MPI_INFO_NULL, &part);
    CALLED("MPI_Comm_split_type(comm=MPI_COMM_WORLD, split_type=MPI_UNDEFINED, key=0, info=MPI_INFO_NULL, newcomm=MPI_COMM_NULL)");
    MPI_Comm_group(dup, &all);
    CALLED("MPI_Comm_group(comm=comm1, group=group1)");
    MPI_Group_incl(all, 2, ranks, &some);
    CALLED("MPI_Group_incl(group=group1, n=2, ranks=[0, 1], newgroup=group2)");
    MPI_Comm_create(dup, some, &made);
    CALLED("MPI_Comm_create(comm=comm1, group=group2, newcomm=%s)", rank == 2 ? "MPI_COMM_NULL" : "comm3");
    if (rank != 2) {
        MPI_Comm_create_group(dup, some, 4, &part);
        CALLED("MPI_Comm_create_group(comm=comm1, group=group2, tag=4, newcomm=comm4)");
        MPI_Comm_free(&made);
        CALLED("MPI_Comm_free(comm=comm3)");
        MPI_Comm_free(&part);
        CALLED("MPI_Comm_free(comm=comm4)");
    }
    MPI_Group_free(&some);
    CALLED("MPI_Group_free(group=group2)");
    MPI_Group_free(&all);
    CALLED("MPI_Group_free(group=group1)");
    MPI_Comm_free(&split);
    CALLED("MPI_Comm_free(comm=comm2)");
    MPI_Comm_idup(dup, &made, &request);
    CALLED("MPI_Comm_idup(comm=comm1, newcomm=comm2, request=r1)");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    MPI_Comm_test_inter(made, &flag);
    CALLED("MPI_Comm_test_inter(comm=comm2, flag=false)");
    MPI_Comm_disconnect(&made);
    CALLED("MPI_Comm_disconnect(comm=comm2)");
    MPI_Comm_dup_with_info(dup, MPI_INFO_NULL, &made);
    CALLED("MPI_Comm_dup_with_info(comm=comm1, info=MPI_INFO_NULL, newcomm=comm2)");
    MPI_Comm_free(&dup);
    CALLED("MPI_Comm_free(comm=comm1)");
    MPI_Comm_free(&made);
    CALLED("MPI_Comm_free(comm=comm2)");
}

static void between_groups(void)
{
    MPI_Comm side, inter, merged;
    MPI_Group far;
    const int alone = rank == 2;
    int n;

    MPI_Comm_split(world, alone, 0, &side);
    CALLED("MPI_Comm_split(comm=MPI_COMM_WORLD, color=%d, key=0, newcomm=comm1)", alone);
    MPI_Intercomm_create(side, 0, world, alone ? 0 : 2, 9, &inter);
    CALLED("MPI_Intercomm_create(local_comm=comm1, local_leader=0, peer_comm=MPI_COMM_WORLD, remote_leader=%d, tag=9, newintercomm=comm2)", alone ? 0 : 2);
    MPI_Comm_remote_size(inter, &n);
    CALLED("MPI_Comm_remote_size(comm=comm2, size=%d)", alone ? 2 : 1);
    MPI_Comm_remote_group(inter, &far);
    CALLED("MPI_Comm_remote_group(comm=comm2, group=group1)");
    MPI_Group_size(far, &n);
    CALLED("MPI_Group_size(group=group1, size=%d)", alone ? 2 : 1);
    MPI_Group_free(&far);
    CALLED("MPI_Group_free(group=group1)");
    MPI_Intercomm_merge(inter, alone, &merged);
    CALLED("MPI_Intercomm_merge(intercomm=comm2, high=%s, newintracomm=comm3)", alone ? "true" : "false");
    MPI_Comm_free(&inter);
    CALLED("MPI_Comm_free(comm=comm2)");
    MPI_Comm_free(&side);
    CALLED("MPI_Comm_free(comm=comm1)");
    MPI_Comm_free(&merged);
    CALLED("MPI_Comm_free(comm=comm3)");
}

static void cartesian(void)
{
    MPI_Comm cart, row;
    int dims[2] = { 0, 1 }, periods[2] = { 1, 0 }, remain[2] = { 1, 0 }, where[2], n, from, to;
    int shape[2], wraps[2], ones[4] = { 1, 1, 1, 1 }, places[4] = { 0, 1, 2, 3 };
    MPI_Aint offsets[4] = { 0, 4, 8, 12 };
    MPI_Datatype types[4] = { MPI_INT, MPI_INT, MPI_INT, MPI_INT };

    MPI_Dims_create(3, 2, dims);
    CALLED("MPI_Dims_create(nnodes=3, ndims=2, dims=[0, 1]→[3, 1])");
    MPI_Cart_create(world, 2, dims, periods, 0, &cart);
    CALLED("MPI_Cart_create(comm_old=MPI_COMM_WORLD, ndims=2, dims=[3, 1], periods=[true, false], reorder=false, comm_cart=comm1)");
    MPI_Topo_test(cart, &n);
    CALLED("MPI_Topo_test(comm=comm1, status=MPI_CART)");
    MPI_Topo_test(world, &n);
    CALLED("MPI_Topo_test(comm=MPI_COMM_WORLD, status=MPI_UNDEFINED)");
    MPI_Cartdim_get(cart, &n);
    CALLED("MPI_Cartdim_get(comm=comm1, ndims=2)");
    MPI_Cart_get(cart, 2, shape, wraps, where);
    CALLED("MPI_Cart_get(comm=comm1, maxdims=2, dims=[3, 1], periods=[true, false], coords=[%d, 0])", rank);
    MPI_Cart_coords(cart, 2, 2, where);
    CALLED("MPI_Cart_coords(comm=comm1, rank=2, maxdims=2, coords=[2, 0])");
    MPI_Cart_rank(cart, where, &n);
    CALLED("MPI_Cart_rank(comm=comm1, coords=[2, 0], rank=2)");
    MPI_Cart_shift(cart, 0, 1, &from, &to);
    CALLED("MPI_Cart_shift(comm=comm1, direction=0, disp=1, rank_source=%d, rank_dest=%d)", (rank + 2) % 3, (rank + 1) % 3);
    MPI_Cart_shift(cart, 1, -1, &from, &to);
    CALLED("MPI_Cart_shift(comm=comm1, direction=1, disp=-1, rank_source=MPI_PROC_NULL, rank_dest=MPI_PROC_NULL)");
    MPI_Cart_sub(cart, remain, &row);
    CALLED("MPI_Cart_sub(comm=comm1, remain_dims=[true, false], newcomm=comm2)");
    MPI_Comm_free(&row);
    CALLED("MPI_Comm_free(comm=comm2)");
    /* Two neighbours in each dimension, although the second has none. */
    MPI_Neighbor_allgather(data, 1, MPI_INT, got, 1, MPI_INT, cart);
    CALLED("MPI_Neighbor_allgather(sendbuf=%p, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_INT, comm=comm1)", (void *)data, (void *)got);
    MPI_Neighbor_allgatherv(data, 1, MPI_INT, got, ones, places, MPI_INT, cart);
    CALLED("MPI_Neighbor_allgatherv(sendbuf=%p, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcounts=[1, 1, 1, 1], displs=[0, 1, 2, 3], recvtype=MPI_INT, comm=comm1)", (void *)data, (void *)got);
    MPI_Neighbor_alltoallw(data, ones, offsets, types, got, ones, offsets, types, cart);
    CALLED("MPI_Neighbor_alltoallw(sendbuf=%p, sendcounts=[1, 1, 1, 1], sdispls=[0, 4, 8, 12], sendtypes=[MPI_INT, MPI_INT, MPI_INT, MPI_INT], recvbuf=%p, recvcounts=[1, 1, 1, 1], rdispls=[0, 4, 8, 12], recvtypes=[MPI_INT, MPI_INT, MPI_INT, MPI_INT], comm=comm1)", (void *)data, (void *)got);
    MPI_Comm_free(&cart);
    CALLED("MPI_Comm_free(comm=comm1)");
    /* Two of three ranks. */
    dims[0] = 2;
    MPI_Cart_create(world, 1, dims, periods, 0, &cart);
    CALLED("MPI_Cart_create(comm_old=MPI_COMM_WORLD, ndims=1, dims=[2], periods=[true], reorder=false, comm_cart=%s)", rank == 2 ? "MPI_COMM_NULL" : "comm1");
    if (rank != 2) {
        MPI_Comm_free(&cart);
        CALLED("MPI_Comm_free(comm=comm1)");
    }
}

/* A path: 0 - 1 - 2. */
static void graph(void)
{
    static const char *const neighbours[N] = { "[1]", "[0, 2]", "[1]" };
    static const int degrees[N] = { 1, 2, 1 };
    static const char *const ones[N] = { "[1]", "[1, 1]", "[1]" }, *const steps[N] = { "[0]", "[0, 1]", "[0]" };
    MPI_Comm path;
    MPI_Request request;
    int index[N] = { 1, 3, 4 }, edges[4] = { 1, 0, 2, 1 }, n, m, all[4], ends[N], counts[2] = { 1, 1 }, places[2] = { 0, 1 };

    MPI_Graph_create(world, N, index, edges, 0, &path);
    CALLED("MPI_Graph_create(comm_old=MPI_COMM_WORLD, nnodes=3, index=[1, 3, 4], edges=[1, 0, 2, 1], reorder=false, comm_graph=comm1)");
    MPI_Topo_test(path, &n);
    CALLED("MPI_Topo_test(comm=comm1, status=MPI_GRAPH)");
    MPI_Graphdims_get(path, &n, &m);
    CALLED("MPI_Graphdims_get(comm=comm1, nnodes=3, nedges=4)");
    MPI_Graph_get(path, N, 4, ends, all);
    CALLED("MPI_Graph_get(comm=comm1, maxindex=3, maxedges=4, index=[1, 3, 4], edges=[1, 0, 2, 1])");
    MPI_Graph_neighbors_count(path, 1, &n);
    CALLED("MPI_Graph_neighbors_count(comm=comm1, rank=1, nneighbors=2)");
    MPI_Graph_neighbors(path, rank, degrees[rank], all);
    CALLED("MPI_Graph_neighbors(comm=comm1, rank=%d, maxneighbors=%d, neighbors=%s)", rank, degrees[rank], neighbours[rank]);
    MPI_Neighbor_alltoallv(data, counts, places, MPI_INT, got, counts, places, MPI_INT, path);
    CALLED("MPI_Neighbor_alltoallv(sendbuf=%p, sendcounts=%s, sdispls=%s, sendtype=MPI_INT, recvbuf=%p, recvcounts=%s, rdispls=%s, recvtype=MPI_INT, comm=comm1)",
           (void *)data, ones[rank], steps[rank], (void *)got, ones[rank], steps[rank]);
    MPI_Ineighbor_alltoallv(data, counts, places, MPI_INT, got, counts, places, MPI_INT, path, &request);
    CALLED("MPI_Ineighbor_alltoallv(sendbuf=%p, sendcounts=%s, sdispls=%s, sendtype=MPI_INT, recvbuf=%p, recvcounts=%s, rdispls=%s, recvtype=MPI_INT, comm=comm1, request=r1)",
           (void *)data, ones[rank], steps[rank], (void *)got, ones[rank], steps[rank]);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    MPI_Comm_free(&path);
    CALLED("MPI_Comm_free(comm=comm1)");
}

/* All ranks send to rank 0, which sends to none. */
static void distributed_graph(void)
{
    MPI_Comm star;
    int to[1] = { 0 }, from[2] = { 1, 2 }, weights[2] = { 10, 20 }, own[1] = { rank }, degree[1] = { 1 };
    int n, m, weighted, in[2], out[2], in_weights[2], out_weights[2], counts[2] = { 1, 1 }, places[2] = { 0, 1 };
    const int root = rank == 0;

    MPI_Dist_graph_create_adjacent(world, root ? 2 : 0, from, root ? weights : MPI_WEIGHTS_EMPTY, root ? 0 : 1, to,
                                   root ? MPI_WEIGHTS_EMPTY : weights, MPI_INFO_NULL, 0, &star);
    CALLED("MPI_Dist_graph_create_adjacent(comm_old=MPI_COMM_WORLD, indegree=%d, sources=%s, sourceweights=%s, outdegree=%d, destinations=%s, destweights=%s, info=MPI_INFO_NULL, reorder=false, comm_dist_graph=comm1)",
           root ? 2 : 0, root ? "[1, 2]" : "[]", root ? "[10, 20]" : "MPI_WEIGHTS_EMPTY", root ? 0 : 1, root ? "[]" : "[0]", root ? "MPI_WEIGHTS_EMPTY" : "[10]");
    MPI_Topo_test(star, &n);
    CALLED("MPI_Topo_test(comm=comm1, status=MPI_DIST_GRAPH)");
    MPI_Dist_graph_neighbors_count(star, &n, &m, &weighted);
    CALLED("MPI_Dist_graph_neighbors_count(comm=comm1, indegree=%d, outdegree=%d, weighted=true)", n, m);
    MPI_Dist_graph_neighbors(star, n, in, in_weights, m, out, out_weights);
    CALLED("MPI_Dist_graph_neighbors(comm=comm1, maxindegree=%d, sources=%s, sourceweights=%s, maxoutdegree=%d, destinations=%s, destweights=%s)",
           root ? 2 : 0, root ? "[1, 2]" : "[]", root ? "[10, 20]" : "[]", root ? 0 : 1, root ? "[]" : "[0]", root ? "[]" : "[10]");
    MPI_Neighbor_alltoallv(data, counts, places, MPI_INT, got, counts, places, MPI_INT, star);
    CALLED("MPI_Neighbor_alltoallv(sendbuf=%p, sendcounts=%s, sdispls=%s, sendtype=MPI_INT, recvbuf=%p, recvcounts=%s, rdispls=%s, recvtype=MPI_INT, comm=comm1)",
           (void *)data, root ? "[]" : "[1]", root ? "[]" : "[0]", (void *)got, root ? "[1, 1]" : "[]", root ? "[0, 1]" : "[]");
    MPI_Comm_free(&star);
    CALLED("MPI_Comm_free(comm=comm1)");

    /* The same, each rank naming the edge that leaves it. */
    MPI_Dist_graph_create(world, root ? 0 : 1, own, degree, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &star);
    CALLED("MPI_Dist_graph_create(comm_old=MPI_COMM_WORLD, n=%d, sources=%s, degrees=%s, destinations=%s, weights=MPI_UNWEIGHTED, info=MPI_INFO_NULL, reorder=false, comm_dist_graph=comm1)",
           root ? 0 : 1, expect_ints(own, root ? 0 : 1), root ? "[]" : "[1]", root ? "[]" : "[0]");
    MPI_Dist_graph_neighbors_count(star, &n, &m, &weighted);
    CALLED("MPI_Dist_graph_neighbors_count(comm=comm1, indegree=%d, outdegree=%d, weighted=false)", root ? 2 : 0, root ? 0 : 1);
    MPI_Dist_graph_neighbors(star, n, in, MPI_UNWEIGHTED, m, out, MPI_UNWEIGHTED);
    CALLED("MPI_Dist_graph_neighbors(comm=comm1, maxindegree=%d, sources=%s, sourceweights=MPI_UNWEIGHTED, maxoutdegree=%d, destinations=%s, destweights=MPI_UNWEIGHTED)",
           n, expect_ints(in, n), m, expect_ints(out, m));
    MPI_Comm_free(&star);
    CALLED("MPI_Comm_free(comm=comm1)");
}

static void attributes(void)
{
    static int value;
    int plain, dup, flag, *got_it;
    MPI_Comm copy;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL);
    CALLED("MPI_Comm_create_keyval(comm_copy_attr_fn=MPI_COMM_NULL_COPY_FN, comm_delete_attr_fn=MPI_COMM_NULL_DELETE_FN, comm_keyval=%d, extra_state=NULL)", plain);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup, &value);
    CALLED("MPI_Comm_create_keyval(comm_copy_attr_fn=MPI_COMM_DUP_FN, comm_delete_attr_fn=MPI_COMM_NULL_DELETE_FN, comm_keyval=%d, extra_state=%p)", dup, (void *)&value);
    MPI_Comm_set_attr(world, plain, &value);
    CALLED("MPI_Comm_set_attr(comm=MPI_COMM_WORLD, comm_keyval=%d, attribute_val=%p)", plain, (void *)&value);
    MPI_Comm_set_attr(world, dup, data);
    CALLED("MPI_Comm_set_attr(comm=MPI_COMM_WORLD, comm_keyval=%d, attribute_val=%p)", dup, (void *)data);
    MPI_Comm_dup(world, &copy);
    CALLED("MPI_Comm_dup(comm=MPI_COMM_WORLD, newcomm=comm1)");
    MPI_Comm_get_attr(copy, plain, &got_it, &flag);
    CALLED("MPI_Comm_get_attr(comm=comm1, comm_keyval=%d, attribute_val=unset, flag=false)", plain);
    MPI_Comm_get_attr(copy, dup, &got_it, &flag);
    CALLED("MPI_Comm_get_attr(comm=comm1, comm_keyval=%d, attribute_val=%p, flag=true)", dup, (void *)data);
    MPI_Comm_get_attr(world, MPI_TAG_UB, &got_it, &flag);
    CALLED("MPI_Comm_get_attr(comm=MPI_COMM_WORLD, comm_keyval=MPI_TAG_UB, attribute_val=%p, flag=true)", (void *)got_it);
    MPI_Comm_delete_attr(copy, dup);
    CALLED("MPI_Comm_delete_attr(comm=comm1, comm_keyval=%d)", dup);
    MPI_Comm_free(&copy);
    CALLED("MPI_Comm_free(comm=comm1)");
    MPI_Comm_delete_attr(world, plain);
    CALLED("MPI_Comm_delete_attr(comm=MPI_COMM_WORLD, comm_keyval=%d)", plain);
    MPI_Comm_delete_attr(world, dup);
    CALLED("MPI_Comm_delete_attr(comm=MPI_COMM_WORLD, comm_keyval=%d)", dup);
    const int keys[2] = { plain, dup };
    MPI_Comm_free_keyval(&plain);
    CALLED("MPI_Comm_free_keyval(comm_keyval=%d→MPI_KEYVAL_INVALID)", keys[0]);
    MPI_Comm_free_keyval(&dup);
    CALLED("MPI_Comm_free_keyval(comm_keyval=%d→MPI_KEYVAL_INVALID)", keys[1]);
}

/* The functions of MPI 1, which MPI still has. */
static void deprecated(void)
{
    int key, flag, *got_it;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &key, data);
    CALLED("MPI_Keyval_create(copy_fn=MPI_NULL_COPY_FN, delete_fn=MPI_NULL_DELETE_FN, keyval=%d, extra_state=%p)", key, (void *)data);
    MPI_Attr_put(world, key, got);
    CALLED("MPI_Attr_put(comm=MPI_COMM_WORLD, keyval=%d, attribute_val=%p)", key, (void *)got);
    MPI_Attr_get(world, key, &got_it, &flag);
    CALLED("MPI_Attr_get(comm=MPI_COMM_WORLD, keyval=%d, attribute_val=%p, flag=true)", key, (void *)got);
    MPI_Attr_get(MPI_COMM_SELF, key, &got_it, &flag);
    CALLED("MPI_Attr_get(comm=MPI_COMM_SELF, keyval=%d, attribute_val=unset, flag=false)", key);
    MPI_Attr_delete(world, key);
    CALLED("MPI_Attr_delete(comm=MPI_COMM_WORLD, keyval=%d)", key);
    const int was = key;
    MPI_Keyval_free(&key);
    CALLED("MPI_Keyval_free(keyval=%d→MPI_KEYVAL_INVALID)", was);
#pragma GCC diagnostic pop
}

static void error_handlers(void)
{
    MPI_Errhandler handler;
    MPI_Comm copy;

    MPI_Comm_get_errhandler(world, &handler);
    CALLED("MPI_Comm_get_errhandler(comm=MPI_COMM_WORLD, errhandler=MPI_ERRORS_ARE_FATAL)");
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    CALLED("MPI_Comm_set_errhandler(comm=MPI_COMM_WORLD, errhandler=MPI_ERRORS_RETURN)");
    /* A failed call does not set the handle of the new object. */
    MPI_Comm_dup(MPI_COMM_NULL, &copy);
    CALLED("MPI_Comm_dup(comm=MPI_COMM_NULL, newcomm=unset) = ERR_COMM");
    MPI_Comm_split(world, 3, 3, &copy);
    CALLED("MPI_Comm_split(comm=MPI_COMM_WORLD, color=3, key=3, newcomm=comm1)");
    MPI_Comm_free(&copy);
    CALLED("MPI_Comm_free(comm=comm1)");
    MPI_Comm_set_errhandler(world, handler);
    CALLED("MPI_Comm_set_errhandler(comm=MPI_COMM_WORLD, errhandler=MPI_ERRORS_ARE_FATAL)");
    MPI_Errhandler_free(&handler);
    CALLED("MPI_Errhandler_free(errhandler=MPI_ERRORS_ARE_FATAL)");
}

int main(void)
{
    MPI_Init(NULL, NULL);
    CALLED("MPI_Init(argc=NULL, argv=NULL)");
    MPI_Comm_rank(world, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);

    groups();
    communicators();
    between_groups();
    cartesian();
    graph();
    distributed_graph();
    attributes();
    deprecated();
    error_handlers();

    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(rank);
    return 0;
}
