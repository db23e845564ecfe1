/*
 * Statuses: which fields MPI writes, and which it does not.
 *
 * Every status is filled with a pattern first. Calls that return a single status do not set
 * its MPI_ERROR; calls that find nothing do not touch it at all; and the bytes around it stay.
 */
#include <mpi.h>
#include "say.h"

enum { PATTERN = 0x5a, PATTERN_INT = 0x5a5a5a5a };

/* A status between two others. */
static struct { MPI_Status before, it, after; } three;
static MPI_Status many[6];
static int rank, size;

static MPI_Status *fresh(void)
{
    memset(&three, PATTERN, sizeof three);
    memset(many, PATTERN, sizeof many);
    return &three.it;
}

static int untouched(const void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *) at)[i] != PATTERN)
            return 0;
    return 1;
}

static void say_status(const char *what, const MPI_Status *s)
{
    int count = -1, elements = -1, cancelled = -1;
    if (untouched(s, sizeof *s)) {
        say("%s: untouched", what);
        return;
    }
    MPI_Get_count(s, MPI_INT, &count);
    MPI_Get_elements(s, MPI_SHORT, &elements);
    MPI_Test_cancelled(s, &cancelled);
    say("%s: source %d tag %d error %s count %d elements %d cancelled %d", what, s->MPI_SOURCE,
        s->MPI_TAG, s->MPI_ERROR == PATTERN_INT ? "untouched" : s->MPI_ERROR ? "set" : "success",
        count, elements, cancelled);
    if (!untouched(&three.before, sizeof(MPI_Status)) || !untouched(&three.after, sizeof(MPI_Status)))
        say("%s: wrote around the status", what);
}

int main(int argc, char **argv)
{
    int data[16] = { 0 }, flag, index, count, indices[6], other;
    MPI_Request request, requests[6];
    MPI_Message message;
    MPI_Status *s;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    other = 1 - rank;

    for (int wild = 0; wild < 2; wild++) {
        int from = wild ? MPI_ANY_SOURCE : other, any = wild ? MPI_ANY_TAG : 5;

        MPI_Sendrecv(data, 3, MPI_INT, other, 5, data + 4, 8, MPI_INT, from, any, MPI_COMM_WORLD, s = fresh());
        say_status("Sendrecv", s);
        MPI_Sendrecv_replace(data, 2, MPI_INT, other, 5, from, any, MPI_COMM_WORLD, s = fresh());
        say_status("Sendrecv_replace", s);

        MPI_Isend(data, 7, MPI_INT, other, 5, MPI_COMM_WORLD, &request);
        MPI_Probe(from, any, MPI_COMM_WORLD, s = fresh());
        say_status("Probe", s);
        MPI_Iprobe(from, 6, MPI_COMM_WORLD, &flag, s = fresh());
        say_status(flag ? "Iprobe, found" : "Iprobe, nothing", s);
        MPI_Mprobe(from, any, MPI_COMM_WORLD, &message, s = fresh());
        say_status("Mprobe", s);
        MPI_Mrecv(data, 16, MPI_INT, &message, s = fresh());
        say_status("Mrecv", s);
        MPI_Wait(&request, s = fresh());
        say_status("Wait on a send", &(MPI_Status) { .MPI_SOURCE = 0, .MPI_TAG = 0, .MPI_ERROR = s->MPI_ERROR });
        MPI_Wait(&request, s = fresh());
        say_status("Wait on null", s);
        MPI_Test(&request, &flag, s = fresh());
        say_status("Test on null", s);

        MPI_Recv(data, 1, MPI_INT, MPI_PROC_NULL, any, MPI_COMM_WORLD, s = fresh());
        say_status("Recv from nobody", s);

        MPI_Irecv(data, 16, MPI_INT, from, 99, MPI_COMM_WORLD, &request);
        MPI_Test(&request, &flag, s = fresh());
        say_status(flag ? "Test, done" : "Test, not done", s);
        MPI_Testany(1, &request, &index, &flag, s = fresh());
        say_status(flag ? "Testany, done" : "Testany, not done", s);
        MPI_Request_get_status(request, &flag, s = fresh());
        say_status(flag ? "Request_get_status, done" : "Request_get_status, not done", s);
        fresh();
        MPI_Testsome(1, &request, &count, indices, many);
        say_status(count ? "Testsome, done" : "Testsome, not done", &many[0]);
        MPI_Testall(1, &request, &flag, many);
        say_status(flag ? "Testall, done" : "Testall, not done", &many[0]);
        MPI_Cancel(&request);
        MPI_Wait(&request, s = fresh());
        MPI_Test_cancelled(s, &flag);
        say("Wait on a cancelled receive: cancelled %d, error %s", flag,
            s->MPI_ERROR == PATTERN_INT ? "untouched" : "touched");

        /* All at once; the last one is a send, the one before is null. */
        MPI_Barrier(MPI_COMM_WORLD);
        fresh();
        for (int i = 0; i < 4; i++)
            MPI_Irecv(&data[i], 1, MPI_INT, from, wild ? MPI_ANY_TAG : 10 + i, MPI_COMM_WORLD, &requests[i]);
        requests[4] = MPI_REQUEST_NULL;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 3; i++)
            MPI_Send(&data[8], 1, MPI_INT, other, 10 + i, MPI_COMM_WORLD);
        MPI_Isend(&data[8], 1, MPI_INT, other, 13, MPI_COMM_WORLD, &requests[5]);
        MPI_Waitall(6, requests, many);
        for (int i = 0; i < 5; i++)
            say_status("Waitall", &many[i]);

        /* One after another, so that the order is certain. */
        for (int i = 0; i < 3; i++) {
            MPI_Irecv(data, 4, MPI_INT, from, any, MPI_COMM_WORLD, &request);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Send(data, i, MPI_INT, other, 5, MPI_COMM_WORLD);
            s = fresh();
            if (i == 0)
                MPI_Waitany(1, &request, &index, s);
            else if (i == 1)
                MPI_Waitsome(1, &request, &count, indices, s);
            else
                for (flag = 0; !flag;)
                    MPI_Testany(1, &request, &index, &flag, s);
            say_status(i == 0 ? "Waitany" : i == 1 ? "Waitsome" : "Testany", s);
        }
    }
    MPI_Finalize();
    return 0;
}
