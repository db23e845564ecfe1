/* Messages between two ranks in every mode: plain, immediate, persistent, partitioned,
 * exchanged, probed. Runs on 2 ranks. */
#ifndef F
#include "coverage.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank, peer;

/* When rank 0 returns from this, rank 1 has posted its receives: a ready send may follow. */
static void get_ready(void)
{
    if (rank == 1)
        MPI_Send(NULL, 0, MPI_INT, 0, 999, world);
    else
        MPI_Recv(NULL, 0, MPI_INT, 1, 999, world, MPI_STATUS_IGNORE);
}

/* The rest of the file, once for each size of counts. */
#define F(name) name
#define OF(name) name##_small
#define COUNT int
#include "coverage_point_to_point.c"
#undef F
#undef OF
#undef COUNT
#if HAVE_LARGE_COUNTS
#define F(name) name##_c
#define OF(name) name##_large
#define COUNT MPI_Count
#include "coverage_point_to_point.c"
#endif

static void probes(void)
{
    int flag = 0, count, data[4] = { 1, 2, 3, 4 };
    MPI_Count large;
    MPI_Status status;
    MPI_Datatype pair;
    MPI_Message message;

    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    if (rank == 0) {
        CALL(MPI_Send(data, 3, MPI_INT, 1, 41, world));
        CALL(MPI_Send(data, 4, MPI_INT, 1, 42, world));
    } else {
        CALL(MPI_Probe(MPI_ANY_SOURCE, 41, world, &status));
        show_status(&status, MPI_INT);
        /* Three ints are one pair and a half. */
        CALL(MPI_Get_count(&status, pair, &count));
        say("    count %s", count_text(count));
        CALL(MPI_Get_elements(&status, pair, &count));
        say("    elements %d", count);
        CALL(MPI_Get_elements_x(&status, pair, &large));
        say("    elements %lld", (long long)large);
#if HAVE_LARGE_COUNTS
        CALL(MPI_Get_count_c(&status, pair, &large));
        say("    count %s", count_text(large));
        CALL(MPI_Get_elements_c(&status, pair, &large));
        say("    elements %lld", (long long)large);
#endif
        CALL(MPI_Recv(data, 2, pair, 0, 41, world, MPI_STATUS_IGNORE));
        while (!flag)
            POLL(MPI_Iprobe(0, MPI_ANY_TAG, world, &flag, &status));
        say("MPI_Iprobe");
        show_status(&status, MPI_INT);
        CALL(MPI_Recv(data, 2, pair, 0, MPI_ANY_TAG, world, MPI_STATUS_IGNORE));
        show_ints("received", data, 4);
    }
    /* A message from MPI_PROC_NULL. */
    CALL(MPI_Mprobe(MPI_PROC_NULL, 5, world, &message, &status));
    say("    no process: %d", message == MPI_MESSAGE_NO_PROC);
    show_status(&status, MPI_INT);
    CALL(MPI_Mrecv(data, 4, MPI_INT, &message, &status));
    say("    null: %d", message == MPI_MESSAGE_NULL);
    CALL(MPI_Iprobe(peer, 4242, world, &flag, &status));
    say("    flag %d", flag);
    CALL(MPI_Improbe(peer, 4242, world, &flag, &message, &status));
    say("    flag %d", flag);
    MPI_Type_free(&pair);
}

#if HAVE_MPI_4
/* Eight partitions of two ints on the one side are four of four on the other. */
static void partitioned(void)
{
    int data[16], flag = 0;
    MPI_Request request;
    MPI_Status status;

    for (int i = 0; i < 16; i++)
        data[i] = rank == 0 ? 100 + i : -1;
    if (rank == 0)
        CALL(MPI_Psend_init(data, 8, 2, MPI_INT, 1, 51, world, MPI_INFO_NULL, &request));
    else
#if ON_OPEN_MPI
        /* Open MPI requires the same partitions on both sides. */
        CALL(MPI_Precv_init(data, 8, 2, MPI_INT, 0, 51, world, MPI_INFO_NULL, &request));
#else
        CALL(MPI_Precv_init(data, 4, 4, MPI_INT, 0, 51, world, MPI_INFO_NULL, &request));
#endif
    for (int round = 0; round < 2; round++) {
        CALL(MPI_Start(&request));
        if (rank == 0) {
            int some[] = { 4, 1, 7 };
            CALL(MPI_Pready(0, request));
            CALL(MPI_Pready_range(2, 3, request));
            CALL(MPI_Pready_list(3, some, request));
            CALL(MPI_Pready(5, request));
            CALL(MPI_Pready(6, request));
        } else {
            for (flag = 0; !flag;)
                POLL(MPI_Parrived(request, 3, &flag));
            say("MPI_Parrived");
        }
        CALL(MPI_Wait(&request, &status));
        show_ints("data", data, 16);
    }
    CALL(MPI_Request_free(&request));
    say("    null: %d", request == MPI_REQUEST_NULL);
}
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    peer = 1 - rank;
    return_errors(world);

    buffered_small();
    blocking_small();
    immediate_small();
    persistent_small();
    exchanges_small();
    matched_small();
    probes();
#if HAVE_MPI_4
    partitioned();
#endif
#if HAVE_LARGE_COUNTS
    buffered_large();
    blocking_large();
    immediate_large();
    persistent_large();
    exchanges_large();
    matched_large();
#endif

    print_lines(world);
    MPI_Finalize();
    return 0;
}

#else /* once for each size of counts */

static void OF(buffered)(void)
{
    static char room[1 << 16];
    void *address;
    COUNT size;
    int data[2] = { 10 + rank, 20 + rank };
    MPI_Status status;
#if HAVE_MPI_4_1
    MPI_Request request;
    MPI_Comm comm;
#endif

    CALL(F(MPI_Buffer_attach)(room, sizeof room));
    if (rank == 0) {
        CALL(F(MPI_Bsend)(data, 2, MPI_INT, peer, 1, world));
    } else {
        CALL(F(MPI_Recv)(data, 2, MPI_INT, peer, 1, world, &status));
        show_status(&status, MPI_INT);
        show_ints("received", data, 2);
    }
#if HAVE_MPI_4_1
    CALL(MPI_Buffer_flush());
    CALL(MPI_Buffer_iflush(&request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
#endif
    CALL(F(MPI_Buffer_detach)(&address, &size));
    say("    the same: %d, size %lld", address == (void *)room, (long long)size);

#if HAVE_MPI_4_1
    /* A buffer of a communicator's own. */
    MPI_Comm_dup(world, &comm);
    CALL(F(MPI_Comm_attach_buffer)(comm, room, sizeof room));
    if (rank == 0)
        CALL(F(MPI_Bsend)(data, 2, MPI_INT, peer, 2, comm));
    else
        CALL(F(MPI_Recv)(data, 2, MPI_INT, peer, 2, comm, &status));
    CALL(MPI_Comm_flush_buffer(comm));
    CALL(MPI_Comm_iflush_buffer(comm, &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CALL(F(MPI_Comm_detach_buffer)(comm, &address, &size));
    say("    the same: %d, size %lld", address == (void *)room, (long long)size);
    MPI_Comm_free(&comm);
#endif
}

static void OF(blocking)(void)
{
    int data[4] = { 1, 2, 3, 4 }, got[4];
    MPI_Request request;
    MPI_Status status;

    if (rank == 0) {
        CALL(F(MPI_Send)(data, 4, MPI_INT, 1, 11, world));
        CALL(F(MPI_Ssend)(data, 3, MPI_INT, 1, 12, world));
        CALL(F(MPI_Send)(data, 2, MPI_INT, 1, 13, world));
        CALL(F(MPI_Send)(data, 2, MPI_INT, MPI_PROC_NULL, 13, world));
        get_ready();
        CALL(F(MPI_Rsend)(data, 1, MPI_INT, 1, 14, world));
        return;
    }
    CALL(F(MPI_Recv)(got, 4, MPI_INT, 0, 11, world, &status));
    show_status(&status, MPI_INT);
    CALL(F(MPI_Recv)(got, 4, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status));
    show_status(&status, MPI_INT);
    /* Matches anything, and ignores the status. */
    CALL(F(MPI_Recv)(got, 4, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, MPI_STATUS_IGNORE));
    show_ints("received", got, 4);
    CALL(F(MPI_Recv)(got, 4, MPI_INT, MPI_PROC_NULL, 13, world, &status));
    show_status(&status, MPI_INT);
    CALL(F(MPI_Irecv)(got, 4, MPI_INT, 0, 14, world, &request));
    get_ready();
    CALL(MPI_Wait(&request, &status));
    show_status(&status, MPI_INT);
    say("    null: %d", request == MPI_REQUEST_NULL);
}

static void OF(immediate)(void)
{
    static char room[1 << 16];
    int data[4][4], size;
    void *address;
    MPI_Request requests[4];
    MPI_Status statuses[4];

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            data[i][j] = rank == 0 ? 10 * i + j : -1;
    if (rank == 0) {
        MPI_Buffer_attach(room, sizeof room);
        CALL(F(MPI_Isend)(data[0], 4, MPI_INT, 1, 20, world, &requests[0]));
        CALL(F(MPI_Ibsend)(data[1], 3, MPI_INT, 1, 21, world, &requests[1]));
        CALL(F(MPI_Issend)(data[2], 2, MPI_INT, 1, 22, world, &requests[2]));
        get_ready();
        CALL(F(MPI_Irsend)(data[3], 1, MPI_INT, 1, 23, world, &requests[3]));
    } else {
        for (int i = 0; i < 4; i++)
            CALL(F(MPI_Irecv)(data[i], 4, MPI_INT, MPI_ANY_SOURCE, 20 + i, world, &requests[i]));
        get_ready();
    }
    CALL(MPI_Waitall(4, requests, statuses));
    for (int i = 0; i < 4; i++) {
        if (rank == 1)
            show_status(&statuses[i], MPI_INT);
        show_ints("data", data[i], 4);
    }
    if (rank == 0)
        MPI_Buffer_detach(&address, &size);
}

static void OF(persistent)(void)
{
    static char room[1 << 16];
    int data[4][4], size;
    void *address;
    MPI_Request requests[4];
    MPI_Status statuses[4];

    if (rank == 0) {
        MPI_Buffer_attach(room, sizeof room);
        CALL(F(MPI_Send_init)(data[0], 4, MPI_INT, 1, 30, world, &requests[0]));
        CALL(F(MPI_Bsend_init)(data[1], 3, MPI_INT, 1, 31, world, &requests[1]));
        CALL(F(MPI_Ssend_init)(data[2], 2, MPI_INT, 1, 32, world, &requests[2]));
        CALL(F(MPI_Rsend_init)(data[3], 1, MPI_INT, 1, 33, world, &requests[3]));
    } else {
        for (int i = 0; i < 4; i++)
            CALL(F(MPI_Recv_init)(data[i], 4, MPI_INT, 0, 30 + i, world, &requests[i]));
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                data[i][j] = rank == 0 ? 100 * round + 10 * i + j : -1;
        if (rank == 0)
            get_ready();
        if (round == 0)
            for (int i = 0; i < 4; i++)
                CALL(MPI_Start(&requests[i]));
        else
            CALL(MPI_Startall(4, requests));
        if (rank == 1)
            get_ready();
        CALL(MPI_Waitall(4, requests, statuses));
        for (int i = 0; i < 4; i++)
            show_ints("data", data[i], 4);
    }
    for (int i = 0; i < 4; i++) {
        CALL(MPI_Request_free(&requests[i]));
        say("    null: %d", requests[i] == MPI_REQUEST_NULL);
    }
    if (rank == 0)
        MPI_Buffer_detach(&address, &size);
}

static void OF(exchanges)(void)
{
    int data[3] = { rank, 2, 3 }, got[3] = { -1, -1, -1 };
    MPI_Status status;
#if HAVE_MPI_4
    MPI_Request request;
#endif

    CALL(F(MPI_Sendrecv)(data, 2 + rank, MPI_INT, peer, 35 + rank, got, 3, MPI_INT,
                         MPI_ANY_SOURCE, 35 + peer, world, &status));
    show_status(&status, MPI_INT);
    show_ints("received", got, 3);
    CALL(F(MPI_Sendrecv)(data, 1, MPI_INT, MPI_PROC_NULL, 0, got, 3, MPI_INT, MPI_PROC_NULL,
                         0, world, MPI_STATUS_IGNORE));
    CALL(F(MPI_Sendrecv_replace)(data, 3, MPI_INT, peer, 37, peer, MPI_ANY_TAG, world,
                                 &status));
    show_status(&status, MPI_INT);
    show_ints("data", data, 3);
#if HAVE_MPI_4
    CALL(F(MPI_Isendrecv)(data, 3, MPI_INT, peer, 38, got, 3, MPI_INT, peer, 38, world,
                          &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    show_ints("received", got, 3);
    data[1] = 7 + rank;
    CALL(F(MPI_Isendrecv_replace)(data, 3, MPI_INT, peer, 39, MPI_ANY_SOURCE, 39, world,
                                  &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    show_ints("data", data, 3);
#endif
}

static void OF(matched)(void)
{
    int data[3] = { 5, 6, 7 }, flag = 0;
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;

    if (rank == 0) {
        CALL(F(MPI_Send)(data, 2, MPI_INT, 1, 45, world));
        CALL(F(MPI_Send)(data, 3, MPI_INT, 1, 46, world));
        return;
    }
    CALL(MPI_Mprobe(0, MPI_ANY_TAG, world, &message, &status));
    show_status(&status, MPI_INT);
    CALL(F(MPI_Mrecv)(data, 3, MPI_INT, &message, &status));
    show_status(&status, MPI_INT);
    say("    null: %d", message == MPI_MESSAGE_NULL);
    while (!flag)
        POLL(MPI_Improbe(MPI_ANY_SOURCE, 46, world, &flag, &message, MPI_STATUS_IGNORE));
    say("MPI_Improbe");
    CALL(F(MPI_Imrecv)(data, 3, MPI_INT, &message, &request));
    CALL(MPI_Wait(&request, &status));
    show_status(&status, MPI_INT);
    show_ints("received", data, 3);
}

#endif
