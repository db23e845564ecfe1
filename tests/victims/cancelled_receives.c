/*
 * Receives that are cancelled, and whose status the program ignores.
 *
 * Nothing but the status says whether a receive was cancelled or matched a message. A tool that pairs messages by their
 * order must know: the next receive with the same source and tag gets the message that the cancelled one did not get.
 */
#include <mpi.h>
#include "say.h"

enum { ROUNDS = 20, TAG = 5, GO = 6, BOTH = 2 };

static void receive(int round)
{
    int got[BOTH] = {-1, -1}, go = round;
    MPI_Request requests[BOTH];

    for (int i = 0; i < BOTH; i++)
        MPI_Irecv(&got[i], 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < BOTH; i++)
        MPI_Cancel(&requests[i]);
    if (round % 2) {
        MPI_Waitall(BOTH, requests, MPI_STATUSES_IGNORE);
    } else {
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
    MPI_Send(&go, 1, MPI_INT, 1, GO, MPI_COMM_WORLD);
    MPI_Recv(&got[0], 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    say("round %d: got %d and %d", round, got[0], got[1]);
}

int main(int argc, char **argv)
{
    int rank, go;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            receive(round);
        } else if (rank == 1) {
            MPI_Recv(&go, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            go += 100;
            MPI_Send(&go, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
