/* A pipeline: every rank has a pending receive from each other rank, completes whichever is first, and
 * forwards the message. Sends and a nonblocking barrier are in the same arrays.
 *
 *     order_waitany [rounds] [seed]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    uint64_t digest = (uint64_t)rank + (argc > 2 ? (uint64_t)atol(argv[2]) : 1);
    uint64_t *got = calloc((size_t)size, sizeof *got), *sent = calloc((size_t)size, sizeof *sent);
    MPI_Request *requests = malloc(sizeof *requests * (size_t)(2 * size + 1));
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < size; i++) {
            MPI_Irecv(&got[i], 1, MPI_UINT64_T, i, round % 3, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = 0; i < size; i++) {
            sent[i] = digest * 31 + (uint64_t)i;
            MPI_Isend(&sent[i], 1, MPI_UINT64_T, i, round % 3, MPI_COMM_WORLD, &requests[size + i]);
        }
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[2 * size]);
        for (int done = 0; done < 2 * size + 1; done++) {
            int which;
            MPI_Status status;
            MPI_Waitany(2 * size + 1, requests, &which, &status);
            digest = digest * 1000003u + (uint64_t)which;
            if (which < size)
                digest ^= got[which] + (uint64_t)status.MPI_SOURCE;
        }
    }
    printf("rank %d: %016llx\n", rank, (unsigned long long)digest);
    free(got);
    free(sent);
    free(requests);
    MPI_Finalize();
    return 0;
}
