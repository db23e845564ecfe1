/*
 * A deadlock after a receive that was cancelled, and whose status the program ignored.
 *
 * Rank 1 sends a message with the tag of the cancelled receive, and rank 0 waits for another tag. A tool that takes the
 * cancelled receive for one that got the message does not see that the message is there. For three ranks. It never ends
 * by itself.
 */
#include <mpi.h>
#include "say.h"

enum { TAG = 5, GO = 6, OTHER = 7 };

int main(int argc, char **argv)
{
    int rank, size, value = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        MPI_Request request;
        MPI_Irecv(&value, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, 1, GO, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
    }
    say("about to deadlock");
    MPI_Recv(&value, 1, MPI_INT, (rank + 1) % size, OTHER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
