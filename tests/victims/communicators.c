/*
 * Communicators created in every way that needs no further processes. The program prints the members
 * of each: the ranks in MPI_COMM_WORLD of the local and of the remote group.
 * For three ranks.
 */
#include <mpi.h>
#include "say.h"

static int rank;

static int ranks_of(char *text, MPI_Group group)
{
    MPI_Group world;
    int size, n = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(group, &size);
    for (int i = 0; i < size; i++) {
        int in_world;
        MPI_Group_translate_ranks(group, 1, &i, world, &in_world);
        n += sprintf(text + n, "%s%d", i == 0 ? "" : " ", in_world);
    }
    MPI_Group_free(&world);
    return n;
}

static void made(const char *how, MPI_Comm comm)
{
    char local[64] = "", remote[64] = "";
    if (comm == MPI_COMM_NULL)
        return;
    int is_inter;
    MPI_Group group;
    MPI_Comm_group(comm, &group);
    ranks_of(local, group);
    MPI_Group_free(&group);
    MPI_Comm_test_inter(comm, &is_inter);
    if (is_inter) {
        MPI_Comm_remote_group(comm, &group);
        ranks_of(remote, group);
        MPI_Group_free(&group);
    }
    say("%d %s [%s] [%s]", rank, how, local, remote);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm dup, split, none, created, grouped, cart, sub, graph, inter, merged, later;
    MPI_Group world, some;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    made("MPI_Comm_dup", dup);
    MPI_Comm_split(dup, rank % 2, -rank, &split);
    made("MPI_Comm_split", split);
    MPI_Comm_split(dup, rank == 1 ? 0 : MPI_UNDEFINED, 0, &none);
    made("MPI_Comm_split", none);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, (int[]){ 2, 0 }, &some);
    MPI_Comm_create(MPI_COMM_WORLD, some, &created);
    made("MPI_Comm_create", created);
    if (rank != 1) {
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 5, &grouped);
        made("MPI_Comm_create_group", grouped);
        MPI_Comm_free(&grouped);
    }
    MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){ 3, 1 }, (int[]){ 0, 0 }, 0, &cart);
    made("MPI_Cart_create", cart);
    MPI_Cart_sub(cart, (int[]){ 0, 1 }, &sub);
    made("MPI_Cart_sub", sub);
    int weight = 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &rank, &weight, 1, &rank, &weight,
                                   MPI_INFO_NULL, 0, &graph);
    made("MPI_Dist_graph_create_adjacent", graph);
    /* 2 and 0 on one side, 1 on the other. */
    MPI_Intercomm_create(split, 0, MPI_COMM_WORLD, rank == 1 ? 2 : 1, 9, &inter);
    made("MPI_Intercomm_create", inter);
    MPI_Intercomm_merge(inter, rank == 1, &merged);
    made("MPI_Intercomm_merge", merged);
    MPI_Request request;
    MPI_Comm_idup(split, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    made("MPI_Comm_idup", later);
    /* An error: there is no communicator whose members a tool could ask for. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){ 4 }, (int[]){ 0 }, 0, &none);
    MPI_Finalize();
    return 0;
}
