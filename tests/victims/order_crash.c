/* All ranks pass numbers around in an order that differs from run to run; after the given number of messages
 * rank 1 prints what it has received, and is killed.
 *
 *     order_crash [messages]
 */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { POSTED = 3 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long last = argc > 1 ? atol(argv[1]) : 1000;
    uint64_t digest = (uint64_t)rank + 1, in[POSTED];
    MPI_Request requests[POSTED];
    for (int i = 0; i < POSTED; i++)
        MPI_Irecv(&in[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[i]);
    for (int to = 0; to < size; to++)
        MPI_Send(&digest, 1, MPI_UINT64_T, to, 1, MPI_COMM_WORLD);
    for (long n = 1;; n++) {
        int which;
        MPI_Status status;
        MPI_Waitany(POSTED, requests, &which, &status);
        digest = (digest * 31 + in[which]) * 0x9e3779b97f4a7c15u + (uint64_t)status.MPI_SOURCE;
        digest ^= digest >> 29;
        MPI_Irecv(&in[which], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[which]);
        if (rank == 1 && n == last) {
            printf("after %ld: %016llx\n", n, (unsigned long long)digest);
            fflush(stdout);
            kill(getpid(), SIGKILL);
        }
        MPI_Send(&digest, 1, MPI_UINT64_T, (int)((digest >> 20) % (uint64_t)size), 1, MPI_COMM_WORLD);
    }
}
