/* Communicators that are freed while receives on them are pending, and communicators of two parents that each rank
 * creates in a different order: MPI requires the same order only per parent. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 64 };

static unsigned long hash = 17;
static int me, size;

static void gather(MPI_Comm comm, int tag, int freed) {
    int from[MOST];
    MPI_Request requests[MOST];
    if (me) {
        usleep(rand() % 500);
        MPI_Send(&me, 1, MPI_INT, 0, tag, comm);
        if (freed) MPI_Comm_free(&comm);
        return;
    }
    for (int i = 0; i < size - 1; i++)
        MPI_Irecv(&from[i], 1, MPI_INT, MPI_ANY_SOURCE, tag, comm, &requests[i]);
    if (freed) {
        MPI_Comm_free(&comm);
        if (comm != MPI_COMM_NULL) printf("the communicator is still there\n");
    }
    for (int i = 0; i < size - 1; i++) {
        int which;
        MPI_Status status;
        MPI_Waitany(size - 1, requests, &which, &status);
        hash = hash * 31 + which * 100 + status.MPI_SOURCE * 10 + from[which];
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    srand(getpid());
    MPI_Comm parents[2], made[2];
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &parents[i]);
    for (int round = 0; round < rounds; round++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        gather(comm, round, 1);
        MPI_Request requests[2];
        for (int i = 0; i < 2; i++) {
            int which = (i + me) % 2;
            MPI_Comm_idup(parents[which], &made[which], &requests[which]);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 2; i++) {
            gather(made[i], round, 0);
            MPI_Barrier(made[i]);
            MPI_Comm_free(&made[i]);
        }
    }
    for (int i = 0; i < 2; i++) MPI_Comm_free(&parents[i]);
    if (me == 0) printf("%lx\n", hash);
    MPI_Finalize();
    return 0;
}
