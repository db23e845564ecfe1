/* A program that hangs: one side of an exchange uses another tag. Start it with an even number of ranks.
 *
 *     mpicc -O0 -g -o hang examples/hang.c && refrain trace -- mpirun -n 4 ./hang
 *
 * The ranks are split into rows of two. In each row the two ranks exchange values, step after step.
 * In the last row, at step 50, one of them sends with tag 51 instead of 50.
 */
#include <mpi.h>

static void exchange(MPI_Comm row, int step, int is_wrong)
{
    int rank, out = step, in;
    MPI_Comm_rank(row, &rank);
    int tag = is_wrong && rank == 1 ? step + 1 : step;
    MPI_Request request;
    MPI_Isend(&out, 1, MPI_INT, 1 - rank, tag, row, &request);
    MPI_Recv(&in, 1, MPI_INT, 1 - rank, step, row, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm row;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
    for (int step = 0; step < 100; step++)
        exchange(row, step, step == 50 && rank / 2 == size / 2 - 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&row);
    MPI_Finalize();
    return 0;
}
