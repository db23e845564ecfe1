/* Receives from any source, then only collective operations, which are not in a record of receive
 * orders.
 *
 *     order_collectives_after [killed|whole]
 *
 * With `killed` rank 1 dies between them.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long sum = rank, in, all;
    for (int to = 0; to < size; to++)
        if (to != rank)
            MPI_Send(&sum, 1, MPI_LONG, to, 1, MPI_COMM_WORLD);
    for (int i = 1; i < size; i++) {
        MPI_Recv(&in, 1, MPI_LONG, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum = sum * 3 + in;
    }
    int killed = argc > 1 && strcmp(argv[1], "killed") == 0;
    for (int i = 0; i < 100; i++) {
        if (i == 50 && rank == 1 && killed)
            kill(getpid(), SIGKILL);
        MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum += all % 7;
    }
    printf("rank %d: %ld\n", rank, sum);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
