/*
 * Collective calls on three ranks: arrays with an element for each rank, arrays that are significant only
 * at the root or not at all (MPI_IN_PLACE), intercommunicators of one and two ranks, nonblocking and
 * persistent forms.
 */
#include <mpi.h>
#include "expect.h"

enum { N = 3 };

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank, data[16], got[16];

/* An address that must not be read. */
#define NOWHERE ((void *)16)

/* What other ranks may pass where only the root's arrays are significant. */
#define AT_ROOT(root, array) (rank == (root) ? (array) : (int *)NOWHERE)

static void plain(void)
{
    MPI_Barrier(world);
    CALLED("MPI_Barrier(comm=MPI_COMM_WORLD)");
    MPI_Bcast(data, 4, MPI_INT, 2, world);
    CALLED("MPI_Bcast(buffer=%p, count=4, datatype=MPI_INT, root=2, comm=MPI_COMM_WORLD)", (void *)data);
    MPI_Gather(data, 1, MPI_INT, got, 1, MPI_INT, 1, world);
    CALLED("MPI_Gather(sendbuf=%p, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_INT, root=1, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Scatter(data, 2, MPI_INT, got, 1, MPI_2INT, 0, world);
    CALLED("MPI_Scatter(sendbuf=%p, sendcount=2, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_2INT, root=0, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Allgather(data, 1, MPI_FLOAT, got, 1, MPI_FLOAT, world);
    CALLED("MPI_Allgather(sendbuf=%p, sendcount=1, sendtype=MPI_FLOAT, recvbuf=%p, recvcount=1, recvtype=MPI_FLOAT, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Alltoall(data, 1, MPI_INT, got, 1, MPI_INT, world);
    CALLED("MPI_Alltoall(sendbuf=%p, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_INT, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Reduce(data, got, 2, MPI_2INT, MPI_MAXLOC, 0, world);
    CALLED("MPI_Reduce(sendbuf=%p, recvbuf=%p, count=2, datatype=MPI_2INT, op=MPI_MAXLOC, root=0, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Allreduce(data, got, 3, MPI_INT, MPI_SUM, world);
    CALLED("MPI_Allreduce(sendbuf=%p, recvbuf=%p, count=3, datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Reduce_scatter_block(data, got, 1, MPI_INT, MPI_BXOR, world);
    CALLED("MPI_Reduce_scatter_block(sendbuf=%p, recvbuf=%p, recvcount=1, datatype=MPI_INT, op=MPI_BXOR, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Scan(data, got, 1, MPI_INT, MPI_PROD, world);
    CALLED("MPI_Scan(sendbuf=%p, recvbuf=%p, count=1, datatype=MPI_INT, op=MPI_PROD, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Exscan(data, got, 1, MPI_INT, MPI_MIN, world);
    CALLED("MPI_Exscan(sendbuf=%p, recvbuf=%p, count=1, datatype=MPI_INT, op=MPI_MIN, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Reduce_local(data, got, 4, MPI_INT, MPI_LAND);
    CALLED("MPI_Reduce_local(inbuf=%p, inoutbuf=%p, count=4, datatype=MPI_INT, op=MPI_LAND)", (void *)data, (void *)got);
}

static void with_arrays(void)
{
    int counts[N] = { 1, 0, 2 }, places[N] = { 0, 5, 1 }, ones[N] = { 1, 1, 1 }, steps[N] = { 0, 4, 8 };
    MPI_Datatype types[N] = { MPI_INT, MPI_FLOAT, MPI_UNSIGNED };
    /* All data exchanged with rank r has r's type. */
    MPI_Datatype mine[N] = { types[rank], types[rank], types[rank] };
    static const char *const type_names[N] = { "MPI_INT", "MPI_FLOAT", "MPI_UNSIGNED" };

    MPI_Gatherv(data, counts[rank], MPI_INT, got, AT_ROOT(1, counts), AT_ROOT(1, places), MPI_INT, 1, world);
    CALLED("MPI_Gatherv(sendbuf=%p, sendcount=%d, sendtype=MPI_INT, recvbuf=%p, recvcounts=%s, displs=%s, recvtype=MPI_INT, root=1, comm=MPI_COMM_WORLD)",
           (void *)data, counts[rank], (void *)got, rank == 1 ? "[1, 0, 2]" : "insignificant", rank == 1 ? "[0, 5, 1]" : "insignificant");
    MPI_Scatterv(data, AT_ROOT(2, counts), AT_ROOT(2, places), MPI_INT, got, counts[rank], MPI_INT, 2, world);
    CALLED("MPI_Scatterv(sendbuf=%p, sendcounts=%s, displs=%s, sendtype=MPI_INT, recvbuf=%p, recvcount=%d, recvtype=MPI_INT, root=2, comm=MPI_COMM_WORLD)",
           (void *)data, rank == 2 ? "[1, 0, 2]" : "insignificant", rank == 2 ? "[0, 5, 1]" : "insignificant", (void *)got, counts[rank]);
    MPI_Allgatherv(data, counts[rank], MPI_INT, got, counts, places, MPI_INT, world);
    CALLED("MPI_Allgatherv(sendbuf=%p, sendcount=%d, sendtype=MPI_INT, recvbuf=%p, recvcounts=[1, 0, 2], displs=[0, 5, 1], recvtype=MPI_INT, comm=MPI_COMM_WORLD)",
           (void *)data, counts[rank], (void *)got);
    MPI_Alltoallv(data, ones, places, MPI_INT, got, ones, steps, MPI_INT, world);
    CALLED("MPI_Alltoallv(sendbuf=%p, sendcounts=[1, 1, 1], sdispls=[0, 5, 1], sendtype=MPI_INT, recvbuf=%p, recvcounts=[1, 1, 1], rdispls=[0, 4, 8], recvtype=MPI_INT, comm=MPI_COMM_WORLD)",
           (void *)data, (void *)got);
    MPI_Alltoallw(data, ones, steps, mine, got, ones, steps, types, world);
    CALLED("MPI_Alltoallw(sendbuf=%p, sendcounts=[1, 1, 1], sdispls=[0, 4, 8], sendtypes=[%s, %s, %s], recvbuf=%p, recvcounts=[1, 1, 1], rdispls=[0, 4, 8], recvtypes=[MPI_INT, MPI_FLOAT, MPI_UNSIGNED], comm=MPI_COMM_WORLD)",
           (void *)data, type_names[rank], type_names[rank], type_names[rank], (void *)got);
    MPI_Reduce_scatter(data, got, counts, MPI_INT, MPI_MAX, world);
    CALLED("MPI_Reduce_scatter(sendbuf=%p, recvbuf=%p, recvcounts=[1, 0, 2], datatype=MPI_INT, op=MPI_MAX, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
}

/* With MPI_IN_PLACE the send arguments are not significant, and may be anything. */
static void in_place(void)
{
    int ones[N] = { 1, 1, 1 }, steps[N] = { 0, 1, 2 }, bytes[N] = { 0, 4, 8 };
    MPI_Datatype types[N] = { MPI_INT, MPI_INT, MPI_INT };

    MPI_Allreduce(MPI_IN_PLACE, got, 3, MPI_INT, MPI_SUM, world);
    CALLED("MPI_Allreduce(sendbuf=MPI_IN_PLACE, recvbuf=%p, count=3, datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD)", (void *)got);
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : data, rank == 0 ? got : NULL, 3, MPI_INT, MPI_SUM, 0, world);
    if (rank == 0)
        CALLED("MPI_Reduce(sendbuf=MPI_IN_PLACE, recvbuf=%p, count=3, datatype=MPI_INT, op=MPI_SUM, root=0, comm=MPI_COMM_WORLD)", (void *)got);
    else
        CALLED("MPI_Reduce(sendbuf=%p, recvbuf=MPI_BOTTOM, count=3, datatype=MPI_INT, op=MPI_SUM, root=0, comm=MPI_COMM_WORLD)", (void *)data);
    MPI_Gather(rank == 2 ? MPI_IN_PLACE : data, 1, MPI_INT, got, 1, MPI_INT, 2, world);
    if (rank == 2)
        CALLED("MPI_Gather(sendbuf=MPI_IN_PLACE, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_INT, root=2, comm=MPI_COMM_WORLD)", (void *)got);
    else
        CALLED("MPI_Gather(sendbuf=%p, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_INT, root=2, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Scatterv(data, AT_ROOT(0, ones), AT_ROOT(0, steps), MPI_INT, rank == 0 ? MPI_IN_PLACE : got, 1, MPI_INT, 0, world);
    if (rank == 0)
        CALLED("MPI_Scatterv(sendbuf=%p, sendcounts=[1, 1, 1], displs=[0, 1, 2], sendtype=MPI_INT, recvbuf=MPI_IN_PLACE, recvcount=1, recvtype=MPI_INT, root=0, comm=MPI_COMM_WORLD)", (void *)data);
    else
        CALLED("MPI_Scatterv(sendbuf=%p, sendcounts=insignificant, displs=insignificant, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_INT, root=0, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, ones, steps, MPI_INT, world);
    CALLED("MPI_Allgatherv(sendbuf=MPI_IN_PLACE, sendcount=0, sendtype=MPI_DATATYPE_NULL, recvbuf=%p, recvcounts=[1, 1, 1], displs=[0, 1, 2], recvtype=MPI_INT, comm=MPI_COMM_WORLD)", (void *)got);
    MPI_Alltoallv(MPI_IN_PLACE, NOWHERE, NOWHERE, MPI_DATATYPE_NULL, got, ones, steps, MPI_INT, world);
    CALLED("MPI_Alltoallv(sendbuf=MPI_IN_PLACE, sendcounts=insignificant, sdispls=insignificant, sendtype=MPI_DATATYPE_NULL, recvbuf=%p, recvcounts=[1, 1, 1], rdispls=[0, 1, 2], recvtype=MPI_INT, comm=MPI_COMM_WORLD)", (void *)got);
    MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NOWHERE, got, ones, bytes, types, world);
    CALLED("MPI_Alltoallw(sendbuf=MPI_IN_PLACE, sendcounts=NULL, sdispls=NULL, sendtypes=insignificant, recvbuf=%p, recvcounts=[1, 1, 1], rdispls=[0, 4, 8], recvtypes=[MPI_INT, MPI_INT, MPI_INT], comm=MPI_COMM_WORLD)", (void *)got);
    MPI_Reduce_scatter(MPI_IN_PLACE, got, ones, MPI_INT, MPI_SUM, world);
    CALLED("MPI_Reduce_scatter(sendbuf=MPI_IN_PLACE, recvbuf=%p, recvcounts=[1, 1, 1], datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD)", (void *)got);
    MPI_Scan(MPI_IN_PLACE, got, 1, MPI_INT, MPI_SUM, world);
    CALLED("MPI_Scan(sendbuf=MPI_IN_PLACE, recvbuf=%p, count=1, datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD)", (void *)got);
}

/* Rank 0 on one side, ranks 1 and 2 on the other: arrays have as many elements as the remote
   group has ranks. */
static void between_groups(void)
{
    MPI_Comm side, inter;
    const int alone = rank == 0, others = alone ? 2 : 1;
    int counts[2] = { 1, 1 }, places[2] = { 0, 1 };
    const char *ones = alone ? "[1, 1]" : "[1]", *steps = alone ? "[0, 1]" : "[0]";

    MPI_Comm_split(world, alone, rank, &side);
    CALLED("MPI_Comm_split(comm=MPI_COMM_WORLD, color=%d, key=%d, newcomm=comm1)", alone, rank);
    MPI_Intercomm_create(side, 0, world, alone ? 1 : 0, 5, &inter);
    CALLED("MPI_Intercomm_create(local_comm=comm1, local_leader=0, peer_comm=MPI_COMM_WORLD, remote_leader=%d, tag=5, newintercomm=comm2)", alone ? 1 : 0);
    MPI_Barrier(inter);
    CALLED("MPI_Barrier(comm=comm2)");
    MPI_Bcast(data, 1, MPI_INT, alone ? 1 : rank == 2 ? MPI_ROOT : MPI_PROC_NULL, inter);
    CALLED("MPI_Bcast(buffer=%p, count=1, datatype=MPI_INT, root=%s, comm=comm2)", (void *)data, alone ? "1" : rank == 2 ? "MPI_ROOT" : "MPI_PROC_NULL");
    MPI_Gatherv(data, 1, MPI_INT, got, alone ? counts : NOWHERE, alone ? places : NOWHERE, MPI_INT, alone ? MPI_ROOT : 0, inter);
    CALLED("MPI_Gatherv(sendbuf=%p, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcounts=%s, displs=%s, recvtype=MPI_INT, root=%s, comm=comm2)",
           (void *)data, (void *)got, alone ? ones : "insignificant", alone ? steps : "insignificant", alone ? "MPI_ROOT" : "0");
    MPI_Scatterv(data, rank == 1 ? counts : NOWHERE, rank == 1 ? places : NOWHERE, MPI_INT, got, 1, MPI_INT,
                 alone ? 0 : rank == 1 ? MPI_ROOT : MPI_PROC_NULL, inter);
    CALLED("MPI_Scatterv(sendbuf=%p, sendcounts=%s, displs=%s, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_INT, root=%s, comm=comm2)",
           (void *)data, rank == 1 ? "[1]" : "insignificant", rank == 1 ? "[0]" : "insignificant", (void *)got,
           alone ? "0" : rank == 1 ? "MPI_ROOT" : "MPI_PROC_NULL");
    MPI_Allgatherv(data, 1, MPI_INT, got, counts, places, MPI_INT, inter);
    CALLED("MPI_Allgatherv(sendbuf=%p, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcounts=%s, displs=%s, recvtype=MPI_INT, comm=comm2)", (void *)data, (void *)got, ones, steps);
    MPI_Alltoallv(data, counts, places, MPI_INT, got, counts, places, MPI_INT, inter);
    CALLED("MPI_Alltoallv(sendbuf=%p, sendcounts=%s, sdispls=%s, sendtype=MPI_INT, recvbuf=%p, recvcounts=%s, rdispls=%s, recvtype=MPI_INT, comm=comm2)",
           (void *)data, ones, steps, (void *)got, ones, steps);
    MPI_Allreduce(data, got, 2, MPI_INT, MPI_SUM, inter);
    CALLED("MPI_Allreduce(sendbuf=%p, recvbuf=%p, count=2, datatype=MPI_INT, op=MPI_SUM, comm=comm2)", (void *)data, (void *)got);
    /* Both sides distribute two elements: one rank gets both, or each rank gets one. */
    counts[0] = others;
    MPI_Reduce_scatter(data, got, counts, MPI_INT, MPI_SUM, inter);
    CALLED("MPI_Reduce_scatter(sendbuf=%p, recvbuf=%p, recvcounts=%s, datatype=MPI_INT, op=MPI_SUM, comm=comm2)", (void *)data, (void *)got, alone ? "[2]" : "[1, 1]");
    MPI_Comm_free(&inter);
    CALLED("MPI_Comm_free(comm=comm2)");
    MPI_Comm_free(&side);
    CALLED("MPI_Comm_free(comm=comm1)");
}

static void wait(MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
}

static void non_blocking(void)
{
    int ones[N] = { 1, 1, 1 }, steps[N] = { 0, 1, 2 }, bytes[N] = { 0, 4, 8 };
    MPI_Datatype types[N] = { MPI_INT, MPI_INT, MPI_INT };
    MPI_Request request, both[2];

    MPI_Ibarrier(world, &request);
    CALLED("MPI_Ibarrier(comm=MPI_COMM_WORLD, request=r1)");
    wait(&request);
    MPI_Ibcast(data, 2, MPI_INT, 1, world, &request);
    CALLED("MPI_Ibcast(buffer=%p, count=2, datatype=MPI_INT, root=1, comm=MPI_COMM_WORLD, request=r1)", (void *)data);
    wait(&request);
    MPI_Igatherv(data, 1, MPI_INT, got, AT_ROOT(0, ones), AT_ROOT(0, steps), MPI_INT, 0, world, &request);
    CALLED("MPI_Igatherv(sendbuf=%p, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcounts=%s, displs=%s, recvtype=MPI_INT, root=0, comm=MPI_COMM_WORLD, request=r1)",
           (void *)data, (void *)got, rank == 0 ? "[1, 1, 1]" : "insignificant", rank == 0 ? "[0, 1, 2]" : "insignificant");
    wait(&request);
    MPI_Iscatterv(data, AT_ROOT(0, ones), AT_ROOT(0, steps), MPI_INT, got, 1, MPI_INT, 0, world, &request);
    CALLED("MPI_Iscatterv(sendbuf=%p, sendcounts=%s, displs=%s, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_INT, root=0, comm=MPI_COMM_WORLD, request=r1)",
           (void *)data, rank == 0 ? "[1, 1, 1]" : "insignificant", rank == 0 ? "[0, 1, 2]" : "insignificant", (void *)got);
    wait(&request);
    MPI_Iallreduce(data, got, 2, MPI_INT, MPI_SUM, world, &both[0]);
    CALLED("MPI_Iallreduce(sendbuf=%p, recvbuf=%p, count=2, datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD, request=r1)", (void *)data, (void *)got);
    MPI_Ialltoallw(data, ones, bytes, types, got + 4, ones, bytes, types, world, &both[1]);
    CALLED("MPI_Ialltoallw(sendbuf=%p, sendcounts=[1, 1, 1], sdispls=[0, 4, 8], sendtypes=[MPI_INT, MPI_INT, MPI_INT], recvbuf=%p, recvcounts=[1, 1, 1], rdispls=[0, 4, 8], recvtypes=[MPI_INT, MPI_INT, MPI_INT], comm=MPI_COMM_WORLD, request=r2)",
           (void *)data, (void *)(got + 4));
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    CALLED("MPI_Waitall(count=2, array_of_requests=[r1, r2], array_of_statuses=MPI_STATUSES_IGNORE)");
    MPI_Ialltoallv(MPI_IN_PLACE, NOWHERE, NOWHERE, MPI_DATATYPE_NULL, got, ones, steps, MPI_INT, world, &request);
    CALLED("MPI_Ialltoallv(sendbuf=MPI_IN_PLACE, sendcounts=insignificant, sdispls=insignificant, sendtype=MPI_DATATYPE_NULL, recvbuf=%p, recvcounts=[1, 1, 1], rdispls=[0, 1, 2], recvtype=MPI_INT, comm=MPI_COMM_WORLD, request=r1)", (void *)got);
    wait(&request);
    MPI_Ireduce_scatter(data, got, ones, MPI_INT, MPI_SUM, world, &request);
    CALLED("MPI_Ireduce_scatter(sendbuf=%p, recvbuf=%p, recvcounts=[1, 1, 1], datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD, request=r1)", (void *)data, (void *)got);
    wait(&request);
}

#if HAVE_MPI_4
static void persistent(void)
{
    int ones[N] = { 1, 1, 1 }, steps[N] = { 0, 1, 2 };
    MPI_Request requests[2];

    MPI_Allreduce_init(data, got, 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &requests[0]);
    CALLED("MPI_Allreduce_init(sendbuf=%p, recvbuf=%p, count=1, datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD, info=MPI_INFO_NULL, request=r1)", (void *)data, (void *)got);
    MPI_Scatterv_init(data, AT_ROOT(2, ones), AT_ROOT(2, steps), MPI_INT, got, 1, MPI_INT, 2, world, MPI_INFO_NULL, &requests[1]);
    CALLED("MPI_Scatterv_init(sendbuf=%p, sendcounts=%s, displs=%s, sendtype=MPI_INT, recvbuf=%p, recvcount=1, recvtype=MPI_INT, root=2, comm=MPI_COMM_WORLD, info=MPI_INFO_NULL, request=r2)",
           (void *)data, rank == 2 ? "[1, 1, 1]" : "insignificant", rank == 2 ? "[0, 1, 2]" : "insignificant", (void *)got);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++) {
            MPI_Start(&requests[i]);
            CALLED("MPI_Start(request=r%d)", i + 1);
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            CALLED("MPI_Wait(request=r%d, status=MPI_STATUS_IGNORE)", i + 1);
        }
    for (int i = 0; i < 2; i++) {
        MPI_Request_free(&requests[i]);
        CALLED("MPI_Request_free(request=r%d)", i + 1);
    }
}
#endif

int main(void)
{
    int size;

    MPI_Init(NULL, NULL);
    CALLED("MPI_Init(argc=NULL, argv=NULL)");
    MPI_Comm_rank(world, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);
    MPI_Comm_size(world, &size);
    CALLED("MPI_Comm_size(comm=MPI_COMM_WORLD, size=3)");

    plain();
    with_arrays();
    in_place();
    between_groups();
    non_blocking();
#if HAVE_MPI_4
    persistent();
#endif

    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(rank);
    return 0;
}
