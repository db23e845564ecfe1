/* A 2-D five-point stencil on a process grid: the program of Refrain's demo.
 *
 *     mpicc -O2 -o stencil2d examples/stencil2d.c && mpirun -n 4 ./stencil2d [iterations] [n]
 *
 * Each rank owns n x n cells with a border of one. In each iteration it exchanges its edges
 * with its four neighbours (none beyond the grid's edges) and averages; every tenth iteration
 * all ranks agree on how much has changed.
 */
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int iterations = argc > 1 ? atoi(argv[1]) : 100;
    int n = argc > 2 ? atoi(argv[2]) : 64;

    int size, rank, dims[2] = {0, 0}, periods[2] = {0, 0};
    MPI_Comm grid;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Comm_rank(grid, &rank);

    int up, down, left, right;
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Cart_shift(grid, 1, 1, &left, &right);

    int width = n + 2;
    double *now = calloc((size_t)width * width, sizeof *now);
    double *next = calloc((size_t)width * width, sizeof *next);
#define AT(a, i, j) (a)[(i) * width + (j)]
    AT(now, 1 + rank % n, 1 + (7 * rank) % n) = 1000.0;

    MPI_Datatype column;
    MPI_Type_vector(n, 1, width, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);

    double change = 0.0;
    for (int k = 0; k < iterations; k++) {
        MPI_Request r[8];
        MPI_Irecv(&AT(now, 0, 1), n, MPI_DOUBLE, up, 1, grid, &r[0]);
        MPI_Irecv(&AT(now, n + 1, 1), n, MPI_DOUBLE, down, 2, grid, &r[1]);
        MPI_Irecv(&AT(now, 1, 0), 1, column, left, 3, grid, &r[2]);
        MPI_Irecv(&AT(now, 1, n + 1), 1, column, right, 4, grid, &r[3]);
        MPI_Isend(&AT(now, n, 1), n, MPI_DOUBLE, down, 1, grid, &r[4]);
        MPI_Isend(&AT(now, 1, 1), n, MPI_DOUBLE, up, 2, grid, &r[5]);
        MPI_Isend(&AT(now, 1, n), 1, column, right, 3, grid, &r[6]);
        MPI_Isend(&AT(now, 1, 1), 1, column, left, 4, grid, &r[7]);
        MPI_Waitall(8, r, MPI_STATUSES_IGNORE);

        double mine = 0.0;
        for (int i = 1; i <= n; i++)
            for (int j = 1; j <= n; j++) {
                AT(next, i, j) = 0.2 * (AT(now, i, j) + AT(now, i - 1, j) + AT(now, i + 1, j)
                                        + AT(now, i, j - 1) + AT(now, i, j + 1));
                mine += fabs(AT(next, i, j) - AT(now, i, j));
            }
        double *swap = now;
        now = next;
        next = swap;
        if (k % 10 == 9)
            MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_SUM, grid);
    }
    if (rank == 0)
        printf("%d ranks as %d x %d, %d iterations: the last change was %.6f\n", size, dims[0],
               dims[1], iterations, change);

    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
    free(now);
    free(next);
    MPI_Finalize();
    return 0;
}
