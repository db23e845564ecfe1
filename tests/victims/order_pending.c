/* Receives from any source that stay pending during much other traffic: rank 0 receives, the others send.
 *
 *     order_pending [pending] [messages] [mode]
 *
 * Half of the pending receives are completed at once and posted again, the others only at the end. Then
 * rank 0 completes very many requests in one call, while some receives are pending, and cancels and
 * frees receives.
 *
 * With the mode "killed" it posts receives that no rank sends to, and others. When all messages have
 * arrived it waits for the last two, prints them, and kills itself: the other matches were never observed.
 */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DATA = 1, NEVER = 7, MANY = 140000 };

static uint64_t digest = 1469598103934665603u;

static void mix(int value) { digest = (digest ^ (uint64_t)value) * 1099511628211u; }

static void came(int which, const MPI_Status *status, int value) {
    mix(which);
    mix(status->MPI_SOURCE);
    mix(value);
}

static void post(int *buffer, MPI_Request *request) {
    MPI_Irecv(buffer, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, request);
}

static void receive(int pending, int messages, int size) {
    int total = messages * (size - 1), posted = 0, done = 0, busy = pending / 2;
    int *buffers = calloc((size_t)pending, sizeof *buffers);
    MPI_Request *requests = malloc((size_t)pending * sizeof *requests);
    for (; posted < pending; posted++)
        post(&buffers[posted], &requests[posted]);
    while (posted < total) {
        int which;
        MPI_Status status;
        MPI_Waitany(pending - busy, requests + busy, &which, &status);
        which += busy;
        came(which, &status, buffers[which]);
        post(&buffers[which], &requests[which]);
        posted++, done++;
    }
    for (int i = pending - 1; i >= 0; i--, done++) {
        MPI_Status status;
        MPI_Wait(&requests[i], &status);
        came(i, &status, buffers[i]);
    }
    free(buffers);
    free(requests);
}

/* Many requests by one call, while ten receives are pending. */
static void burst(int size) {
    int buffers[10], *indices = malloc(MANY * sizeof *indices), found, none = 0;
    MPI_Request requests[10], *sends = malloc(MANY * sizeof *sends);
    for (int i = 0; i < 10; i++)
        post(&buffers[i], &requests[i]);
    for (int i = 0; i < MANY; i++)
        MPI_Isend(&none, 1, MPI_INT, MPI_PROC_NULL, DATA, MPI_COMM_WORLD, &sends[i]);
    for (int left = MANY; left > 0; left -= found)
        MPI_Waitsome(MANY, sends, &found, indices, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 10 * (size > 1); i++) {
        MPI_Status status;
        MPI_Wait(&requests[i], &status);
        came(i, &status, buffers[i]);
    }
    free(indices);
    free(sends);
}

static void cancel(void) {
    for (int i = 0; i < 20; i++) {
        int buffer;
        MPI_Request request;
        MPI_Irecv(&buffer, 1, MPI_INT, MPI_ANY_SOURCE, NEVER, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        if (i % 2 == 0)
            MPI_Request_free(&request);
        else
            MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void killed(int rank, int size, int messages) {
    if (rank > 0) {
        for (int i = 0; i < messages; i++) {
            int value = rank * 100000 + i;
            MPI_Send(&value, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        pause();
    }
    int total = messages * (size - 1), never[300];
    int *buffers = calloc((size_t)total, sizeof *buffers);
    MPI_Request *requests = malloc((size_t)total * sizeof *requests), unused;
    for (int i = 0; i < 300; i++)
        MPI_Irecv(&never[i], 1, MPI_INT, MPI_ANY_SOURCE, NEVER, MPI_COMM_WORLD, &unused);
    for (int i = 0; i < total; i++)
        post(&buffers[i], &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = total - 1; i >= total - 2; i--) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        printf("receive %d has %d\n", i, buffers[i]);
    }
    fflush(stdout);
    raise(SIGKILL);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int pending = argc > 1 ? atoi(argv[1]) : 60, messages = argc > 2 ? atoi(argv[2]) : 5000;
    if (argc > 3 && strcmp(argv[3], "killed") == 0)
        killed(rank, size, messages);
    if (rank == 0) {
        receive(pending, messages, size);
        burst(size);
        cancel();
    } else {
        for (int i = 0; i < messages; i++) {
            int value = rank * 100000 + i;
            /* No rank runs ahead. */
            (i % 100 == 99 ? MPI_Ssend : MPI_Send)(&value, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = rank - 1; i < 10; i += size - 1)
            MPI_Send(&i, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD);
    }
    MPI_Aint here;
    MPI_Get_address(&rank, &here);
    if (MPI_Aint_add(here, 4) != here + 4 || MPI_Aint_diff(here + 4, 0) != here + 4)
        printf("rank %d: an address was cut\n", rank);
    if (rank == 0)
        printf("digest %016llx\n", (unsigned long long)digest);
    MPI_Finalize();
    return 0;
}
