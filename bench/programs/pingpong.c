/* Pairs of ranks send a small message to and fro: every delay of one rank delays the other.
 *
 * usage: pingpong [rounds]; prints the seconds and the MPI calls of rank 0 between two barriers. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 100000;
    double message[8] = { 0 };
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int partner = (rank ^ 1) < size ? rank ^ 1 : MPI_PROC_NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        if (rank % 2 == 0)
            MPI_Send(message, 8, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD);
        MPI_Recv(message, 8, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank % 2 == 1)
            MPI_Send(message, 8, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;
    if (rank == 0)
        printf("seconds %.4f calls %d\n", seconds, 2 * rounds);
    MPI_Finalize();
    return 0;
}
