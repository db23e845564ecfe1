/* A heat equation on rows of a plate, in which one rank has more to do: the material of its rows is expensive.
 *
 *     mpicc -O2 -g -o heat examples/heat.c -lm
 *     refrain trace --timing loop --callsite return -- mpirun -n 8 ./heat && refrain stats heat.refrain --by rank
 */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

enum { NX = 512, NY = 1024, STEPS = 200 };

static void halo(double *u, int rows, int up, int down)
{
    MPI_Request r[4];
    MPI_Irecv(u, NX, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(u + (rows + 1) * NX, NX, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &r[1]);
    MPI_Isend(u + NX, NX, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &r[2]);
    MPI_Isend(u + rows * NX, NX, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &r[3]);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
}

static double conductivity(int row)
{
    double c = 1;
    int terms = row > 640 && row <= 768 ? 300 : 1;
    for (int i = 0; i < terms; i++)
        c = 0.999 * c + 0.001 * sin(c);
    return 0.2 * c;
}

static double sweep(const double *u, double *v, int rows, int first)
{
    double change = 0;
    for (int i = 1; i <= rows; i++) {
        double c = conductivity(first + i);
        for (int j = 1; j < NX - 1; j++) {
            const double *x = u + i * NX + j;
            double new = *x + c * (x[-NX] + x[NX] + x[-1] + x[1] - 4 * *x);
            change += fabs(new - *x);
            v[i * NX + j] = new;
        }
    }
    return change;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rows = NY / size, up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    double *u = calloc((rows + 2) * NX, sizeof *u), *v = calloc((rows + 2) * NX, sizeof *v);
    for (int j = 0; j < NX; j++)
        u[NX + j] = rank == 0 ? 100 : 0;
    for (int step = 0; step < STEPS; step++) {
        halo(u, rows, up, down);
        double all, change = sweep(u, v, rows, rank * rows), *t = u;
        u = v, v = t;
        if (step % 10 == 9)
            MPI_Allreduce(&change, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
