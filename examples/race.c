/* A program whose result depends on the order in which messages arrive.
 *
 *     mpicc -O2 -g -o race examples/race.c && refrain record -- mpirun -n 4 ./race
 *
 * Rank 0 receives numbers from any source and sums them in single precision, where the order of
 * additions changes the last digits.
 */
#include <mpi.h>
#include <math.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, rounds = 2000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        float sum = 0;
        for (int i = 0; i < rounds * (size - 1); i++) {
            float value;
            MPI_Recv(&value, 1, MPI_FLOAT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum = sum * 0.99f + value;
        }
        printf("%.9g\n", sum);
    } else {
        for (int i = 0; i < rounds; i++) {
            float value = sinf((float)(rank * 1000 + i));
            MPI_Send(&value, 1, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
