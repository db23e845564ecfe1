/* All ranks wait for one that computes for some time without calling MPI.
 *
 *     order_slow [seconds]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, from = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1) {
        sleep((unsigned)(argc > 1 ? atoi(argv[1]) : 3));
        for (int to = 0; to < size - 1; to++)
            MPI_Send(&rank, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&from, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("rank %d: %d\n", rank, from);
    MPI_Finalize();
    return 0;
}
