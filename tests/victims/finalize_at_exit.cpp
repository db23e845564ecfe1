/*
 * MPI_Init from a constructor of a static object, MPI_Finalize from its destructor, calls from an
 * atexit function and from a function that the loader calls at the very end.
 */
#include <mpi.h>
#include <cstdlib>
extern "C" {
#define class class_
#include "say.h"
#undef class
}

static int rank;

struct Session {
    Session()
    {
        MPI_Init(nullptr, nullptr);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        say("rank %d: constructed", rank);
    }
    ~Session()
    {
        int sum = 0;
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Finalize();
        say("rank %d: destroyed, sum %d", rank, sum);
    }
};

static Session session;

static void at_exit(void)
{
    int finalized = -1, size = -1;
    MPI_Finalized(&finalized);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    say("rank %d: at exit, finalized %d, size %d", rank, finalized, size);
}

__attribute__((destructor)) static void at_the_end(void)
{
    int finalized = -1;
    MPI_Finalized(&finalized);
    say("rank %d: at the end, finalized %d", rank, finalized);
}

int main(void)
{
    std::atexit(at_exit);
    MPI_Barrier(MPI_COMM_WORLD);
    std::exit(0); /* another code would have the launcher kill the other ranks */
}
