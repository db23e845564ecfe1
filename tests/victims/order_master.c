/* A master gives work to the first rank that asks, and sums results in the order of arrival.
 *
 *     order_master [tasks] [seed]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ASK = 1, WORK = 2, STOP = 3 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int tasks = argc > 1 ? atoi(argv[1]) : 300, seed = argc > 2 ? atoi(argv[2]) : 1;
    if (rank == 0) {
        double sum = seed, result;
        int given = 0, order = 0;
        for (int working = size - 1; working > 0;) {
            MPI_Status status;
            MPI_Recv(&result, 1, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            sum = sum * 0.999 + result;
            order = order * 31 + status.MPI_SOURCE;
            int task = given++;
            int tag = task < tasks ? WORK : STOP;
            working -= tag == STOP;
            MPI_Send(&task, 1, MPI_INT, status.MPI_SOURCE, tag, MPI_COMM_WORLD);
        }
        printf("sum %a, order %d\n", sum, order);
    } else {
        double result = 0;
        int done = 0;
        double start = MPI_Wtime();
        for (;;) {
            int task;
            MPI_Status status;
            MPI_Send(&result, 1, MPI_DOUBLE, 0, ASK + rank, MPI_COMM_WORLD);
            MPI_Recv(&task, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            if (status.MPI_TAG == STOP)
                break;
            result = 0;
            for (int i = 0; i < 100 + task % 7 * 50; i++)
                result += sin(task + i * seed);
            done++;
        }
        printf("rank %d: %d tasks in %.9f s\n", rank, done, MPI_Wtime() - start);
    }
    MPI_Finalize();
    return 0;
}
