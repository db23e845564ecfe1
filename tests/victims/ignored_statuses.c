/*
 * Wildcard receives whose statuses the program ignores.
 *
 * A tool that needs the matches passes its own statuses. The data, the order and the other
 * outputs must be the same as without the tool, also if there are many statuses, if a callback inside
 * another call receives, or if nothing completes.
 */
#include <mpi.h>
#include <stdlib.h>
#include "say.h"

enum { MANY = 1000 };

static int rank, size;

static void reduce(void *in, void *inout, int *n, MPI_Datatype *type)
{
    /* A receive with ignored status inside MPI_Reduce_local. */
    int data = 3, got = 0;
    MPI_Request requests[2];
    (void) type;
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(&data, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < *n; i++)
        ((int *) inout)[i] += ((int *) in)[i] * got;
}

static long sum(const int *data, int n)
{
    long total = 0;
    for (int i = 0; i < n; i++)
        total = total * 31 % 1000003 + data[i];
    return total;
}

int main(int argc, char **argv)
{
    static int data[MANY], out[MANY];
    static MPI_Request requests[2 * MANY];
    static int indices[2 * MANY];
    int next, previous, flag, index, count, left;
    MPI_Message message;
    MPI_Op op;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    for (int i = 0; i < MANY; i++)
        out[i] = rank * MANY + i;

    for (int i = 0; i < 100; i++) {
        MPI_Request request;
        MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &request);
        switch (i % 5) {
        case 0:
            MPI_Recv(&data[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        case 1:
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(&data[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        case 2:
            do
                MPI_Iprobe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            while (!flag);
            MPI_Recv(&data[i], 1, MPI_INT, previous, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        case 3:
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(&data[i], 1, MPI_INT, &message, MPI_STATUS_IGNORE);
            break;
        case 4:
            MPI_Irecv(&data[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
            do
                MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
            while (!flag);
            break;
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    say("one by one on rank %d: %ld", rank, sum(data, 100));

    for (int way = 0; way < 6; way++) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < MANY; i++)
            MPI_Irecv(&data[i], 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < MANY; i++)
            MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[MANY + i]);
        left = 2 * MANY;
        while (left > 0) {
            switch (way) {
            case 0:
                MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
                left = 0;
                break;
            case 1:
                MPI_Testall(2 * MANY, requests, &flag, MPI_STATUSES_IGNORE);
                left = flag ? 0 : left;
                break;
            case 2:
                MPI_Waitsome(2 * MANY, requests, &count, indices, MPI_STATUSES_IGNORE);
                left -= count;
                break;
            case 3:
                MPI_Testsome(2 * MANY, requests, &count, indices, MPI_STATUSES_IGNORE);
                left -= count;
                break;
            case 4:
                MPI_Waitany(2 * MANY, requests, &index, MPI_STATUS_IGNORE);
                left--;
                break;
            case 5:
                MPI_Testany(2 * MANY, requests, &index, &flag, MPI_STATUS_IGNORE);
                left -= flag;
                break;
            }
        }
        say("way %d on rank %d: %ld", way, rank, sum(data, MANY));
        memset(data, 0, sizeof data);
    }

    MPI_Op_create(reduce, 1, &op);
    MPI_Reduce_local(out, data, 10, MPI_INT, op);
    say("in a callback on rank %d: %ld", rank, sum(data, 10));
    MPI_Op_free(&op);

    /* No requests at all, and only null ones. */
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Waitsome(2 * MANY, requests, &count, indices, MPI_STATUSES_IGNORE);
    MPI_Waitany(2 * MANY, requests, &index, MPI_STATUS_IGNORE);
    MPI_Testall(2 * MANY, requests, &flag, MPI_STATUSES_IGNORE);
    say("nothing left on rank %d: %d %d %d", rank, count == MPI_UNDEFINED, index == MPI_UNDEFINED, flag);
    MPI_Finalize();
    return 0;
}
