/*
 * Requests between two ranks: every way to complete them, some or all, persistent and partitioned
 * requests, cancelled and freed requests, and those of MPI_PROC_NULL, for which some MPIs
 * return the same handle several times.
 */
#include <mpi.h>
#include "expect.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank, peer, data[8][4], got[8][4];

static void barrier(void)
{
    MPI_Barrier(world);
    CALLED("MPI_Barrier(comm=MPI_COMM_WORLD)");
}

static void irecv(int i, int source, int tag, MPI_Request *request, int name)
{
    MPI_Irecv(got[i], 4, MPI_INT, source, tag, world, request);
    CALLED("MPI_Irecv(buf=%p, count=4, datatype=MPI_INT, source=%d, tag=%d, comm=MPI_COMM_WORLD, request=r%d)",
           (void *)got[i], source, tag, name);
}

static void send(int count, int tag)
{
    MPI_Send(data[0], count, MPI_INT, peer, tag, world);
    CALLED("MPI_Send(buf=%p, count=%d, datatype=MPI_INT, dest=%d, tag=%d, comm=MPI_COMM_WORLD)",
           (void *)data[0], count, peer, tag);
}

static void all_modes(void)
{
    static char room[4096];
    void *detached;
    int size;
    MPI_Request requests[8];
    MPI_Status statuses[8];

    for (int i = 0; i < 4; i++)
        irecv(i, peer, i, &requests[i], i + 1);
    barrier();
    MPI_Buffer_attach(room, sizeof room);
    CALLED("MPI_Buffer_attach(buffer=%p, size=4096)", (void *)room);
    MPI_Isend(data[0], 1, MPI_INT, peer, 0, world, &requests[4]);
    CALLED("MPI_Isend(buf=%p, count=1, datatype=MPI_INT, dest=%d, tag=0, comm=MPI_COMM_WORLD, request=r5)", (void *)data[0], peer);
    MPI_Issend(data[1], 2, MPI_INT, peer, 1, world, &requests[5]);
    CALLED("MPI_Issend(buf=%p, count=2, datatype=MPI_INT, dest=%d, tag=1, comm=MPI_COMM_WORLD, request=r6)", (void *)data[1], peer);
    MPI_Ibsend(data[2], 3, MPI_INT, peer, 2, world, &requests[6]);
    CALLED("MPI_Ibsend(buf=%p, count=3, datatype=MPI_INT, dest=%d, tag=2, comm=MPI_COMM_WORLD, request=r7)", (void *)data[2], peer);
    MPI_Irsend(data[3], 4, MPI_INT, peer, 3, world, &requests[7]);
    CALLED("MPI_Irsend(buf=%p, count=4, datatype=MPI_INT, dest=%d, tag=3, comm=MPI_COMM_WORLD, request=r8)", (void *)data[3], peer);
    MPI_Waitall(8, requests, statuses);
    CALLED("MPI_Waitall(count=8, array_of_requests=[r1, r2, r3, r4, r5, r6, r7, r8], array_of_statuses=["
           "{source=%d, tag=0, bytes=4}, {source=%d, tag=1, bytes=8}, {source=%d, tag=2, bytes=12}, {source=%d, tag=3, bytes=16}, _, _, _, _])",
           peer, peer, peer, peer);
    MPI_Buffer_detach(&detached, &size);
    CALLED("MPI_Buffer_detach(buffer_addr=%p, size=4096)", (void *)room);
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    CALLED("MPI_Waitall(count=8, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, "
           "MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL], array_of_statuses=MPI_STATUSES_IGNORE)");
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    CALLED("MPI_Waitall(count=0, array_of_requests=NULL, array_of_statuses=MPI_STATUSES_IGNORE)");
}

/* The peer's messages arrive one after the other, each after a barrier. */
static void one_by_one(void)
{
    MPI_Request requests[4];
    MPI_Status status;
    int flag, index;

    for (int i = 0; i < 4; i++)
        irecv(i, peer, 10 + i, &requests[i], i + 1);
    MPI_Test(&requests[0], &flag, &status);
    CALLED("MPI_Test(request=r1, flag=false, status=unset)");
    MPI_Testany(4, requests, &index, &flag, &status);
    CALLED("MPI_Testany(count=4, array_of_requests=[r1, r2, r3, r4], index=MPI_UNDEFINED, flag=false, status=unset)");
    MPI_Request_get_status(requests[0], &flag, &status);
    CALLED("MPI_Request_get_status(request=r1, flag=false, status=unset)");
    barrier();
    send(1, 12);
    MPI_Waitany(4, requests, &index, &status);
    CALLED("MPI_Waitany(count=4, array_of_requests=[r1, r2, r3, r4], index=2, status={source=%d, tag=12, bytes=4})", peer);
    barrier();
    send(2, 10);
    do {
        MPI_Request_get_status(requests[0], &flag, &status);
        if (!flag)
            CALLED("MPI_Request_get_status(request=r1, flag=false, status=unset)");
    } while (!flag);
    CALLED("MPI_Request_get_status(request=r1, flag=true, status={source=%d, tag=10, bytes=8})", peer);
    MPI_Test(&requests[0], &flag, &status);
    CALLED("MPI_Test(request=r1, flag=true, status={source=%d, tag=10, bytes=8})", peer);
    MPI_Test(&requests[0], &flag, &status);
    CALLED("MPI_Test(request=MPI_REQUEST_NULL, flag=true, status={source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, bytes=0})");
    barrier();
    send(3, 13);
    do {
        MPI_Testany(4, requests, &index, &flag, MPI_STATUS_IGNORE);
        if (!flag)
            CALLED("MPI_Testany(count=4, array_of_requests=[MPI_REQUEST_NULL, r2, MPI_REQUEST_NULL, r4], index=MPI_UNDEFINED, flag=false, status=unset)");
    } while (!flag);
    CALLED("MPI_Testany(count=4, array_of_requests=[MPI_REQUEST_NULL, r2, MPI_REQUEST_NULL, r4], index=3, flag=true, status=MPI_STATUS_IGNORE)");
    barrier();
    /* The smallest names are free again: r1, r3, r4. */
    irecv(0, peer, 14, &requests[0], 1);
    irecv(2, peer, 15, &requests[2], 3);
    send(4, 11);
    send(4, 14);
    send(4, 15);
    MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r3, status=MPI_STATUS_IGNORE)");
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r2, status=MPI_STATUS_IGNORE)");
    MPI_Wait(&requests[0], &status);
    CALLED("MPI_Wait(request=r1, status={source=%d, tag=14, bytes=16})", peer);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=MPI_REQUEST_NULL, status=MPI_STATUS_IGNORE)");
    MPI_Waitany(4, requests, &index, &status);
    CALLED("MPI_Waitany(count=4, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL], "
           "index=MPI_UNDEFINED, status={source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, bytes=0})");
    MPI_Testany(4, requests, &index, &flag, &status);
    CALLED("MPI_Testany(count=4, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL], "
           "index=MPI_UNDEFINED, flag=true, status={source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, bytes=0})");
}

static void some_and_all(void)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int flag, count, indices[3];

    for (int i = 0; i < 3; i++)
        irecv(i, peer, 20 + i, &requests[i], i + 1);
    MPI_Testsome(3, requests, &count, indices, statuses);
    CALLED("MPI_Testsome(incount=3, array_of_requests=[r1, r2, r3], outcount=0, array_of_indices=[], array_of_statuses=[])");
    MPI_Testall(3, requests, &flag, statuses);
    CALLED("MPI_Testall(count=3, array_of_requests=[r1, r2, r3], flag=false, array_of_statuses=unset)");
    barrier();
    send(2, 21);
    MPI_Waitsome(3, requests, &count, indices, statuses);
    CALLED("MPI_Waitsome(incount=3, array_of_requests=[r1, r2, r3], outcount=1, array_of_indices=[1], array_of_statuses=[{source=%d, tag=21, bytes=8}])", peer);
    barrier();
    send(3, 20);
    do {
        MPI_Testsome(3, requests, &count, indices, MPI_STATUSES_IGNORE);
        if (count == 0)
            CALLED("MPI_Testsome(incount=3, array_of_requests=[r1, MPI_REQUEST_NULL, r3], outcount=0, array_of_indices=[], array_of_statuses=MPI_STATUSES_IGNORE)");
    } while (count == 0);
    CALLED("MPI_Testsome(incount=3, array_of_requests=[r1, MPI_REQUEST_NULL, r3], outcount=1, array_of_indices=[0], array_of_statuses=MPI_STATUSES_IGNORE)");
    barrier();
    send(4, 22);
    do {
        MPI_Testall(3, requests, &flag, statuses);
        if (!flag)
            CALLED("MPI_Testall(count=3, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, r3], flag=false, array_of_statuses=unset)");
    } while (!flag);
    CALLED("MPI_Testall(count=3, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, r3], flag=true, array_of_statuses=["
           "{source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, bytes=0}, {source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, bytes=0}, {source=%d, tag=22, bytes=16}])", peer);
    MPI_Waitsome(3, requests, &count, indices, statuses);
    CALLED("MPI_Waitsome(incount=3, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL], outcount=MPI_UNDEFINED, array_of_indices=[], array_of_statuses=[])");
    MPI_Testsome(3, requests, &count, indices, MPI_STATUSES_IGNORE);
    CALLED("MPI_Testsome(incount=3, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL], outcount=MPI_UNDEFINED, array_of_indices=[], array_of_statuses=MPI_STATUSES_IGNORE)");
    MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
    CALLED("MPI_Testall(count=3, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL], flag=true, array_of_statuses=MPI_STATUSES_IGNORE)");
    barrier();
}

/* Complete when they are created: some MPIs return one handle for all of them. Then they cannot be
   distinguished, but their number is right, and the first created completes first. */
static void of_nobody(void)
{
    MPI_Request requests[4];
    MPI_Status status;

    for (int i = 0; i < 4; i++) {
        MPI_Isend(data[i], 4, MPI_INT, MPI_PROC_NULL, i, world, &requests[i]);
        CALLED("MPI_Isend(buf=%p, count=4, datatype=MPI_INT, dest=MPI_PROC_NULL, tag=%d, comm=MPI_COMM_WORLD, request=r%d)", (void *)data[i], i, i + 1);
    }
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    MPI_Waitall(3, requests + 1, MPI_STATUSES_IGNORE);
    CALLED("MPI_Waitall(count=3, array_of_requests=[r2, r3, r4], array_of_statuses=MPI_STATUSES_IGNORE)");
    MPI_Irecv(got[0], 4, MPI_INT, MPI_PROC_NULL, 5, world, &requests[0]);
    CALLED("MPI_Irecv(buf=%p, count=4, datatype=MPI_INT, source=MPI_PROC_NULL, tag=5, comm=MPI_COMM_WORLD, request=r1)", (void *)got[0]);
    MPI_Wait(&requests[0], &status);
    /* MPICH 4.0 leaves the status as it is. */
    if (status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG)
        CALLED("MPI_Wait(request=r1, status={source=MPI_PROC_NULL, tag=MPI_ANY_TAG, bytes=0})");
    else
        CALLED("MPI_Wait(request=r1, status={source=%d, tag=%d, bytes=_})", status.MPI_SOURCE, status.MPI_TAG);
}

static void persistent(void)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int flag, index;

    MPI_Recv_init(got[0], 4, MPI_INT, peer, 30, world, &requests[0]);
    CALLED("MPI_Recv_init(buf=%p, count=4, datatype=MPI_INT, source=%d, tag=30, comm=MPI_COMM_WORLD, request=r1)", (void *)got[0], peer);
    MPI_Recv_init(got[1], 4, MPI_INT, MPI_ANY_SOURCE, 31, world, &requests[1]);
    CALLED("MPI_Recv_init(buf=%p, count=4, datatype=MPI_INT, source=MPI_ANY_SOURCE, tag=31, comm=MPI_COMM_WORLD, request=r2)", (void *)got[1]);
    MPI_Send_init(data[0], 2, MPI_INT, peer, 30, world, &requests[2]);
    CALLED("MPI_Send_init(buf=%p, count=2, datatype=MPI_INT, dest=%d, tag=30, comm=MPI_COMM_WORLD, request=r3)", (void *)data[0], peer);
    MPI_Wait(&requests[0], &statuses[0]);
    CALLED("MPI_Wait(request=r1, status={source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, bytes=0})");
    for (int round = 0; round < 2; round++) {
        MPI_Start(&requests[1]);
        CALLED("MPI_Start(request=r2)");
        MPI_Startall(2, (MPI_Request[2]) { requests[0], requests[2] });
        CALLED("MPI_Startall(count=2, array_of_requests=[r1, r3])");
        send(3, 31);
        MPI_Waitall(3, requests, statuses);
        CALLED("MPI_Waitall(count=3, array_of_requests=[r1, r2, r3], array_of_statuses=[{source=%d, tag=30, bytes=8}, {source=%d, tag=31, bytes=12}, _])", peer, peer);
    }
    MPI_Start(&requests[1]);
    CALLED("MPI_Start(request=r2)");
    send(1, 31);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r2, status={source=%d, tag=31, bytes=4, ignored=true})", peer);
    MPI_Testany(3, requests, &index, &flag, MPI_STATUS_IGNORE);
    CALLED("MPI_Testany(count=3, array_of_requests=[r1, r2, r3], index=MPI_UNDEFINED, flag=true, status=_)");
    for (int i = 0; i < 3; i++) {
        MPI_Request_free(&requests[i]);
        CALLED("MPI_Request_free(request=r%d)", i + 1);
    }
    barrier();
}

static void cancelled(void)
{
    MPI_Request requests[2];
    MPI_Status status;
    int flag;

    irecv(0, peer, 40, &requests[0], 1);
    irecv(1, peer, 41, &requests[1], 2);
    MPI_Cancel(&requests[0]);
    CALLED("MPI_Cancel(request=r1)");
    MPI_Wait(&requests[0], &status);
    CALLED("MPI_Wait(request=r1, status={source=_, tag=_, bytes=_, cancelled=true})");
    MPI_Test_cancelled(&status, &flag);
    CALLED("MPI_Test_cancelled(status={source=_, tag=_, bytes=_, cancelled=true}, flag=true)");
    barrier();
    send(1, 41);
    MPI_Wait(&requests[1], &status);
    CALLED("MPI_Wait(request=r2, status={source=%d, tag=41, bytes=4})", peer);
    MPI_Test_cancelled(&status, &flag);
    CALLED("MPI_Test_cancelled(status={source=%d, tag=41, bytes=4}, flag=false)", peer);
    /* Freed while it is active: complete when the message has arrived. */
    MPI_Isend(data[0], 2, MPI_INT, peer, 42, world, &requests[0]);
    CALLED("MPI_Isend(buf=%p, count=2, datatype=MPI_INT, dest=%d, tag=42, comm=MPI_COMM_WORLD, request=r1)", (void *)data[0], peer);
    MPI_Request_free(&requests[0]);
    CALLED("MPI_Request_free(request=r1)");
    MPI_Recv(got[0], 4, MPI_INT, peer, 42, world, &status);
    CALLED("MPI_Recv(buf=%p, count=4, datatype=MPI_INT, source=%d, tag=42, comm=MPI_COMM_WORLD, status={source=%d, tag=42, bytes=8})", (void *)got[0], peer, peer);
}

static void statuses_of_our_own(void)
{
    MPI_Status status;
    int flag, count;

    memset(&status, 0, sizeof status);
    status.MPI_SOURCE = 5;
    status.MPI_TAG = 6;
    MPI_Status_set_cancelled(&status, 1);
    CALLED("MPI_Status_set_cancelled(status={source=5, tag=6, bytes=0}→{source=5, tag=6, bytes=0, cancelled=true}, flag=true)");
    MPI_Test_cancelled(&status, &flag);
    CALLED("MPI_Test_cancelled(status={source=5, tag=6, bytes=0, cancelled=true}, flag=true)");
    MPI_Status_set_cancelled(&status, 0);
    CALLED("MPI_Status_set_cancelled(status={source=5, tag=6, bytes=0, cancelled=true}→{source=5, tag=6, bytes=0}, flag=false)");
    MPI_Status_set_elements(&status, MPI_DOUBLE, 3);
    CALLED("MPI_Status_set_elements(status={source=5, tag=6, bytes=0}→{source=5, tag=6, bytes=24}, datatype=MPI_DOUBLE, count=3)");
    MPI_Status_set_elements_x(&status, MPI_INT, (MPI_Count)1 << 33);
    CALLED("MPI_Status_set_elements_x(status={source=5, tag=6, bytes=24}→{source=5, tag=6, bytes=34359738368}, datatype=MPI_INT, count=8589934592)");
    MPI_Get_count(&status, MPI_INT, &count);
    CALLED("MPI_Get_count(status={source=5, tag=6, bytes=34359738368}, datatype=MPI_INT, count=MPI_UNDEFINED)");
}

#if HAVE_MPI_4
static void partitioned(void)
{
    MPI_Request request;
    int flag;

    if (rank == 0) {
        MPI_Psend_init(data[0], 4, 1, MPI_INT, 1, 50, world, MPI_INFO_NULL, &request);
        CALLED("MPI_Psend_init(buf=%p, partitions=4, count=1, datatype=MPI_INT, dest=1, tag=50, comm=MPI_COMM_WORLD, info=MPI_INFO_NULL, request=r1)", (void *)data[0]);
        MPI_Start(&request);
        CALLED("MPI_Start(request=r1)");
        MPI_Pready(2, request);
        CALLED("MPI_Pready(partition=2, request=r1)");
        MPI_Pready_range(0, 1, request);
        CALLED("MPI_Pready_range(partition_low=0, partition_high=1, request=r1)");
        MPI_Pready_list(1, (int[1]) { 3 }, request);
        CALLED("MPI_Pready_list(length=1, array_of_partitions=[3], request=r1)");
    } else {
        MPI_Precv_init(got[0], 4, 1, MPI_INT, 0, 50, world, MPI_INFO_NULL, &request);
        CALLED("MPI_Precv_init(buf=%p, partitions=4, count=1, datatype=MPI_INT, source=0, tag=50, comm=MPI_COMM_WORLD, info=MPI_INFO_NULL, request=r1)", (void *)got[0]);
        MPI_Start(&request);
        CALLED("MPI_Start(request=r1)");
        do {
            MPI_Parrived(request, 1, &flag);
            CALLED("MPI_Parrived(request=r1, partition=1, flag=%s)", flag ? "true" : "false");
        } while (!flag);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=_)");
    MPI_Request_free(&request);
    CALLED("MPI_Request_free(request=r1)");
    barrier();
}

static void isendrecv(void)
{
    MPI_Request request;

    MPI_Isendrecv(data[0], 2, MPI_INT, peer, 60, got[0], 4, MPI_INT, peer, 60, world, &request);
    CALLED("MPI_Isendrecv(sendbuf=%p, sendcount=2, sendtype=MPI_INT, dest=%d, sendtag=60, recvbuf=%p, recvcount=4, recvtype=MPI_INT, source=%d, recvtag=60, comm=MPI_COMM_WORLD, request=r1)",
           (void *)data[0], peer, (void *)got[0], peer);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=_)");
    MPI_Isendrecv_replace(data[0], 4, MPI_INT, peer, 61, peer, 61, world, &request);
    CALLED("MPI_Isendrecv_replace(buf=%p, count=4, datatype=MPI_INT, dest=%d, sendtag=61, source=%d, recvtag=61, comm=MPI_COMM_WORLD, request=r1)",
           (void *)data[0], peer, peer);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=_)");
}
#endif

#if MPI_VERSION >= 5
/* Queried without being completed. */
static void asked(void)
{
    MPI_Request requests[3];
    MPI_Status status, statuses[3];
    int flag, index, count, indices[3], error;

    for (int i = 0; i < 3; i++)
        irecv(i, peer, 90 + i, &requests[i], i + 1);
    MPI_Request_get_status_any(3, requests, &index, &flag, &status);
    CALLED("MPI_Request_get_status_any(count=3, array_of_requests=[r1, r2, r3], index=_, flag=false, status=unset)");
    MPI_Request_get_status_some(3, requests, &count, indices, statuses);
    CALLED("MPI_Request_get_status_some(incount=3, array_of_requests=[r1, r2, r3], outcount=0, array_of_indices=[], array_of_statuses=[])");
    MPI_Request_get_status_all(3, requests, &flag, statuses);
    CALLED("MPI_Request_get_status_all(count=3, array_of_requests=[r1, r2, r3], flag=false, array_of_statuses=unset)");
    barrier();
    send(1, 91);
    do {
        MPI_Request_get_status_any(3, requests, &index, &flag, &status);
        if (!flag)
            CALLED("MPI_Request_get_status_any(count=3, array_of_requests=[r1, r2, r3], index=_, flag=false, status=unset)");
    } while (!flag);
    CALLED("MPI_Request_get_status_any(count=3, array_of_requests=[r1, r2, r3], index=1, flag=true, status={source=%d, tag=91, bytes=4})", peer);
    MPI_Request_get_status_some(3, requests, &count, indices, statuses);
    CALLED("MPI_Request_get_status_some(incount=3, array_of_requests=[r1, r2, r3], outcount=1, array_of_indices=[1], array_of_statuses=[{source=%d, tag=91, bytes=4}])", peer);
    barrier();
    send(2, 90);
    send(3, 92);
    do {
        MPI_Request_get_status_all(3, requests, &flag, statuses);
        if (!flag)
            CALLED("MPI_Request_get_status_all(count=3, array_of_requests=[r1, r2, r3], flag=false, array_of_statuses=unset)");
    } while (!flag);
    CALLED("MPI_Request_get_status_all(count=3, array_of_requests=[r1, r2, r3], flag=true, array_of_statuses=[{source=%d, tag=90, bytes=8}, {source=%d, tag=91, bytes=4}, {source=%d, tag=92, bytes=12}])", peer, peer, peer);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    /* After the first MPI_Cancel, the agent passes statuses of its own. */
    CALLED("MPI_Waitall(count=3, array_of_requests=[r1, r2, r3], array_of_statuses=[{source=%d, tag=90, bytes=8, ignored=true}, {source=%d, tag=91, bytes=4, ignored=true}, {source=%d, tag=92, bytes=12, ignored=true}])", peer, peer, peer);

    status = statuses[2];
    MPI_Status_get_source(&status, &index);
    CALLED("MPI_Status_get_source(status={source=%d, tag=92, bytes=12}, source=%d)", peer, peer);
    MPI_Status_set_source(&status, 5);
    CALLED("MPI_Status_set_source(status={source=%d, tag=92, bytes=12}→{source=5, tag=92, bytes=12}, source=5)", peer);
    MPI_Status_get_tag(&status, &index);
    CALLED("MPI_Status_get_tag(status={source=5, tag=92, bytes=12}, tag=92)");
    MPI_Status_set_tag(&status, MPI_ANY_TAG);
    CALLED("MPI_Status_set_tag(status={source=5, tag=92, bytes=12}→{source=5, tag=MPI_ANY_TAG, bytes=12}, tag=MPI_ANY_TAG)");
    MPI_Status_set_error(&status, MPI_ERR_OTHER);
    CALLED("MPI_Status_set_error(status={source=5, tag=MPI_ANY_TAG, bytes=12}, err=MPI_ERR_OTHER)");
    MPI_Status_get_error(&status, &error);
    CALLED("MPI_Status_get_error(status={source=5, tag=MPI_ANY_TAG, bytes=12}, err=MPI_ERR_OTHER)");
}
#endif

/* Wildcards: their matches are recorded although the program ignores the statuses. Once one has been
   posted, any ignored status may be captured. */
static void wildcards(void)
{
    MPI_Request requests[3];
    MPI_Status status;
    int flag, index, count, indices[3];

    MPI_Irecv(got[0], 4, MPI_INT, MPI_ANY_SOURCE, 70, world, &requests[0]);
    CALLED("MPI_Irecv(buf=%p, count=4, datatype=MPI_INT, source=MPI_ANY_SOURCE, tag=70, comm=MPI_COMM_WORLD, request=r1)", (void *)got[0]);
    MPI_Irecv(got[1], 4, MPI_INT, peer, MPI_ANY_TAG, world, &requests[1]);
    CALLED("MPI_Irecv(buf=%p, count=4, datatype=MPI_INT, source=%d, tag=MPI_ANY_TAG, comm=MPI_COMM_WORLD, request=r2)", (void *)got[1], peer);
    MPI_Irecv(got[2], 4, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &requests[2]);
    CALLED("MPI_Irecv(buf=%p, count=4, datatype=MPI_INT, source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, comm=MPI_COMM_WORLD, request=r3)", (void *)got[2]);
    MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    CALLED("MPI_Test(request=r1, flag=false, status=unset)");
    barrier();
    send(1, 70);
    send(2, 71);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CALLED("MPI_Waitall(count=2, array_of_requests=[r1, r2], array_of_statuses=[{source=%d, tag=70, bytes=4, ignored=true}, {source=%d, tag=71, bytes=8, ignored=true}])", peer, peer);
    barrier();
    send(3, 72);
    MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
    CALLED("MPI_Waitany(count=3, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, r3], index=2, status={source=%d, tag=72, bytes=12, ignored=true})", peer);
    MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
    CALLED("MPI_Waitany(count=3, array_of_requests=[MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL], index=MPI_UNDEFINED, status=_)");

    MPI_Irecv(got[0], 4, MPI_INT, MPI_ANY_SOURCE, 73, world, &requests[0]);
    CALLED("MPI_Irecv(buf=%p, count=4, datatype=MPI_INT, source=MPI_ANY_SOURCE, tag=73, comm=MPI_COMM_WORLD, request=r1)", (void *)got[0]);
    irecv(1, peer, 74, &requests[1], 2);
    MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    CALLED("MPI_Testall(count=2, array_of_requests=[r1, r2], flag=false, array_of_statuses=unset)");
    MPI_Testsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
    CALLED("MPI_Testsome(incount=2, array_of_requests=[r1, r2], outcount=0, array_of_indices=[], array_of_statuses=_)");
    barrier();
    send(1, 73);
    MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
    CALLED("MPI_Waitsome(incount=2, array_of_requests=[r1, r2], outcount=1, array_of_indices=[0], array_of_statuses=[{source=%d, tag=73, bytes=4, ignored=true}])", peer);
    barrier();
    send(2, 74);
    MPI_Wait(&requests[1], &status);
    CALLED("MPI_Wait(request=r2, status={source=%d, tag=74, bytes=8})", peer);
}

/* The requests that a failed MPI_Waitall leaves. MPI may stop at the first error, or complete the rest. */
static void finish(MPI_Request *requests)
{
    for (int i = 0; i < 3; i++)
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            CALLED("MPI_Wait(request=r%d, status=_)", i + 1);
        }
    barrier();
}

/* Of three messages the second is longer than its receive. */
static void truncated(void)
{
    /* A status has an error code; only its class has a name. With the standard ABI it is unknown how
       MPI maps codes to classes. */
#ifdef MPI_ABI_VERSION
    static const char *const error = "error=_";
#else
    static const char *const error = "error=MPI_ERR_TRUNCATE";
#endif
    char third[64];
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int count, indices[3], code, class;

    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    CALLED("MPI_Comm_set_errhandler(comm=MPI_COMM_WORLD, errhandler=MPI_ERRORS_RETURN)");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            MPI_Irecv(got[i], 1, MPI_INT, peer, 80 + i, world, &requests[i]);
            CALLED("MPI_Irecv(buf=%p, count=1, datatype=MPI_INT, source=%d, tag=%d, comm=MPI_COMM_WORLD, request=r%d)", (void *)got[i], peer, 80 + i, i + 1);
        }
        barrier();
        send(1, 80);
        send(4, 81);
        send(1, 82);
        barrier();
        memset(statuses, 0, sizeof statuses);
        if (round == 0) {
            MPI_Waitall(3, requests, statuses);
            if (requests[2] == MPI_REQUEST_NULL)
                snprintf(third, sizeof third, "{source=%d, tag=82, bytes=4, error=MPI_SUCCESS}", peer);
            else
                snprintf(third, sizeof third, "{source=0, tag=0, bytes=0, error=MPI_ERR_PENDING}");
            CALLED("MPI_Waitall(count=3, array_of_requests=[r1, r2, r3], array_of_statuses=[{source=%d, tag=80, bytes=4, error=MPI_SUCCESS}, {source=%d, tag=81, bytes=_, %s}, %s]) = ERR_IN_STATUS",
                   peer, peer, error, third);
        } else if (round == 1) {
            code = MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
            MPI_Error_class(code, &class);
            const int in_status = class == MPI_ERR_IN_STATUS;
            CALLED("MPI_Waitall(count=3, array_of_requests=[r1, r2, r3], array_of_statuses=_) = %s", in_status ? "ERR_IN_STATUS" : "ERR_TRUNCATE");
            CALLED("MPI_Error_class(errorcode=_, errorclass=%s)", in_status ? "MPI_ERR_IN_STATUS" : "MPI_ERR_TRUNCATE");
        } else {
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            CALLED("MPI_Wait(request=r1, status=_)");
            MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
            CALLED("MPI_Wait(request=r3, status=_)");
            MPI_Waitsome(3, requests, &count, indices, statuses);
            CALLED("MPI_Waitsome(incount=3, array_of_requests=[MPI_REQUEST_NULL, r2, MPI_REQUEST_NULL], outcount=1, array_of_indices=[1], array_of_statuses=[{source=%d, tag=81, bytes=_, %s}]) = ERR_IN_STATUS", peer, error);
        }
        finish(requests);
    }
}

int main(void)
{
    MPI_Init(NULL, NULL);
    CALLED("MPI_Init(argc=NULL, argv=NULL)");
    MPI_Comm_rank(world, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);
    peer = 1 - rank;

    all_modes();
    one_by_one();
    some_and_all();
    of_nobody();
    cancelled();
    statuses_of_our_own();
#if MPI_VERSION >= 5
    asked();
#endif
    persistent();
    wildcards();
    truncated();
#if HAVE_MPI_4
    isendrecv();
    partitioned();
#endif

    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(rank);
    return 0;
}
