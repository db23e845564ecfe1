/* Receives that complete in random order.
 *
 *     waitany_random [n] [rounds]
 *
 * In each round (1,000 of them) rank 0 posts n receives, by default one, from each of the other
 * ranks, and completes them one by one with MPI_Waitany. The others wait for a random time, which
 * differs from run to run, before each message. At the end rank 0 prints how many receives there
 * were, and a number that stands for the order in which they completed.
 *
 * For measuring what the order of completions costs in a trace, and for checking that a replay
 * repeats it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_MICROSECONDS = 200 };

static void receive(int n, int rounds, int senders)
{
    int all = n * senders;
    int *in = malloc(all * sizeof *in);
    MPI_Request *requests = malloc(all * sizeof *requests);
    unsigned order = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < all; i++)
            MPI_Irecv(&in[i], 1, MPI_INT, 1 + i % senders, 0, MPI_COMM_WORLD, &requests[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < all; i++) {
            int which;
            MPI_Waitany(all, requests, &which, MPI_STATUS_IGNORE);
            order = order * 16777619 + which;
            if (in[which] != 1 + which % senders)
                MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    printf("%d receives, order %08x\n", all * rounds, order);
    free(in);
    free(requests);
}

static void send(int n, int rounds, int rank)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    srandom(t.tv_nsec + 1000003u * rank);
    for (int round = 0; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) {
            usleep(random() % LONGEST_MICROSECONDS);
            MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 1000;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "waitany_random: one rank has nobody to receive from\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 0)
        receive(n, rounds, size - 1);
    else
        send(n, rounds, rank);
    MPI_Finalize();
    return 0;
}
