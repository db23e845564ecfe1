/* The cost of calls that match messages, one kind after the other: a rank sends to itself. Prints
 * nanoseconds per round, the least of several repeats.
 *
 *     matching [rounds] [kind]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 15 };

static MPI_Request requests[4];
static int got, flag, index_of, indices[4];
static MPI_Status statuses[4];

static int sent;

static void send(void) { MPI_Send(&sent, 1, MPI_INT, 0, 1, MPI_COMM_SELF); }

static void post(int n) {
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &requests[n]);
}

static void exchange_round(void) {
    MPI_Sendrecv(&sent, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static void wait_round(void) {
    post(0);
    send();
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void testsome_round(void) {
    post(0);
    send();
    do
        MPI_Testsome(4, requests, &flag, indices, statuses);
    while (flag == 0);
}

static void waitany_round(void) {
    post(0);
    send();
    MPI_Waitany(4, requests, &index_of, statuses);
}

static void failed_round(void) { MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE); }

static void iprobe_round(void) {
    MPI_Iprobe(MPI_ANY_SOURCE, 2, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

static void wtime_round(void) { flag = MPI_Wtime() > 1e300; }

static const char *only;

static void measure(const char *name, void (*round)(void), int rounds) {
    double best = 1e9;
    if (only != NULL && strcmp(only, name) != 0)
        return;
    for (int turn = 0; turn < TURNS; turn++) {
        double start = MPI_Wtime();
        for (int i = 0; i < rounds; i++)
            round();
        double each = (MPI_Wtime() - start) / rounds;
        best = each < best ? each : best;
    }
    printf("%s %.1f\n", name, best * 1e9);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 20000;
    only = argc > 2 ? argv[2] : NULL;
    for (int i = 0; i < 4; i++)
        requests[i] = MPI_REQUEST_NULL;
    measure("sendrecv", exchange_round, rounds);
    measure("irecv+wait", wait_round, rounds);
    measure("irecv+waitany", waitany_round, rounds);
    measure("irecv+testsome", testsome_round, rounds);
    measure("wtime", wtime_round, rounds);
    MPI_Irecv(&got, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &requests[1]);
    measure("failed-test", failed_round, rounds);
    measure("failed-iprobe", iprobe_round, rounds);
    MPI_Send(&sent, 1, MPI_INT, 0, 3, MPI_COMM_SELF);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
