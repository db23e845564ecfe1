/*
 * Communicators with the same members that ranks make in different orders, as MPI allows: the order of
 * MPI_Comm_idup matters only per parent. Messages are sent on each new communicator, one after the
 * other. If a tool confuses two communicators, it finds a message that was received before it was sent.
 * For four ranks.
 */
#include <mpi.h>
#include "say.h"

enum { PARENTS = 4, TAG = 7 };

static int rank;

/* A message from world rank 0 to world rank 1 and back, through each communicator in turn. */
static void talk(MPI_Comm *comms, int n, int first, int second)
{
    for (int i = 0; i < n; i++) {
        int word = i;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Send(&word, 1, MPI_INT, second, TAG, comms[i]);
            MPI_Recv(&word, 1, MPI_INT, second, TAG, comms[i], MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(&word, 1, MPI_INT, first, TAG, comms[i], MPI_STATUS_IGNORE);
            MPI_Send(&word, 1, MPI_INT, first, TAG, comms[i]);
        }
        if (word != i)
            say("%d got %d instead of %d", rank, word, i);
    }
}

/* Duplicates every parent, in an order that depends on the rank. */
static void idup_all(MPI_Comm *parents, MPI_Comm *children)
{
    MPI_Request requests[PARENTS];
    for (int i = 0; i < PARENTS; i++) {
        int which = rank % 2 == 0 ? i : PARENTS - 1 - i;
        MPI_Comm_idup(parents[which], &children[which], &requests[which]);
    }
    MPI_Status statuses[PARENTS];
    MPI_Waitall(PARENTS, requests, statuses);
}

static void free_all(MPI_Comm *comms)
{
    for (int i = 0; i < PARENTS; i++)
        MPI_Comm_free(&comms[i]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm parents[PARENTS], children[PARENTS], grandchildren[PARENTS], half, none;

    /* Duplicates of duplicates. */
    for (int i = 0; i < PARENTS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &parents[i]);
    idup_all(parents, children);
    talk(children, PARENTS, 0, 1);
    idup_all(children, grandchildren);
    talk(grandchildren, PARENTS, 0, 1);
    free_all(grandchildren);
    free_all(children);

    /* Communicators that share members, and calls that return no communicator on some ranks. */
    MPI_Comm pairs[PARENTS];
    for (int i = 0; i < PARENTS; i++) {
        MPI_Comm_split(parents[i], rank / 2, 0, &pairs[i]);
        MPI_Comm_split(parents[i], rank == i % 2 ? 0 : MPI_UNDEFINED, 0, &none);
        if (none != MPI_COMM_NULL)
            MPI_Comm_free(&none);
    }
    idup_all(pairs, children);
    talk(children, PARENTS, 0, 1);
    free_all(children);
    free_all(pairs);
    /* All ranks have made the same number of calls on the parents, but not the same number of communicators. */
    idup_all(parents, children);
    talk(children, PARENTS, 0, 1);
    free_all(children);

    /* Between even and odd ranks. */
    MPI_Comm between[PARENTS];
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    for (int i = 0; i < PARENTS; i++)
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0 ? 1 : 0, i, &between[i]);
    talk(between, PARENTS, 0, 0);
    idup_all(between, children);
    talk(children, PARENTS, 0, 0);
    free_all(children);
    /* Communicators made of them have both groups. */
    for (int i = 0; i < PARENTS; i++)
        MPI_Intercomm_merge(between[i], rank % 2, &pairs[i]);
    int second;
    MPI_Group merged, world;
    MPI_Comm_group(pairs[0], &merged);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_translate_ranks(world, 1, (int[]){ 1 }, merged, &second);
    MPI_Group_free(&merged);
    MPI_Group_free(&world);
    idup_all(pairs, children);
    talk(children, PARENTS, 0, second);
    free_all(children);
    free_all(pairs);
    free_all(between);
    free_all(parents);
    MPI_Comm_free(&half);
    say("%d ok", rank);
    MPI_Finalize();
    return 0;
}
