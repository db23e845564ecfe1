/*
 * A program that is not linked to MPI: it opens the library with local scope and calls it through
 * pointers from dlsym.
 *
 * Such calls bypass a preloaded tool, which must tolerate that. The MPI library's own calls may still
 * reach it.
 */
#include <mpi.h>
#include <stdlib.h>
#include "opened_library.h"
#include "say.h"

static void *library;

static void *symbol(const char *name)
{
    void *address = dlsym(library, name);
    if (address == NULL) {
        say("no %s", name);
        exit(90);
    }
    return address;
}

#define CALL(name) ((__typeof__(name) *) symbol(#name))

#ifdef OPEN_MPI /* there, handles are addresses in the library */
#define WORLD ((MPI_Comm) symbol("ompi_mpi_comm_world"))
#define INT ((MPI_Datatype) symbol("ompi_mpi_int"))
#define SUM ((MPI_Op) symbol("ompi_mpi_op_sum"))
#else
#define WORLD MPI_COMM_WORLD
#define INT MPI_INT
#define SUM MPI_SUM
#endif

int main(int argc, char **argv)
{
    int rank = -1, sum = -1, size = -1;
    library = open_mpi_library(RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        say("no library: %s", dlerror());
        return 91;
    }
    CALL(MPI_Init)(&argc, &argv);
    CALL(MPI_Comm_rank)(WORLD, &rank);
    CALL(MPI_Comm_size)(WORLD, &size);
    for (int i = 0; i < 100; i++)
        CALL(MPI_Allreduce)(&rank, &sum, 1, INT, SUM, WORLD);
    say("rank %d of %d: sum %d", rank, size, sum);
    CALL(MPI_Finalize)();
    return 0;
}
