/*
 * A child that runs no fork handlers (_Fork) and calls MPI beside its parent.
 *
 * The parent's log is mapped into the child too. If the child wrote there, calls of both
 * would be lost or garbled: the test counts the parent's 3,000 calls.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

int main(int argc, char **argv)
{
    int rank, flag, status;
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 1000; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pid_t child = _Fork();
    if (child == 0) {
        for (int i = 0; i < 3000; i++)
            MPI_Initialized(&flag);
        _exit(flag);
    }
    for (int i = 0; i < 1000; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    waitpid(child, &status, 0);
    for (int i = 0; i < 1000; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    say("the child ended with %d", WEXITSTATUS(status));
    MPI_Finalize();
    return 0;
}
