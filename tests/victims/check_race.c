/* Rank 0 receives from any rank, then from rank 2. If the message of rank 2 comes first, the second receive waits
 * forever. With the name of a file as argument, that cannot happen: rank 2 sends once the file exists, which rank 0
 * writes between its receives. MPI does not know of it. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, data = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Recv(&data, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (argc > 1)
            fclose(fopen(argv[1], "w"));
        MPI_Recv(&data, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (argc > 1)
            remove(argv[1]);
    } else if (rank == 1) {
        MPI_Send(&data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (rank == 2) {
        usleep(200000);
        while (argc > 1 && access(argv[1], F_OK) != 0)
            usleep(10000);
        MPI_Send(&data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
