/*
 * A program without MPI that refers to it weakly, like a library for programs with and without
 * MPI, which calls MPI_Initialized only if it exists.
 *
 * Built so that it is not linked to libmpi.
 */
#include "say.h"

int MPI_Initialized(int *flag) __attribute__((weak));
int MPI_Finalized(int *flag) __attribute__((weak));

int main(void)
{
    int initialized = 1, finalized = 1;
    if (MPI_Initialized != NULL)
        MPI_Initialized(&initialized);
    else
        initialized = 0;
    if (MPI_Finalized != NULL)
        MPI_Finalized(&finalized);
    else
        finalized = 0;
    say("initialized %d, finalized %d", initialized, finalized);
    usleep(200000); /* MPICH's launcher requires that its ranks run for some time */
    return 0;
}
