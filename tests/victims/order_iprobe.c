/* A server rank that probes for requests of any rank, and does other work between probes: how much work
 * it does, and what it answers, depends on the number of failed probes.
 *
 *     order_iprobe [questions a rank] [seed]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUESTION = 1, ANSWER = 2, BYE = 3 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int questions = argc > 1 ? atoi(argv[1]) : 100, seed = argc > 2 ? atoi(argv[2]) : 1;
    double state = seed + rank;
    if (rank == 0) {
        long idle = 0;
        for (int left = size - 1; left > 0;) {
            int flag;
            MPI_Status status;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
            if (!flag) {
                idle++;
                state = sin(state) + 1.5;
                continue;
            }
            double question;
            MPI_Recv(&question, 1, MPI_DOUBLE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            if (status.MPI_TAG == BYE) {
                left--;
                continue;
            }
            state = state * 0.75 + question * 0.25 + 1e-3 * status.MPI_SOURCE;
            MPI_Send(&state, 1, MPI_DOUBLE, status.MPI_SOURCE, ANSWER, MPI_COMM_WORLD);
        }
        printf("rank 0: %a after %ld failed probes\n", state, idle);
    } else {
        for (int i = 0; i < questions; i++) {
            double answer;
            MPI_Send(&state, 1, MPI_DOUBLE, 0, QUESTION, MPI_COMM_WORLD);
            MPI_Recv(&answer, 1, MPI_DOUBLE, 0, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            state = cos(state) + answer;
        }
        MPI_Send(&state, 1, MPI_DOUBLE, 0, BYE, MPI_COMM_WORLD);
        printf("rank %d: %a\n", rank, state);
    }
    MPI_Finalize();
    return 0;
}
