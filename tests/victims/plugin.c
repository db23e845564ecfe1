/*
 * A shared object that is linked to MPI, as Python's modules are. `plugin_host.c` opens it.
 *
 * Built with -shared -fPIC.
 */
#include <mpi.h>
#include <stdlib.h>
#include "say.h"

int plugin_main(int argc, char **argv)
{
    int rank, size, sum = -1, in = -1, initialized = -1;
    MPI_Request requests[2];
    MPI_Initialized(&initialized);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 4, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d of %d: initialized %d, from %d, sum %d", rank, size, initialized, in, sum);
    MPI_Finalize();
    return 0;
}
