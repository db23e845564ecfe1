/* Several threads of each rank send to the same (rank, tag, communicator), and receive from any
 * source on the same communicator, at the same time. The scheduler decides which thread gets which
 * message, and in which order they are sent; the digest of each thread depends on it.
 *
 *     order_threads [rounds] [seed]
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, WAYS = 5, TAG = 7 };

static int rank, size, rounds;
static MPI_Comm comm;

struct thread {
    int number;
    uint64_t digest;
};

static void mix(struct thread *own, uint64_t value) {
    own->digest = (own->digest ^ value) * 0x9e3779b97f4a7c15u;
    own->digest ^= own->digest >> 29;
}

/* Sends one message and receives one, in one of several ways. */
static void exchange(struct thread *own, int way) {
    int to = (rank + 1) % size;
    uint64_t out = own->digest, in = 0;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Message message;
    switch (way) {
    case 0:
        MPI_Isend(&out, 1, MPI_UINT64_T, to, TAG, comm, &requests[0]);
        MPI_Recv(&in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case 1:
        MPI_Irecv(&in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
        MPI_Send(&out, 1, MPI_UINT64_T, to, TAG, comm);
        MPI_Wait(&requests[0], &status);
        break;
    case 2:
        MPI_Sendrecv(&out, 1, MPI_UINT64_T, to, TAG, &in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, TAG,
                     comm, &status);
        break;
    case 3:
        MPI_Send(&out, 1, MPI_UINT64_T, to, TAG, comm);
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(&in, 1, MPI_UINT64_T, &message, &status);
        break;
    default:
        MPI_Recv_init(&in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, TAG, comm, &requests[0]);
        MPI_Send_init(&out, 1, MPI_UINT64_T, to, TAG, comm, &requests[1]);
        MPI_Startall(2, requests);
        for (int flag = 0, polls = 0; !flag; polls++) {
            MPI_Test(&requests[0], &flag, &status);
            if (flag)
                mix(own, (uint64_t)polls);
        }
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
    mix(own, in + (uint64_t)status.MPI_SOURCE);
}

static void *work(void *argument) {
    struct thread *own = argument;
    for (int round = 0; round < rounds; round++)
        exchange(own, (round + own->number) % WAYS);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    rounds = argc > 1 ? atoi(argv[1]) : 50;
    uint64_t seed = argc > 2 ? (uint64_t)atol(argv[2]) : 1;
    if (provided < MPI_THREAD_MULTIPLE) {
        printf("threads may not call MPI at the same time\n");
    } else {
        pthread_t threads[THREADS];
        struct thread own[THREADS];
        for (int i = 0; i < THREADS; i++) {
            own[i] = (struct thread){i, seed + (uint64_t)(rank * THREADS + i)};
            pthread_create(&threads[i], NULL, work, &own[i]);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            printf("rank %d thread %d: %016llx\n", rank, i, (unsigned long long)own[i].digest);
        }
    }
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
