/*
 * Processes that MPI itself starts: two children for two parents, with an intercommunicator, which is
 * merged, split again and disconnected. The children have their own MPI_COMM_WORLD.
 */
#include <mpi.h>
#include "say.h"

int main(int argc, char **argv)
{
    MPI_Comm parent, between, all;
    int rank, size, sum = 0, remote = -1, is_child, codes[2] = { -1, -1 };
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    is_child = parent != MPI_COMM_NULL;
    if (is_child) {
        between = parent;
    } else {
        char *arguments[] = { "an argument", NULL };
        MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, codes);
        say("parent %d: codes %d %d", rank, codes[0], codes[1]);
    }
    MPI_Comm_remote_size(between, &remote);
    MPI_Intercomm_merge(between, is_child, &all);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    say("%s %d of %d: %d remote, sum %d, %d arguments", is_child ? "child" : "parent", rank, size, remote, sum,
        argc - 1);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&between);
    MPI_Finalize();
    return 0;
}
