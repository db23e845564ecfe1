/* Ranks receive from any source, and then enter a barrier. With another argument they hang: each
 * waits in a call whose order is not recorded for something that never happens; or all but one wait for
 * a message that was sent with another tag.
 *
 *     order_hang [meet | barriers | send | finalize | tag]
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, order = 0;
    MPI_Comm comms[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    const char *how = argc > 1 ? argv[1] : "meet";
    for (int i = 1; i < size; i++) {
        int from;
        if (rank == 0) {
            MPI_Recv(&from, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            order = order * size + from;
        }
    }
    if (rank > 0)
        MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    for (int to = 1; to < size; to++) {
        int from = 0, tag = strcmp(how, "tag") == 0 ? 3 : 2;
        if (rank == 0)
            MPI_Send(&from, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
        else if (rank == to)
            MPI_Recv(&from, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("rank %d: %d\n", rank, order);
    fflush(stdout);
    if (strcmp(how, "barriers") == 0) {
        MPI_Barrier(comms[rank % 2]);
    } else if (strcmp(how, "send") == 0 && rank == 0) {
        MPI_Ssend(&rank, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else if (strcmp(how, "finalize") != 0 || rank == 0) {
        MPI_Barrier(comms[0]);
    }
    MPI_Comm_free(&comms[0]);
    MPI_Comm_free(&comms[1]);
    MPI_Finalize();
    return 0;
}
