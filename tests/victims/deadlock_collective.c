/*
 * A deadlock between a collective and messages: rank 0 waits for all others in MPI_Barrier, while
 * they wait for a message that rank 0 would send afterwards. For two ranks or more. It never ends by
 * itself.
 */
#include <mpi.h>
#include "say.h"

enum { EXCHANGES = 10, LATER = 7 };

int main(int argc, char **argv)
{
    int rank, size, value = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    for (int i = 0; i < EXCHANGES; i++)
        MPI_Bcast(&value, 1, MPI_INT, i % size, MPI_COMM_WORLD);
    say("rank %d: about to deadlock", rank);
    if (rank == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int other = 1; other < size; other++)
            MPI_Send(&value, 1, MPI_INT, other, LATER, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&value, 1, MPI_INT, 0, LATER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }

    say("rank %d: there was no deadlock", rank);
    MPI_Finalize();
    return 0;
}
