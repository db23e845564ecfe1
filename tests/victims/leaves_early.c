/*
 * Ends without MPI_Finalize, in the way that its argument names. The tool must not change what the
 * launcher observes, nor the launcher's exit code.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include "say.h"

static void at_exit(void)
{
    say("atexit function");
}

int main(int argc, char **argv)
{
    int rank, sum = 0;
    const char *way = argc > 1 ? argv[1] : "";
    /* A core file would only fill the disk. */
    setrlimit(RLIMIT_CORE, &(struct rlimit) { 0, 0 });
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: %s, sum %d", rank, way, sum);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        /* The other ranks wait inside MPI for a message that never comes. */
        MPI_Recv(&sum, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    /* Gives them time to do so. Also, launchers lose output that they have not read when a rank dies. */
    usleep(300000);
    if (strcmp(way, "abort") == 0) {
        MPI_Abort(MPI_COMM_WORLD, 42);
        pause(); /* MPICH 5.0 returns, and the launcher kills the rank later */
    } else if (strcmp(way, "abort on self") == 0) {
        MPI_Abort(MPI_COMM_SELF, 43);
        pause();
    } else if (strcmp(way, "error") == 0) {
        MPI_Send(&sum, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (strcmp(way, "exit") == 0) {
        atexit(at_exit);
        exit(3);
    } else if (strcmp(way, "_exit") == 0) {
        _exit(4);
    } else if (strcmp(way, "quick_exit") == 0) {
        quick_exit(6);
    } else if (strcmp(way, "return") == 0) {
        return 5;
    } else if (strcmp(way, "return 0") == 0) {
        return 0;
    } else if (strcmp(way, "segfault") == 0) {
        *(volatile int *) 8 = 1;
    } else if (strcmp(way, "segfault inside") == 0) {
        /* MPI dereferences the address, and a tool may do so too. */
        MPI_Datatype type;
        MPI_Type_indexed(4, (int *) 8, (int *) 8, MPI_INT, &type);
    } else if (strcmp(way, "SIGTERM") == 0) {
        kill(getpid(), SIGTERM);
    } else if (strcmp(way, "SIGKILL") == 0) {
        kill(getpid(), SIGKILL);
    } else if (strcmp(way, "abort()") == 0) {
        abort();
    }
    say("rank %d: still here", rank);
    return 77;
}
