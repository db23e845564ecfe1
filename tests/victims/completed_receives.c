/*
 * Wildcard receives that complete by requests, in every way there is. Rank 0 posts them, and knows for each
 * request which receive it was. It prints one line for each completing call that completed something: the
 * number and kind of the call, then index and receive of each request that was a wildcard receive.
 */
#include <mpi.h>
#include <stdio.h>

enum { SLOTS = 4, ROUNDS = 40, MOST = 64 };

static MPI_Request requests[MOST];
static int receive_of[MOST]; /* -1: not a wildcard receive */
static int buffers[MOST];
static int posted, calls;

static void post(int slot) {
    MPI_Irecv(&buffers[slot], 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[slot]);
    receive_of[slot] = posted++;
}

static void post_again(int slot, int all) {
    if (posted < all) {
        post(slot);
    }
}

static void tell(const char *kind, int count, const int *indices) {
    printf("call %d %s", calls++, kind);
    for (int i = 0; i < count; i++) {
        int index = indices ? indices[i] : i;
        if (receive_of[index] >= 0) {
            printf(" %d:%d", index, receive_of[index]);
        }
    }
    printf("\n");
}

/* A pool whose receives are posted again as they complete, until `all` are posted. */
static void pool(int all) {
    int taken = 0;
    for (int i = 0; i < SLOTS; i++) {
        post(i);
    }
    while (taken + SLOTS < all) {
        int index, count, indices[SLOTS], flag;
        MPI_Waitany(SLOTS, requests, &index, MPI_STATUS_IGNORE);
        tell("Waitany", 1, &index);
        post_again(index, all);
        MPI_Waitsome(SLOTS, requests, &count, indices, MPI_STATUSES_IGNORE);
        tell("Waitsome", count, indices);
        for (int i = 0; i < count; i++) {
            post_again(indices[i], all);
        }
        taken += 1 + count;
        MPI_Testany(SLOTS, requests, &index, &flag, MPI_STATUS_IGNORE);
        if (flag && index == MPI_UNDEFINED) {
            calls++;
        } else if (flag) {
            tell("Testany", 1, &index);
            post_again(index, all);
            taken++;
        }
    }
    /* The last ones, the newest first. */
    for (int i = SLOTS - 1; i >= 0; i--) {
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            printf("call %d Wait 0:%d\n", calls++, receive_of[i]);
        }
    }
}

int main(int argc, char **argv) {
    int rank, size, value = 7;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank != 0) {
        for (int i = 0; i < ROUNDS; i++) {
            MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        pool(ROUNDS * (size - 1));
        MPI_Barrier(MPI_COMM_WORLD);
        /* Receives between sends. */
        for (int i = 0; i < size - 1; i++) {
            post(2 * i);
            MPI_Isend(&value, 1, MPI_INT, i + 1, 2, MPI_COMM_WORLD, &requests[2 * i + 1]);
            receive_of[2 * i + 1] = -1;
        }
        MPI_Waitall(2 * (size - 1), requests, MPI_STATUSES_IGNORE);
        tell("Waitall", 2 * (size - 1), NULL);
    }
    MPI_Finalize();
    return 0;
}
