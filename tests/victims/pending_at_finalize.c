/*
 * Receives that no message completes: cancelled and completed, cancelled and freed, freed, or (with
 * the argument "leave") still pending when MPI_Finalize is called.
 */
#include <mpi.h>
#include "say.h"

int main(int argc, char **argv)
{
    int data[8] = { 0 }, rank, cancelled;
    MPI_Request requests[4];
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    for (int i = 0; i < 4; i++)
        MPI_Irecv(&data[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &cancelled);
    say("rank %d: cancelled %d", rank, cancelled);
    MPI_Cancel(&requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Cancel(&requests[2]);
    MPI_Request_free(&requests[2]);
    say("rank %d: %s", rank, requests[2] == MPI_REQUEST_NULL ? "freed" : "kept");
    if (argc > 1 && strcmp(argv[1], "leave") == 0) {
        say("rank %d: leaves one", rank);
    } else {
        MPI_Cancel(&requests[3]);
        MPI_Wait(&requests[3], &status);
        MPI_Test_cancelled(&status, &cancelled);
        say("rank %d: cancelled %d", rank, cancelled);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    say("rank %d: data %d %d %d %d", rank, data[0], data[1], data[2], data[3]);
    return 0;
}
