/*
 * MPI_Pcontrol takes any number of arguments of any type, in registers and on the stack; only a
 * profiling library knows which. `tool_pcontrol.c` is one.
 */
#include <mpi.h>
#include "say.h"

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Pcontrol(0);
    MPI_Pcontrol(1, "sections", 7, 2.5);
    MPI_Pcontrol(2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    MPI_Pcontrol(3, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5);
    MPI_Pcontrol(4, 1, 0.5, 2, 1.5, 3, 2.5, 4, 3.5, 5, 4.5, 6, 5.5, 7, 6.5, 8, 7.5, 9, 8.5, 10, 9.5);
    MPI_Pcontrol(5, (long double) 1.25, 1, (long double) 2.25, 3.5);
    PMPI_Pcontrol(0);
    say("rank %d: done", rank);
    MPI_Finalize();
    return 0;
}
