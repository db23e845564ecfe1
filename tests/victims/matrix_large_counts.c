/*
 * The functions with large counts, MPI_X_c: counts beyond 32 bits where they cost no memory,
 * arrays of counts and displacements. With an older MPI, only MPI_Init and MPI_Finalize.
 */
#include <mpi.h>
#include "expect.h"

#if MPI_VERSION >= 4
static const MPI_Comm world = MPI_COMM_WORLD;
static int data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, got[8];
static const MPI_Count huge = (MPI_Count)3 << 40;
#define HUGE_TEXT "3298534883328"
#endif
static int rank;

#if MPI_VERSION >= 4
static void point_to_point(void)
{
    const int peer = 1 - rank;
    MPI_Request request;
    MPI_Status status;
    MPI_Count count;
    static char room[4096];
    void *detached;

    MPI_Send_c(data, huge, MPI_INT, MPI_PROC_NULL, 0, world);
    CALLED("MPI_Send_c(buf=%p, count=" HUGE_TEXT ", datatype=MPI_INT, dest=MPI_PROC_NULL, tag=0, comm=MPI_COMM_WORLD)", (void *)data);
    MPI_Irecv_c(got, 8, MPI_INT, MPI_ANY_SOURCE, 1, world, &request);
    CALLED("MPI_Irecv_c(buf=%p, count=8, datatype=MPI_INT, source=MPI_ANY_SOURCE, tag=1, comm=MPI_COMM_WORLD, request=r1)", (void *)got);
    MPI_Send_c(data, 3, MPI_INT, peer, 1, world);
    CALLED("MPI_Send_c(buf=%p, count=3, datatype=MPI_INT, dest=%d, tag=1, comm=MPI_COMM_WORLD)", (void *)data, peer);
    MPI_Wait(&request, &status);
    CALLED("MPI_Wait(request=r1, status={source=%d, tag=1, bytes=12})", peer);
    MPI_Get_count_c(&status, MPI_INT, &count);
    CALLED("MPI_Get_count_c(status={source=%d, tag=1, bytes=12}, datatype=MPI_INT, count=3)", peer);
    MPI_Get_count_c(&status, MPI_DOUBLE, &count);
    CALLED("MPI_Get_count_c(status={source=%d, tag=1, bytes=12}, datatype=MPI_DOUBLE, count=MPI_UNDEFINED)", peer);
    MPI_Sendrecv_c(data, 1, MPI_INT, peer, 2, got, 8, MPI_INT, peer, 2, world, MPI_STATUS_IGNORE);
    CALLED("MPI_Sendrecv_c(sendbuf=%p, sendcount=1, sendtype=MPI_INT, dest=%d, sendtag=2, recvbuf=%p, recvcount=8, recvtype=MPI_INT, source=%d, recvtag=2, comm=MPI_COMM_WORLD, status=MPI_STATUS_IGNORE)", (void *)data, peer, (void *)got, peer);
    MPI_Buffer_attach_c(room, sizeof room);
    CALLED("MPI_Buffer_attach_c(buffer=%p, size=4096)", (void *)room);
    MPI_Buffer_detach_c(&detached, &count);
    CALLED("MPI_Buffer_detach_c(buffer_addr=%p, size=4096)", (void *)room);
}

static void collectives(void)
{
    MPI_Count ones[2] = { 1, 1 };
    MPI_Aint steps[2] = { 0, 1 }, bytes[2] = { 0, 4 };
    MPI_Datatype types[2] = { MPI_INT, MPI_INT };

    MPI_Bcast_c(data, 2, MPI_INT, 0, world);
    CALLED("MPI_Bcast_c(buffer=%p, count=2, datatype=MPI_INT, root=0, comm=MPI_COMM_WORLD)", (void *)data);
    MPI_Gatherv_c(data, 1, MPI_INT, got, rank == 0 ? ones : NULL, rank == 0 ? steps : NULL, MPI_INT, 0, world);
    CALLED("MPI_Gatherv_c(sendbuf=%p, sendcount=1, sendtype=MPI_INT, recvbuf=%p, recvcounts=%s, displs=%s, recvtype=MPI_INT, root=0, comm=MPI_COMM_WORLD)",
           (void *)data, (void *)got, rank == 0 ? "[1, 1]" : "NULL", rank == 0 ? "[0, 1]" : "NULL");
    MPI_Alltoallv_c(data, ones, steps, MPI_INT, got, ones, steps, MPI_INT, world);
    CALLED("MPI_Alltoallv_c(sendbuf=%p, sendcounts=[1, 1], sdispls=[0, 1], sendtype=MPI_INT, recvbuf=%p, recvcounts=[1, 1], rdispls=[0, 1], recvtype=MPI_INT, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Alltoallw_c(data, ones, bytes, types, got, ones, bytes, types, world);
    CALLED("MPI_Alltoallw_c(sendbuf=%p, sendcounts=[1, 1], sdispls=[0, 4], sendtypes=[MPI_INT, MPI_INT], recvbuf=%p, recvcounts=[1, 1], rdispls=[0, 4], recvtypes=[MPI_INT, MPI_INT], comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    MPI_Reduce_scatter_c(data, got, ones, MPI_INT, MPI_SUM, world);
    CALLED("MPI_Reduce_scatter_c(sendbuf=%p, recvbuf=%p, recvcounts=[1, 1], datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
}

static void datatypes(void)
{
    MPI_Datatype type, parts;
    MPI_Count size, lb, extent, n, m, l, k, lengths[2] = { 1, 2 }, offsets[2] = { 0, (MPI_Count)1 << 35 }, room[8], large[8];
    MPI_Count sizes[1] = { huge }, subsizes[1] = { 5 }, starts[1] = { (MPI_Count)1 << 33 };
    int combiner, integers[8];
    MPI_Aint addresses[8];
    MPI_Datatype types[2] = { MPI_CHAR, MPI_INT };

    MPI_Type_contiguous_c(huge, MPI_INT, &type);
    CALLED("MPI_Type_contiguous_c(count=" HUGE_TEXT ", oldtype=MPI_INT, newtype=type1)");
    MPI_Type_size_c(type, &size);
    CALLED("MPI_Type_size_c(datatype=type1, size=13194139533312)");
    MPI_Type_get_extent_c(type, &lb, &extent);
    CALLED("MPI_Type_get_extent_c(datatype=type1, lb=0, extent=13194139533312)");
    MPI_Type_get_envelope_c(type, &n, &m, &l, &k, &combiner);
    CALLED("MPI_Type_get_envelope_c(datatype=type1, num_integers=%d, num_addresses=0, num_large_counts=%d, num_datatypes=1, combiner=MPI_COMBINER_CONTIGUOUS)", (int)n, (int)l);
    MPI_Type_get_contents_c(type, n, m, l, k, integers, addresses, room, &parts);
    CALLED("MPI_Type_get_contents_c(datatype=type1, max_integers=%d, max_addresses=0, max_large_counts=%d, max_datatypes=1, array_of_integers=[], array_of_addresses=[], array_of_large_counts=[" HUGE_TEXT "], array_of_datatypes=[MPI_INT])", (int)n, (int)l);
    MPI_Type_free(&type);
    CALLED("MPI_Type_free(datatype=type1)");
    MPI_Type_create_struct_c(2, lengths, offsets, types, &type);
    CALLED("MPI_Type_create_struct_c(count=2, array_of_blocklengths=[1, 2], array_of_displacements=[0, 34359738368], array_of_types=[MPI_CHAR, MPI_INT], newtype=type1)");
    MPI_Type_get_envelope_c(type, &n, &m, &l, &k, &combiner);
    CALLED("MPI_Type_get_envelope_c(datatype=type1, num_integers=%d, num_addresses=%d, num_large_counts=%d, num_datatypes=2, combiner=MPI_COMBINER_STRUCT)", (int)n, (int)m, (int)l);
    if (n == 0 && m == 0 && l == 5) {
        MPI_Datatype both[2];
        MPI_Type_get_contents_c(type, 0, 0, 5, 2, integers, addresses, large, both);
        CALLED("MPI_Type_get_contents_c(datatype=type1, max_integers=0, max_addresses=0, max_large_counts=5, max_datatypes=2, array_of_integers=[], array_of_addresses=[], array_of_large_counts=[2, 1, 2, 0, 34359738368], array_of_datatypes=[MPI_CHAR, MPI_INT])");
    }
    MPI_Type_free(&type);
    CALLED("MPI_Type_free(datatype=type1)");
    MPI_Type_create_subarray_c(1, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
    CALLED("MPI_Type_create_subarray_c(ndims=1, array_of_sizes=[" HUGE_TEXT "], array_of_subsizes=[5], array_of_starts=[8589934592], order=MPI_ORDER_C, oldtype=MPI_INT, newtype=type1)");
    MPI_Type_free(&type);
    CALLED("MPI_Type_free(datatype=type1)");
    MPI_Type_vector_c(2, 1, huge, MPI_CHAR, &type);
    CALLED("MPI_Type_vector_c(count=2, blocklength=1, stride=" HUGE_TEXT ", oldtype=MPI_CHAR, newtype=type1)");
    MPI_Type_free(&type);
    CALLED("MPI_Type_free(datatype=type1)");
}

static void add(void *in, void *inout, MPI_Count *count, MPI_Datatype *type)
{
    MPI_Count size;

    for (MPI_Count i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
    MPI_Type_size_c(*type, &size);
    CALLED("MPI_Type_size_c(datatype=MPI_INT, size=4)");
}

static void others(void)
{
    MPI_Op op;
    MPI_Win win;
    MPI_Count position = 0, size;
    char packed[64];
    int call;

    MPI_Op_create_c(add, 1, &op);
    CALLED("MPI_Op_create_c(user_fn=%p, commute=true, op=op1)", (void *)add);
    call = CALLING();
    MPI_Reduce_local_c(data, got, 4, MPI_INT, op);
    CALLED_AT(call, "MPI_Reduce_local_c(inbuf=%p, inoutbuf=%p, count=4, datatype=MPI_INT, op=op1)", (void *)data, (void *)got);
    MPI_Op_free(&op);
    CALLED("MPI_Op_free(op=op1)");
    MPI_Pack_c(data, 4, MPI_INT, packed, sizeof packed, &position, world);
    CALLED("MPI_Pack_c(inbuf=%p, incount=4, datatype=MPI_INT, outbuf=%p, outsize=64, position=0→16, comm=MPI_COMM_WORLD)", (void *)data, (void *)packed);
    MPI_Pack_size_c(huge, MPI_CHAR, world, &size);
    CALLED("MPI_Pack_size_c(incount=" HUGE_TEXT ", datatype=MPI_CHAR, comm=MPI_COMM_WORLD, size=%lld)", (long long)size);
    MPI_Win_create_c(data, sizeof data, (MPI_Aint)4, MPI_INFO_NULL, world, &win);
    CALLED("MPI_Win_create_c(base=%p, size=32, disp_unit=4, info=MPI_INFO_NULL, comm=MPI_COMM_WORLD, win=win1)", (void *)data);
    MPI_Win_fence(0, win);
    CALLED("MPI_Win_fence(assert=0, win=win1)");
    MPI_Put_c(got, 1, MPI_INT, 1 - rank, 2, 1, MPI_INT, win);
    CALLED("MPI_Put_c(origin_addr=%p, origin_count=1, origin_datatype=MPI_INT, target_rank=%d, target_disp=2, target_count=1, target_datatype=MPI_INT, win=win1)", (void *)got, 1 - rank);
    MPI_Win_fence(0, win);
    CALLED("MPI_Win_fence(assert=0, win=win1)");
    MPI_Win_free(&win);
    CALLED("MPI_Win_free(win=win1)");
}
#endif

int main(void)
{
    MPI_Init(NULL, NULL);
    CALLED("MPI_Init(argc=NULL, argv=NULL)");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);
#if MPI_VERSION >= 4
    point_to_point();
    collectives();
    datatypes();
    others();
#endif
    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(rank);
    return 0;
}
