/*
 * longjmp out of receives and completing calls (Recv, Wait, Waitall, Waitany, Testsome, Sendrecv), repeatedly, by an
 * error handler that is called for messages that are too long. In between and after each jump, messages from any
 * source are received.
 *
 * (With MPI_THREAD_MULTIPLE, MPIs themselves do not survive this: their locks stay locked.)
 */
#include <mpi.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include "say.h"

enum { ROUNDS = 30, WAYS = 6, TAG_LONG = 7, TAG_OTHER = 9 };

static jmp_buf back;
static int rank, size;
static MPI_Comm jumpy;

static void jump(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    (void) code;
    longjmp(back, 1);
}

/* Receives a message that is too long, in one of these ways; never returns. */
static void receive_too_long(int way, int from)
{
    static int room[2], data = 5;
    MPI_Request requests[2];
    int index, indices[2], count = 0;
    MPI_Status statuses[2];
    switch (way) {
    case 0:
        MPI_Recv(room, 1, MPI_INT, MPI_ANY_SOURCE, TAG_LONG, jumpy, MPI_STATUS_IGNORE);
        break;
    case 1:
        MPI_Irecv(room, 1, MPI_INT, MPI_ANY_SOURCE, TAG_LONG, jumpy, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Irecv(room, 1, MPI_INT, MPI_ANY_SOURCE, TAG_LONG, jumpy, &requests[0]);
        requests[1] = MPI_REQUEST_NULL;
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        break;
    case 3:
        MPI_Irecv(room, 1, MPI_INT, from, TAG_LONG, jumpy, &requests[0]);
        requests[1] = MPI_REQUEST_NULL;
        MPI_Waitany(2, requests, &index, &statuses[0]);
        break;
    case 4:
        MPI_Irecv(room, 1, MPI_INT, MPI_ANY_SOURCE, TAG_LONG, jumpy, &requests[0]);
        requests[1] = MPI_REQUEST_NULL;
        while (count == 0)
            MPI_Testsome(2, requests, &count, indices, statuses);
        break;
    default:
        MPI_Sendrecv(&data, 1, MPI_INT, rank, TAG_OTHER, room, 1, MPI_INT, MPI_ANY_SOURCE,
                     TAG_LONG, jumpy, MPI_STATUS_IGNORE);
    }
}

/* A message from every rank, in the order of arrival. */
static void receive_from_all(int round)
{
    char line[256] = "";
    int data = rank;
    MPI_Request *sends = malloc(size * sizeof *sends);
    for (int i = 0; i < size; i++)
        MPI_Isend(&data, 1, MPI_INT, i, round, MPI_COMM_WORLD, &sends[i]);
    for (int i = 0; i < size; i++) {
        int got;
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, round, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        sprintf(line + strlen(line), " %d", got);
    }
    MPI_Waitall(size, sends, MPI_STATUSES_IGNORE);
    free(sends);
    say("rank %d, round %d:%s", rank, round, line);
}

int main(int argc, char **argv)
{
    static volatile int round, way, jumps;
    MPI_Errhandler handler;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &jumpy);
    MPI_Comm_create_errhandler(jump, &handler);
    MPI_Comm_set_errhandler(jumpy, handler);
    /* MPICH calls this one where several requests are completed. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    for (round = 0; round < ROUNDS; round++) {
        way = round % WAYS;
        static int longer[2] = {1, 2}, sink;
        static MPI_Request send;
        int from = (rank + size - 1) % size;
        MPI_Isend(longer, 2, MPI_INT, (rank + 1) % size, TAG_LONG, jumpy, &send);
        if (setjmp(back) == 0) {
            receive_too_long(way, from);
            say("rank %d: no jump, way %d", rank, way);
        } else {
            jumps++;
        }
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        if (way == WAYS - 1)
            MPI_Recv(&sink, 1, MPI_INT, rank, TAG_OTHER, jumpy, MPI_STATUS_IGNORE);
        receive_from_all(round);
    }
    say("rank %d: %d jumps", rank, jumps);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&jumpy);
    MPI_Finalize();
    return 0;
}
