/* Ranks with threads: each rank multiplies its rows, and the sum is passed around a ring. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 64;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *a = malloc(n * n * sizeof(*a)), *x = malloc(n * sizeof(*x)),
           *y = calloc(n, sizeof(*y));
    for (long i = 0; i < n * n; i++)
        a[i] = i % 11;
    for (long i = 0; i < n; i++)
        x[i] = i;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        double sum = 0;
        for (long j = 0; j < n; j++)
            sum += a[i * n + j] * x[j];
        y[i] = sum + rank;
    }
    double mine = 0, all = 0;
    for (long i = 0; i < n; i++)
        mine += y[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d %g\n", size, all);
    MPI_Finalize();
    return 0;
}
