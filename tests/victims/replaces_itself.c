/*
 * A program that queries MPI, then replaces itself with exec, like a wrapper that first looks at its
 * environment: one process number, two programs, one rank.
 */
#include <mpi.h>
#include <stdlib.h>
#include "say.h"

int main(int argc, char **argv)
{
    int flag = -1, rank, sum = 0;
    MPI_Initialized(&flag);
    if (argc < 2) {
        say("first: initialized %d", flag);
        execl(argv[0], argv[0], "again", NULL);
        return 98;
    }
    say("second: %s, initialized %d", argv[1], flag);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: sum %d", rank, sum);
    MPI_Finalize();
    return 0;
}
