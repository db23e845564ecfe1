/*
 * Ranks in a row exchange with their neighbours and compute. One of them computes ten times as long, so all others
 * wait for it inside MPI. Computing is a spin of fixed duration, so it does not depend on the machine.
 *
 *     late_rank LATE [steps]
 */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
#include "say.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void compute(double seconds)
{
    double end = now() + seconds;
    while (now() < end)
        ;
}

static void halo(double *u, int up, int down)
{
    MPI_Request r[4];
    MPI_Irecv(u, 8, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(u + 8, 8, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &r[1]);
    MPI_Isend(u + 16, 8, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &r[2]);
    MPI_Isend(u + 24, 8, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &r[3]);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size;
    double u[32] = {0}, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int late = atoi(argv[1]), steps = argc > 2 ? atoi(argv[2]) : 40;
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    for (int step = 0; step < steps; step++) {
        halo(u, up, down);
        compute(rank == late ? 20e-3 : 2e-3);
        if (step % 10 == 9)
            MPI_Allreduce(u, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    say("rank %d is done", rank);
    MPI_Finalize();
    return 0;
}
