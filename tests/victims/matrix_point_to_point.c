/*
 * Blocking point-to-point calls between two ranks: every mode of sending, MPI_PROC_NULL,
 * wildcards with and without a status, probes, matched probes, MPI_BOTTOM, errors.
 */
#include <mpi.h>
#include "expect.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank, data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, got[8];

static void barrier(void)
{
    MPI_Barrier(world);
    CALLED("MPI_Barrier(comm=MPI_COMM_WORLD)");
}

static void sends(void)
{
    static char room[4096];
    char *detached;
    int size;

    MPI_Send(data, 3, MPI_INT, 1, 7, world);
    CALLED("MPI_Send(buf=%p, count=3, datatype=MPI_INT, dest=1, tag=7, comm=MPI_COMM_WORLD)", (void *)data);
    MPI_Ssend(data + 1, 0, MPI_DOUBLE, 1, 0, world);
    CALLED("MPI_Ssend(buf=%p, count=0, datatype=MPI_DOUBLE, dest=1, tag=0, comm=MPI_COMM_WORLD)", (void *)(data + 1));
    MPI_Buffer_attach(room, sizeof room);
    CALLED("MPI_Buffer_attach(buffer=%p, size=4096)", (void *)room);
    MPI_Bsend(data, 2, MPI_FLOAT, 1, 32767, world);
    CALLED("MPI_Bsend(buf=%p, count=2, datatype=MPI_FLOAT, dest=1, tag=32767, comm=MPI_COMM_WORLD)", (void *)data);
    MPI_Buffer_detach(&detached, &size);
    CALLED("MPI_Buffer_detach(buffer_addr=%p, size=4096)", (void *)room);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, world, MPI_STATUS_IGNORE);
    CALLED("MPI_Recv(buf=MPI_BOTTOM, count=0, datatype=MPI_BYTE, source=1, tag=1, comm=MPI_COMM_WORLD, status=MPI_STATUS_IGNORE)");
    MPI_Rsend(data, 1, MPI_CHAR, 1, 8, world);
    CALLED("MPI_Rsend(buf=%p, count=1, datatype=MPI_CHAR, dest=1, tag=8, comm=MPI_COMM_WORLD)", (void *)data);
    MPI_Send(data, 5, MPI_INT, MPI_PROC_NULL, 9, world);
    CALLED("MPI_Send(buf=%p, count=5, datatype=MPI_INT, dest=MPI_PROC_NULL, tag=9, comm=MPI_COMM_WORLD)", (void *)data);
}

static void receives(void)
{
    MPI_Status status;
    MPI_Request request;
    int count;

    MPI_Recv(got, 8, MPI_INT, 0, 7, world, &status);
    CALLED("MPI_Recv(buf=%p, count=8, datatype=MPI_INT, source=0, tag=7, comm=MPI_COMM_WORLD, status={source=0, tag=7, bytes=12})", (void *)got);
    MPI_Get_count(&status, MPI_INT, &count);
    CALLED("MPI_Get_count(status={source=0, tag=7, bytes=12}, datatype=MPI_INT, count=3)");
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    CALLED("MPI_Get_count(status={source=0, tag=7, bytes=12}, datatype=MPI_DOUBLE, count=MPI_UNDEFINED)");
    MPI_Get_elements(&status, MPI_INT, &count);
    CALLED("MPI_Get_elements(status={source=0, tag=7, bytes=12}, datatype=MPI_INT, count=3)");
    MPI_Recv(got, 8, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
    CALLED("MPI_Recv(buf=%p, count=8, datatype=MPI_DOUBLE, source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, comm=MPI_COMM_WORLD, status={source=0, tag=0, bytes=0})", (void *)got);
    MPI_Recv(got, 8, MPI_FLOAT, MPI_ANY_SOURCE, 32767, world, MPI_STATUS_IGNORE);
    CALLED("MPI_Recv(buf=%p, count=8, datatype=MPI_FLOAT, source=MPI_ANY_SOURCE, tag=32767, comm=MPI_COMM_WORLD, status={source=0, tag=32767, bytes=8, ignored=true})", (void *)got);
    MPI_Irecv(got, 1, MPI_CHAR, 0, MPI_ANY_TAG, world, &request);
    CALLED("MPI_Irecv(buf=%p, count=1, datatype=MPI_CHAR, source=0, tag=MPI_ANY_TAG, comm=MPI_COMM_WORLD, request=r1)", (void *)got);
    MPI_Send(NULL, 0, MPI_BYTE, 0, 1, world);
    CALLED("MPI_Send(buf=MPI_BOTTOM, count=0, datatype=MPI_BYTE, dest=0, tag=1, comm=MPI_COMM_WORLD)");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status={source=0, tag=8, bytes=1, ignored=true})");
    MPI_Recv(got, 8, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, world, &status);
    CALLED("MPI_Recv(buf=%p, count=8, datatype=MPI_INT, source=MPI_PROC_NULL, tag=MPI_ANY_TAG, comm=MPI_COMM_WORLD, status={source=MPI_PROC_NULL, tag=MPI_ANY_TAG, bytes=0})", (void *)got);
    MPI_Recv(got, 8, MPI_INT, MPI_PROC_NULL, 4, world, MPI_STATUS_IGNORE);
    CALLED("MPI_Recv(buf=%p, count=8, datatype=MPI_INT, source=MPI_PROC_NULL, tag=4, comm=MPI_COMM_WORLD, status=MPI_STATUS_IGNORE)", (void *)got);
}

static void exchanges(void)
{
    const int peer = 1 - rank;
    MPI_Status status;

    MPI_Sendrecv(data, 2 + rank, MPI_INT, peer, rank, got, 8, MPI_INT, peer, peer, world, &status);
    CALLED("MPI_Sendrecv(sendbuf=%p, sendcount=%d, sendtype=MPI_INT, dest=%d, sendtag=%d, recvbuf=%p, recvcount=8, recvtype=MPI_INT, source=%d, recvtag=%d, comm=MPI_COMM_WORLD, status={source=%d, tag=%d, bytes=%d})",
           (void *)data, 2 + rank, peer, rank, (void *)got, peer, peer, peer, peer, 8 + 4 * peer);
    MPI_Sendrecv(data, 1, MPI_INT, peer, 5, got, 8, MPI_INT, MPI_ANY_SOURCE, 5, world, MPI_STATUS_IGNORE);
    CALLED("MPI_Sendrecv(sendbuf=%p, sendcount=1, sendtype=MPI_INT, dest=%d, sendtag=5, recvbuf=%p, recvcount=8, recvtype=MPI_INT, source=MPI_ANY_SOURCE, recvtag=5, comm=MPI_COMM_WORLD, status={source=%d, tag=5, bytes=4, ignored=true})",
           (void *)data, peer, (void *)got, peer);
    MPI_Sendrecv_replace(data, 8, MPI_INT, peer, 6, peer, 6, world, MPI_STATUS_IGNORE);
    CALLED("MPI_Sendrecv_replace(buf=%p, count=8, datatype=MPI_INT, dest=%d, sendtag=6, source=%d, recvtag=6, comm=MPI_COMM_WORLD, status=MPI_STATUS_IGNORE)",
           (void *)data, peer, peer);
    MPI_Sendrecv_replace(data, 8, MPI_INT, MPI_PROC_NULL, 6, MPI_PROC_NULL, 6, world, &status);
    CALLED("MPI_Sendrecv_replace(buf=%p, count=8, datatype=MPI_INT, dest=MPI_PROC_NULL, sendtag=6, source=MPI_PROC_NULL, recvtag=6, comm=MPI_COMM_WORLD, status={source=MPI_PROC_NULL, tag=MPI_ANY_TAG, bytes=0})",
           (void *)data);
}

/* Messages 20 to 24 are pending at the other rank. */
static void sends_to_probes(void)
{
    for (int tag = 20; tag <= 24; tag++) {
        MPI_Send(data, tag - 19, MPI_INT, 1, tag, world);
        CALLED("MPI_Send(buf=%p, count=%d, datatype=MPI_INT, dest=1, tag=%d, comm=MPI_COMM_WORLD)", (void *)data, tag - 19, tag);
    }
}

static void probes(void)
{
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int flag;

    MPI_Iprobe(0, 99, world, &flag, &status);
    CALLED("MPI_Iprobe(source=0, tag=99, comm=MPI_COMM_WORLD, flag=false, status=unset)");
    MPI_Iprobe(MPI_ANY_SOURCE, 99, world, &flag, MPI_STATUS_IGNORE);
    CALLED("MPI_Iprobe(source=MPI_ANY_SOURCE, tag=99, comm=MPI_COMM_WORLD, flag=false, status=unset)");
    MPI_Improbe(0, 99, world, &flag, &message, &status);
    CALLED("MPI_Improbe(source=0, tag=99, comm=MPI_COMM_WORLD, flag=false, message=unset, status=unset)");
    MPI_Iprobe(MPI_PROC_NULL, 3, world, &flag, &status);
    CALLED("MPI_Iprobe(source=MPI_PROC_NULL, tag=3, comm=MPI_COMM_WORLD, flag=true, status={source=MPI_PROC_NULL, tag=MPI_ANY_TAG, bytes=0})");
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
    CALLED("MPI_Probe(source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, comm=MPI_COMM_WORLD, status={source=0, tag=20, bytes=4})");
    MPI_Probe(MPI_ANY_SOURCE, 21, world, MPI_STATUS_IGNORE);
    CALLED("MPI_Probe(source=MPI_ANY_SOURCE, tag=21, comm=MPI_COMM_WORLD, status={source=0, tag=21, bytes=8, ignored=true})");
    MPI_Probe(0, 20, world, MPI_STATUS_IGNORE);
    CALLED("MPI_Probe(source=0, tag=20, comm=MPI_COMM_WORLD, status=MPI_STATUS_IGNORE)");
    MPI_Iprobe(0, 20, world, &flag, &status);
    CALLED("MPI_Iprobe(source=0, tag=20, comm=MPI_COMM_WORLD, flag=true, status={source=0, tag=20, bytes=4})");
    MPI_Mprobe(0, 22, world, &message, &status);
    CALLED("MPI_Mprobe(source=0, tag=22, comm=MPI_COMM_WORLD, message=message1, status={source=0, tag=22, bytes=12})");
    MPI_Mrecv(got, 8, MPI_INT, &message, &status);
    CALLED("MPI_Mrecv(buf=%p, count=8, datatype=MPI_INT, message=message1, status={source=0, tag=22, bytes=12})", (void *)got);
    do {
        MPI_Improbe(MPI_ANY_SOURCE, 24, world, &flag, &message, MPI_STATUS_IGNORE);
        if (!flag)
            CALLED("MPI_Improbe(source=MPI_ANY_SOURCE, tag=24, comm=MPI_COMM_WORLD, flag=false, message=unset, status=unset)");
    } while (!flag);
    CALLED("MPI_Improbe(source=MPI_ANY_SOURCE, tag=24, comm=MPI_COMM_WORLD, flag=true, message=message1, status={source=0, tag=24, bytes=20, ignored=true})");
    MPI_Imrecv(got, 8, MPI_INT, &message, &request);
    CALLED("MPI_Imrecv(buf=%p, count=8, datatype=MPI_INT, message=message1, request=r1)", (void *)got);
    MPI_Wait(&request, &status);
    CALLED("MPI_Wait(request=r1, status={source=0, tag=24, bytes=20})");
    MPI_Mprobe(MPI_PROC_NULL, 3, world, &message, &status);
    CALLED("MPI_Mprobe(source=MPI_PROC_NULL, tag=3, comm=MPI_COMM_WORLD, message=MPI_MESSAGE_NO_PROC, status={source=MPI_PROC_NULL, tag=MPI_ANY_TAG, bytes=0})");
    MPI_Mrecv(got, 8, MPI_INT, &message, &status);
    CALLED("MPI_Mrecv(buf=%p, count=8, datatype=MPI_INT, message=MPI_MESSAGE_NO_PROC, status={source=MPI_PROC_NULL, tag=MPI_ANY_TAG, bytes=0})", (void *)got);
    /* Already probed: received in the order of sending. */
    for (int i = 0; i < 3; i++) {
        static const int tags[3] = { 20, 21, 23 };
        MPI_Recv(got, 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, MPI_STATUS_IGNORE);
        CALLED("MPI_Recv(buf=%p, count=8, datatype=MPI_INT, source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, comm=MPI_COMM_WORLD, status={source=0, tag=%d, bytes=%d, ignored=true})",
               (void *)got, tags[i], 4 * (tags[i] - 19));
    }
}

/* A type with an absolute address, used with MPI_BOTTOM. */
static void from_bottom(void)
{
    MPI_Aint address;
    MPI_Datatype type;
    int lengths[1] = { 4 };
    MPI_Status status;

    MPI_Get_address(data, &address);
    CALLED("MPI_Get_address(location=%p, address=%ld)", (void *)data, (long)address);
    MPI_Type_create_hindexed(1, lengths, &address, MPI_INT, &type);
    CALLED("MPI_Type_create_hindexed(count=1, array_of_blocklengths=[4], array_of_displacements=[%ld], oldtype=MPI_INT, newtype=type1)", (long)address);
    MPI_Type_commit(&type);
    CALLED("MPI_Type_commit(datatype=type1)");
    if (rank == 0) {
        MPI_Send(MPI_BOTTOM, 1, type, 1, 40, world);
        CALLED("MPI_Send(buf=MPI_BOTTOM, count=1, datatype=type1, dest=1, tag=40, comm=MPI_COMM_WORLD)");
    } else {
        MPI_Recv(MPI_BOTTOM, 1, type, 0, 40, world, &status);
        CALLED("MPI_Recv(buf=MPI_BOTTOM, count=1, datatype=type1, source=0, tag=40, comm=MPI_COMM_WORLD, status={source=0, tag=40, bytes=16})");
    }
    MPI_Type_free(&type);
    CALLED("MPI_Type_free(datatype=type1)");
}

static void errors(void)
{
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    CALLED("MPI_Comm_set_errhandler(comm=MPI_COMM_WORLD, errhandler=MPI_ERRORS_RETURN)");
    MPI_Send(data, 1, MPI_INT, 77, 3, world);
    CALLED("MPI_Send(buf=%p, count=1, datatype=MPI_INT, dest=77, tag=3, comm=MPI_COMM_WORLD) = ERR_RANK", (void *)data);
    MPI_Send(data, -1, MPI_INT, 0, 3, world);
    CALLED("MPI_Send(buf=%p, count=-1, datatype=MPI_INT, dest=0, tag=3, comm=MPI_COMM_WORLD) = ERR_COUNT", (void *)data);
    MPI_Send(data, 1, MPI_DATATYPE_NULL, 0, 3, world);
    CALLED("MPI_Send(buf=%p, count=1, datatype=MPI_DATATYPE_NULL, dest=0, tag=3, comm=MPI_COMM_WORLD) = ERR_TYPE", (void *)data);
    if (rank == 0) {
        MPI_Send(data, 8, MPI_INT, 1, 50, world);
        CALLED("MPI_Send(buf=%p, count=8, datatype=MPI_INT, dest=1, tag=50, comm=MPI_COMM_WORLD)", (void *)data);
    } else {
        MPI_Recv(got, 2, MPI_INT, 0, 50, world, MPI_STATUS_IGNORE);
        CALLED("MPI_Recv(buf=%p, count=2, datatype=MPI_INT, source=0, tag=50, comm=MPI_COMM_WORLD, status=MPI_STATUS_IGNORE) = ERR_TRUNCATE", (void *)got);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    CALLED("MPI_Init(argc=1, argv=[\"%s\"])", argv[0]);
    MPI_Comm_rank(world, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);

    (rank == 0 ? sends : receives)();
    exchanges();
    barrier();
    (rank == 0 ? sends_to_probes : probes)();
    from_bottom();
    errors();

    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(rank);
    return 0;
}
