/*
 * Messages longer than their receives, under MPI_ERRORS_RETURN, through every call that can
 * complete a receive, with statuses and without, with wildcards and without.
 *
 * A tool that passes its own status where the program ignores it, or that inspects the result before
 * it returns it, must change neither the returned error nor the statuses of the other receives.
 *
 * Only with the argument "all ignored" does a Waitall with ignored statuses complete wildcard
 * receives: after a truncation, MPICH (from 4.2 on) treats the other requests differently with and
 * without statuses, and Open MPI 5.0 reports the error only with statuses. A tool that must know the
 * matches of wildcards cannot be transparent there.
 */
#include <mpi.h>
#include "say.h"

enum { N = 4, LONG = 8, LAST = 99 };

static int rank, all_ignored;

/* Messages 0, 2 and 3 fit into a receive of one int, message 1 does not. */
static void send_all(void)
{
    int data[LONG] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    for (int i = 0; i < N; i++)
        MPI_Send(data, i == 1 ? LONG : 1, MPI_INT, 0, i, MPI_COMM_WORLD);
    /* Messages keep their order: with this one, all have arrived. */
    MPI_Send(NULL, 0, MPI_INT, 0, LAST, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void post(int data[N], MPI_Request requests[N], int source, int wild_tag)
{
    for (int i = 0; i < N; i++)
        MPI_Irecv(&data[i], 1, MPI_INT, source, wild_tag ? MPI_ANY_TAG : i, MPI_COMM_WORLD, &requests[i]);
    MPI_Recv(NULL, 0, MPI_INT, 1, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void say_statuses(const char *what, const MPI_Status *statuses, int n)
{
    for (int i = 0; i < n; i++) {
        int class = statuses[i].MPI_ERROR;
        if (class != MPI_SUCCESS && class != MPI_ERR_PENDING)
            MPI_Error_class(class, &class);
        say("%s status %d: source %d tag %d class %d", what, i, statuses[i].MPI_SOURCE,
            statuses[i].MPI_TAG, class);
    }
}

static void say_requests(const char *what, const MPI_Request *requests)
{
    for (int i = 0; i < N; i++)
        say("%s request %d: %s", what, i, requests[i] == MPI_REQUEST_NULL ? "null" : "active");
}

static void finish(MPI_Request *requests)
{
    for (int i = 0; i < N; i++)
        if (requests[i] != MPI_REQUEST_NULL)
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void receive_all(int source, int wild_tag)
{
    int data[N], code, flag, index, count, is_wild = wild_tag || source == MPI_ANY_SOURCE;
    MPI_Request requests[N];
    MPI_Status statuses[N];

    say("source %s, tag %s", source == MPI_ANY_SOURCE ? "any" : "given", wild_tag ? "any" : "given");

    for (int i = 0; i < N; i++) {
        int tag = wild_tag ? MPI_ANY_TAG : i;
        say_error("Recv", MPI_Recv(data, 1, MPI_INT, source, tag, MPI_COMM_WORLD,
                                   i % 2 ? MPI_STATUS_IGNORE : &statuses[0]));
    }
    MPI_Recv(NULL, 0, MPI_INT, 1, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);

    post(data, requests, source, wild_tag);
    say_error("Wait 0", MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    say_error("Wait 1", MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    say_error("Wait 2", MPI_Wait(&requests[2], &statuses[2]));
    say_requests("Wait", requests);
    finish(requests);

    post(data, requests, source, wild_tag);
    memset(statuses, 0, sizeof statuses);
    say_error("Waitall", MPI_Waitall(N, requests, statuses));
    say_statuses("Waitall", statuses, N);
    say_requests("Waitall", requests);
    finish(requests);

    post(data, requests, source, wild_tag);
    if (!is_wild || all_ignored) {
        say_error("Waitall, ignored", MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
        say_requests("Waitall, ignored", requests);
    }
    finish(requests);

    post(data, requests, source, wild_tag);
    memset(statuses, 0, sizeof statuses);
    do
        code = MPI_Testall(N, requests, &flag, statuses);
    while (code == MPI_SUCCESS && !flag);
    say_error("Testall", code);
    finish(requests);

    post(data, requests, source, wild_tag);
    do
        code = MPI_Testall(N, requests, &flag, MPI_STATUSES_IGNORE);
    while (code == MPI_SUCCESS && !flag);
    say_error("Testall, ignored", code);
    finish(requests);

    /* One at a time, so that it is certain which one is reported. */
    post(data, requests, source, wild_tag);
    memset(statuses, 0, sizeof statuses);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    say_error("Waitsome", MPI_Waitsome(2, requests, &count, (int[2]) { 0 }, statuses));
    say_error("Waitany", MPI_Waitany(1, &requests[2], &index, MPI_STATUS_IGNORE));
    say("Waitsome: %d, Waitany: %d", count, index);
    finish(requests);

    post(data, requests, source, wild_tag);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    say_error("Waitsome, ignored", MPI_Waitsome(2, requests, &count, (int[2]) { 0 }, MPI_STATUSES_IGNORE));
    say("Waitsome: %d", count);
    finish(requests);

    post(data, requests, source, wild_tag);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    say_error("Waitany, ignored", MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
    say("Waitany: %d", index);
    finish(requests);

    post(data, requests, source, wild_tag);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    do
        code = MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
    while (code == MPI_SUCCESS && !flag);
    say_error("Test, ignored", code);
    finish(requests);

}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    all_ignored = argc > 1 && strcmp(argv[1], "all ignored") == 0;
    for (int round = 0; round < 3; round++) {
        if (rank == 0)
            receive_all(round == 2 ? MPI_ANY_SOURCE : 1, round == 1);
        else
            for (int i = 0; i < 10; i++)
                send_all();
    }
    MPI_Finalize();
    return 0;
}
