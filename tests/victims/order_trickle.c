/* Receives from any source, a few per second, in a program that is killed at the end. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int messages = argc > 1 ? atoi(argv[1]) : 30, me, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; me || i < messages * (size - 1); i++) {
        if (me) {
            usleep(100000);
            MPI_Send(&me, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        } else {
            int from;
            MPI_Recv(&from, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("%d\n", from);
            fflush(stdout);
        }
    }
    raise(SIGKILL);
}
