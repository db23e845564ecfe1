/* Receives from any source, so that a record of receive orders has call sites with both methods. */
#include <mpi.h>

static void __attribute__((noinline)) exchange(int value) {
    int got;
    MPI_Sendrecv(&value, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 4; i++)
        exchange(i);
    MPI_Finalize();
    return 0;
}
