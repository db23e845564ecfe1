/* Every way to complete, query, cancel and free a request, and generalized requests. Which request
 * completes first is random, so results are printed per request, or if only one can complete.
 * Runs on 2 ranks. */
#include "coverage.h"

#define MESSAGES 4

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank;
static int data[MESSAGES][2];
static MPI_Request requests[MESSAGES];
static MPI_Status statuses[MESSAGES];

/* Rank 0 sends, rank 1 receives, in any order. */
static void post(int source)
{
    for (int i = 0; i < MESSAGES; i++) {
        data[i][0] = rank == 0 ? 10 + i : -1;
        data[i][1] = rank == 0 ? 20 + i : -1;
        if (rank == 0)
            MPI_Isend(data[i], 1 + i % 2, MPI_INT, 1, i, world, &requests[i]);
        else
            MPI_Irecv(data[i], 2, MPI_INT, source, i, world, &requests[i]);
    }
}

/* `mine`: the statuses of all requests, or null where they were ignored. */
static void show(const MPI_Status *mine)
{
    for (int i = 0; i < MESSAGES; i++) {
        if (rank == 1 && mine)
            show_status(&mine[i], MPI_INT);
        show_ints("data", data[i], 2);
        say("    null: %d", requests[i] == MPI_REQUEST_NULL);
    }
}

static void waits(void)
{
    MPI_Status status, some[MESSAGES];
    int index, count, indices[MESSAGES];

    post(0);
    for (int i = 0; i < MESSAGES; i++)
        CALL(MPI_Wait(&requests[i], &statuses[i]));
    show(statuses);
    CALL(MPI_Wait(&requests[0], &status)); /* null by now: an empty status */
    show_status(&status, MPI_INT);

    post(MPI_ANY_SOURCE);
    CALL(MPI_Waitall(MESSAGES, requests, statuses));
    show(statuses);
    post(MPI_ANY_SOURCE);
    CALL(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    show(NULL);
    CALL(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));

    post(MPI_ANY_SOURCE);
    for (int i = 0; i < MESSAGES; i++) {
        CALL(MPI_Waitany(MESSAGES, requests, &index, &status));
        statuses[index] = status;
    }
    show(statuses);
    CALL(MPI_Waitany(MESSAGES, requests, &index, MPI_STATUS_IGNORE));
    say("    index %s", count_text(index));

    post(MPI_ANY_SOURCE);
    for (int done = 0; done < MESSAGES; done += count) {
        POLL(MPI_Waitsome(MESSAGES, requests, &count, indices, some));
        for (int i = 0; i < count; i++)
            statuses[indices[i]] = some[i];
    }
    say("MPI_Waitsome");
    show(statuses);
    post(MPI_ANY_SOURCE);
    for (int done = 0; done < MESSAGES; done += count)
        POLL(MPI_Waitsome(MESSAGES, requests, &count, indices, MPI_STATUSES_IGNORE));
    show(NULL);
    CALL(MPI_Waitsome(MESSAGES, requests, &count, indices, some));
    say("    count %s", count_text(count));
}

static void tests(void)
{
    MPI_Status status, some[MESSAGES];
    int flag, index, count, indices[MESSAGES];

    post(0);
    for (int i = 0; i < MESSAGES; i++)
        for (flag = 0; !flag;)
            POLL(MPI_Test(&requests[i], &flag, &statuses[i]));
    say("MPI_Test");
    show(statuses);
    CALL(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
    say("    flag %d", flag);

    post(MPI_ANY_SOURCE);
    for (flag = 0; !flag;)
        POLL(MPI_Testall(MESSAGES, requests, &flag, statuses));
    say("MPI_Testall");
    show(statuses);
    post(MPI_ANY_SOURCE);
    for (flag = 0; !flag;)
        POLL(MPI_Testall(MESSAGES, requests, &flag, MPI_STATUSES_IGNORE));
    show(NULL);

    post(MPI_ANY_SOURCE);
    for (int done = 0; done < MESSAGES; done += flag) {
        POLL(MPI_Testany(MESSAGES, requests, &index, &flag, &status));
        if (flag)
            statuses[index] = status;
    }
    say("MPI_Testany");
    show(statuses);
    CALL(MPI_Testany(MESSAGES, requests, &index, &flag, &status));
    say("    flag %d, index %s", flag, count_text(index));

    post(MPI_ANY_SOURCE);
    for (int done = 0; done < MESSAGES; done += count) {
        POLL(MPI_Testsome(MESSAGES, requests, &count, indices, some));
        for (int i = 0; i < count; i++)
            statuses[indices[i]] = some[i];
    }
    say("MPI_Testsome");
    show(statuses);
    CALL(MPI_Testsome(MESSAGES, requests, &count, indices, MPI_STATUSES_IGNORE));
    say("    count %s", count_text(count));
}

/* Asking without completing. */
static void questions(void)
{
    MPI_Status status;
    int flag;

    post(0);
    for (int i = 0; i < MESSAGES; i++) {
        for (flag = 0; !flag;)
            POLL(MPI_Request_get_status(requests[i], &flag, &status));
        say("MPI_Request_get_status");
        if (rank == 1)
            show_status(&status, MPI_INT);
        say("    null: %d", requests[i] == MPI_REQUEST_NULL);
    }
#if HAVE_MPI_4_1
    int index, count, indices[MESSAGES];
    CALL(MPI_Request_get_status_any(1, requests, &index, &flag, &status));
    say("    index %d, flag %d", index, flag);
    CALL(MPI_Request_get_status_some(MESSAGES, requests, &count, indices, statuses));
    say("    count %d", count);
    CALL(MPI_Request_get_status_all(MESSAGES, requests, &flag, statuses));
    say("    flag %d", flag);
#endif
    MPI_Waitall(MESSAGES, requests, statuses);
    show(statuses);
}

static void cancellation(void)
{
    MPI_Request request;
    MPI_Status status;
    int buffer, flag;

    CALL(MPI_Irecv(&buffer, 1, MPI_INT, MPI_ANY_SOURCE, 4242, world, &request));
    CALL(MPI_Cancel(&request));
    CALL(MPI_Wait(&request, &status));
    CALL(MPI_Test_cancelled(&status, &flag));
    say("    cancelled %d", flag);

    /* Freed while it is active: it completes nevertheless. */
    if (rank == 0) {
        buffer = 77;
        CALL(MPI_Isend(&buffer, 1, MPI_INT, 1, 5, world, &request));
        CALL(MPI_Request_free(&request));
        say("    null: %d", request == MPI_REQUEST_NULL);
    } else {
        MPI_Recv(&buffer, 1, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE);
        say("    received %d", buffer);
    }
    MPI_Barrier(world);
}

/* One receive of two is too short for its message. */
static void error_in_status(void)
{
    if (rank == 0) {
        int both[2] = { 1, 2 };
        MPI_Send(both, 1, MPI_INT, 1, 6, world);
        MPI_Send(both, 2, MPI_INT, 1, 7, world);
        return;
    }
    MPI_Irecv(data[0], 1, MPI_INT, 0, 6, world, &requests[0]);
    MPI_Irecv(data[1], 1, MPI_INT, 0, 7, world, &requests[1]);
    CALL(MPI_Waitall(2, requests, statuses));
    say("    %s, %s", class_of(statuses[0].MPI_ERROR), class_of(statuses[1].MPI_ERROR));
}

static int query(void *extra, MPI_Status *status)
{
    int *state = extra;
    say("query %d", *state);
    CALL(MPI_Status_set_cancelled(status, *state == 9));
    if (*state == 3)
        CALL(MPI_Status_set_elements_x(status, MPI_INT, *state));
#if HAVE_MPI_4_1
    else if (*state == 4)
        CALL(MPI_Status_set_elements_c(status, MPI_INT, *state));
#endif
    else
        CALL(MPI_Status_set_elements(status, MPI_INT, *state));
#if HAVE_MPI_4_1
    CALL(MPI_Status_set_source(status, 5));
    CALL(MPI_Status_set_tag(status, 6));
    CALL(MPI_Status_set_error(status, MPI_SUCCESS));
#else
    status->MPI_SOURCE = 5;
    status->MPI_TAG = 6;
#endif
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    say("free %d", *(int *)extra);
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    say("cancel %d, complete %d", *(int *)extra, complete);
    *(int *)extra = 9;
    return MPI_SUCCESS;
}

static void generalized(void)
{
    MPI_Request request;
    MPI_Status status;
    int flag;

    for (int i = 2; i <= 4; i++) {
        int state = i;
        memset(&status, 0, sizeof status); /* a wait leaves the error field alone */
        CALL(MPI_Grequest_start(query, release, cancel, &state, &request));
        CALL(MPI_Test(&request, &flag, &status));
        say("    flag %d", flag);
        CALL(MPI_Grequest_complete(request));
        CALL(MPI_Wait(&request, &status));
        show_status(&status, MPI_INT);
#if HAVE_MPI_4_1
        int value;
        CALL(MPI_Status_get_source(&status, &value));
        say("    source %d", value);
        CALL(MPI_Status_get_tag(&status, &value));
        say("    tag %d", value);
        CALL(MPI_Status_get_error(&status, &value));
        say("    error %d", value);
#endif
    }

    int state = 5;
    CALL(MPI_Grequest_start(query, release, cancel, &state, &request));
    CALL(MPI_Cancel(&request));
    CALL(MPI_Grequest_complete(request));
    CALL(MPI_Wait(&request, &status));
    show_status(&status, MPI_INT);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    return_errors(world);

    waits();
    tests();
    questions();
    cancellation();
    error_in_status();
    generalized();

    print_lines(world);
    MPI_Finalize();
    return 0;
}
