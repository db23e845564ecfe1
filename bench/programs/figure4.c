/* The program of figure 4 of the paper on ScalaTrace II: even and odd ranks send each other messages in loops
 * with different trip counts and different calls.
 *
 * usage: figure4 [steps] */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 1000, in[6], out = 0;
    MPI_Request requests[12];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int other = rank ^ 1;
    for (int step = 0; step < steps && other < size; step++) {
        if (rank % 2 == 0) {
            for (int i = 0; i < 5; i++) {
                MPI_Isend(&out, 1, MPI_INT, other, 0, MPI_COMM_WORLD, &requests[2 * i]);
                MPI_Irecv(&in[i], 1, MPI_INT, other, 0, MPI_COMM_WORLD, &requests[2 * i + 1]);
            }
            MPI_Isend(&out, 1, MPI_INT, other, 0, MPI_COMM_WORLD, &requests[10]);
            MPI_Irecv(&in[5], 1, MPI_INT, other, 0, MPI_COMM_WORLD, &requests[11]);
            MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
        } else {
            for (int i = 0; i < 6; i++) {
                MPI_Isend(&out, 1, MPI_INT, other, 0, MPI_COMM_WORLD, &requests[0]);
                MPI_Irecv(&in[0], 1, MPI_INT, other, 0, MPI_COMM_WORLD, &requests[1]);
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            }
        }
    }
    MPI_Finalize();
    return 0;
}
