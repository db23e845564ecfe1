/*
 * Windows of two ranks: every way to create them, every access and every way to synchronise,
 * displacements, assertions, attributes, names.
 */
#include <mpi.h>
#include <stdint.h>
#include "expect.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank, peer, data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, got[8], room[64];

/* An address as `refrain show` prints it, also NULL. */
static const char *address(const void *at)
{
    static char text[32];
    snprintf(text, sizeof text, at == NULL ? "NULL" : "%p", at);
    return text;
}

static void fence(int assertion, MPI_Win win, const char *name)
{
    MPI_Win_fence(assertion, win);
    CALLED("MPI_Win_fence(assert=%s, win=win1)", name);
}

static void accesses(void)
{
    MPI_Win win;
    MPI_Request request;

    MPI_Win_create(room, sizeof room, sizeof(int), MPI_INFO_NULL, world, &win);
    CALLED("MPI_Win_create(base=%p, size=256, disp_unit=4, info=MPI_INFO_NULL, comm=MPI_COMM_WORLD, win=win1)", (void *)room);
    fence(MPI_MODE_NOPRECEDE, win, "MPI_MODE_NOPRECEDE");
    MPI_Put(data, 2, MPI_INT, peer, 3, 1, MPI_2INT, win);
    CALLED("MPI_Put(origin_addr=%p, origin_count=2, origin_datatype=MPI_INT, target_rank=%d, target_disp=3, target_count=1, target_datatype=MPI_2INT, win=win1)", (void *)data, peer);
    MPI_Get(got, 2, MPI_INT, peer, 40, 2, MPI_INT, win);
    CALLED("MPI_Get(origin_addr=%p, origin_count=2, origin_datatype=MPI_INT, target_rank=%d, target_disp=40, target_count=2, target_datatype=MPI_INT, win=win1)", (void *)got, peer);
    MPI_Put(data, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win);
    CALLED("MPI_Put(origin_addr=%p, origin_count=1, origin_datatype=MPI_INT, target_rank=MPI_PROC_NULL, target_disp=0, target_count=1, target_datatype=MPI_INT, win=win1)", (void *)data);
    fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT, win, "MPI_MODE_NOPUT|MPI_MODE_NOSTORE");
    MPI_Accumulate(data, 3, MPI_INT, peer, 8, 3, MPI_INT, MPI_SUM, win);
    CALLED("MPI_Accumulate(origin_addr=%p, origin_count=3, origin_datatype=MPI_INT, target_rank=%d, target_disp=8, target_count=3, target_datatype=MPI_INT, op=MPI_SUM, win=win1)", (void *)data, peer);
    fence(0, win, "0");
    MPI_Get_accumulate(data, 1, MPI_INT, got, 1, MPI_INT, peer, 8, 1, MPI_INT, MPI_NO_OP, win);
    CALLED("MPI_Get_accumulate(origin_addr=%p, origin_count=1, origin_datatype=MPI_INT, result_addr=%p, result_count=1, result_datatype=MPI_INT, target_rank=%d, target_disp=8, target_count=1, target_datatype=MPI_INT, op=MPI_NO_OP, win=win1)", (void *)data, (void *)got, peer);
    fence(MPI_MODE_NOSUCCEED, win, "MPI_MODE_NOSUCCEED");

    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, win);
    CALLED("MPI_Win_lock(lock_type=MPI_LOCK_EXCLUSIVE, rank=%d, assert=0, win=win1)", peer);
    MPI_Fetch_and_op(data, got, MPI_INT, peer, 20, MPI_REPLACE, win);
    CALLED("MPI_Fetch_and_op(origin_addr=%p, result_addr=%p, datatype=MPI_INT, target_rank=%d, target_disp=20, op=MPI_REPLACE, win=win1)", (void *)data, (void *)got, peer);
    MPI_Win_flush_local(peer, win);
    CALLED("MPI_Win_flush_local(rank=%d, win=win1)", peer);
    MPI_Compare_and_swap(data, data + 1, got, MPI_INT, peer, 21, win);
    CALLED("MPI_Compare_and_swap(origin_addr=%p, compare_addr=%p, result_addr=%p, datatype=MPI_INT, target_rank=%d, target_disp=21, win=win1)", (void *)data, (void *)(data + 1), (void *)got, peer);
    MPI_Win_flush(peer, win);
    CALLED("MPI_Win_flush(rank=%d, win=win1)", peer);
    MPI_Win_unlock(peer, win);
    CALLED("MPI_Win_unlock(rank=%d, win=win1)", peer);

    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    CALLED("MPI_Win_lock_all(assert=MPI_MODE_NOCHECK, win=win1)");
    MPI_Rput(data, 1, MPI_INT, peer, 30, 1, MPI_INT, win, &request);
    CALLED("MPI_Rput(origin_addr=%p, origin_count=1, origin_datatype=MPI_INT, target_rank=%d, target_disp=30, target_count=1, target_datatype=MPI_INT, win=win1, request=r1)", (void *)data, peer);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    MPI_Rget(got, 1, MPI_INT, peer, 31, 1, MPI_INT, win, &request);
    CALLED("MPI_Rget(origin_addr=%p, origin_count=1, origin_datatype=MPI_INT, target_rank=%d, target_disp=31, target_count=1, target_datatype=MPI_INT, win=win1, request=r1)", (void *)got, peer);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    MPI_Win_flush_all(win);
    CALLED("MPI_Win_flush_all(win=win1)");
    MPI_Win_flush_local_all(win);
    CALLED("MPI_Win_flush_local_all(win=win1)");
    MPI_Win_sync(win);
    CALLED("MPI_Win_sync(win=win1)");
    MPI_Win_unlock_all(win);
    CALLED("MPI_Win_unlock_all(win=win1)");
    MPI_Win_free(&win);
    CALLED("MPI_Win_free(win=win1)");
}

static void generalised(void)
{
    MPI_Win win;
    MPI_Group all, other;
    int flag, ranks[1] = { peer }, *base;

    MPI_Win_allocate(64, 8, MPI_INFO_NULL, world, &base, &win);
    CALLED("MPI_Win_allocate(size=64, disp_unit=8, info=MPI_INFO_NULL, comm=MPI_COMM_WORLD, baseptr=%p, win=win1)", (void *)base);
    MPI_Win_get_group(win, &all);
    CALLED("MPI_Win_get_group(win=win1, group=group1)");
    MPI_Group_incl(all, 1, ranks, &other);
    CALLED("MPI_Group_incl(group=group1, n=1, ranks=[%d], newgroup=group2)", peer);
    if (rank == 0) {
        MPI_Win_start(other, 0, win);
        CALLED("MPI_Win_start(group=group2, assert=0, win=win1)");
        MPI_Put(data, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
        CALLED("MPI_Put(origin_addr=%p, origin_count=1, origin_datatype=MPI_INT, target_rank=1, target_disp=0, target_count=1, target_datatype=MPI_INT, win=win1)", (void *)data);
        MPI_Win_complete(win);
        CALLED("MPI_Win_complete(win=win1)");
        MPI_Win_start(other, 0, win);
        CALLED("MPI_Win_start(group=group2, assert=0, win=win1)");
        MPI_Win_complete(win);
        CALLED("MPI_Win_complete(win=win1)");
    } else {
        MPI_Win_post(other, MPI_MODE_NOSTORE, win);
        CALLED("MPI_Win_post(group=group2, assert=MPI_MODE_NOSTORE, win=win1)");
        MPI_Win_wait(win);
        CALLED("MPI_Win_wait(win=win1)");
        MPI_Win_post(other, 0, win);
        CALLED("MPI_Win_post(group=group2, assert=0, win=win1)");
        do {
            MPI_Win_test(win, &flag);
            CALLED("MPI_Win_test(win=win1, flag=%s)", flag ? "true" : "false");
        } while (!flag);
    }
    MPI_Group_free(&other);
    CALLED("MPI_Group_free(group=group2)");
    MPI_Group_free(&all);
    CALLED("MPI_Group_free(group=group1)");
    MPI_Win_free(&win);
    CALLED("MPI_Win_free(win=win1)");
}

static void shared_and_dynamic(void)
{
    MPI_Win win, other;
    MPI_Aint size;
    int unit, *base, *theirs;

    MPI_Win_allocate_shared(rank == 0 ? 32 : 0, 4, MPI_INFO_NULL, world, &base, &win);
    CALLED("MPI_Win_allocate_shared(size=%d, disp_unit=4, info=MPI_INFO_NULL, comm=MPI_COMM_WORLD, baseptr=%s, win=win1)", rank == 0 ? 32 : 0, address(base));
    MPI_Win_shared_query(win, 0, &size, &unit, &theirs);
    CALLED("MPI_Win_shared_query(win=win1, rank=0, size=32, disp_unit=4, baseptr=%p)", (void *)theirs);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &theirs);
    CALLED("MPI_Win_shared_query(win=win1, rank=MPI_PROC_NULL, size=32, disp_unit=4, baseptr=%p)", (void *)theirs);
    MPI_Win_create_dynamic(MPI_INFO_NULL, world, &other);
    CALLED("MPI_Win_create_dynamic(info=MPI_INFO_NULL, comm=MPI_COMM_WORLD, win=win2)");
    MPI_Win_attach(other, room, 128);
    CALLED("MPI_Win_attach(win=win2, base=%p, size=128)", (void *)room);
    MPI_Win_detach(other, room);
    CALLED("MPI_Win_detach(win=win2, base=%p)", (void *)room);
    MPI_Win_free(&win);
    CALLED("MPI_Win_free(win=win1)");
    MPI_Win_free(&other);
    CALLED("MPI_Win_free(win=win2)");
}

static void attributes(void)
{
    static int value;
    MPI_Win win;
    void *got_it;
    int key, flag, n;
    char name[MPI_MAX_OBJECT_NAME];

    MPI_Win_create(room, sizeof room, 1, MPI_INFO_NULL, world, &win);
    CALLED("MPI_Win_create(base=%p, size=256, disp_unit=1, info=MPI_INFO_NULL, comm=MPI_COMM_WORLD, win=win1)", (void *)room);
    MPI_Win_set_name(win, "");
    CALLED("MPI_Win_set_name(win=win1, win_name=\"\")");
    MPI_Win_set_name(win, "fenêtre");
    CALLED("MPI_Win_set_name(win=win1, win_name=\"fenêtre\")");
    MPI_Win_get_name(win, name, &n);
    CALLED("MPI_Win_get_name(win=win1, win_name=\"fenêtre\", resultlen=8)");
    MPI_Win_get_attr(win, MPI_WIN_BASE, &got_it, &flag);
    CALLED("MPI_Win_get_attr(win=win1, win_keyval=MPI_WIN_BASE, attribute_val=%p, flag=true)", got_it);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL);
    CALLED("MPI_Win_create_keyval(win_copy_attr_fn=MPI_WIN_NULL_COPY_FN, win_delete_attr_fn=MPI_WIN_NULL_DELETE_FN, win_keyval=%d, extra_state=NULL)", key);
    MPI_Win_set_attr(win, key, &value);
    CALLED("MPI_Win_set_attr(win=win1, win_keyval=%d, attribute_val=%p)", key, (void *)&value);
    MPI_Win_set_attr(win, key, NULL);
    CALLED("MPI_Win_set_attr(win=win1, win_keyval=%d, attribute_val=NULL)", key);
    MPI_Win_get_attr(win, key, &got_it, &flag);
    CALLED("MPI_Win_get_attr(win=win1, win_keyval=%d, attribute_val=NULL, flag=true)", key);
    MPI_Win_delete_attr(win, key);
    CALLED("MPI_Win_delete_attr(win=win1, win_keyval=%d)", key);
    const int was = key;
    MPI_Win_free_keyval(&key);
    CALLED("MPI_Win_free_keyval(win_keyval=%d→MPI_KEYVAL_INVALID)", was);
    MPI_Win_free(&win);
    CALLED("MPI_Win_free(win=win1)");
}

static void memory(void)
{
    MPI_Aint bytes = 4096;
    char *at;

    MPI_Alloc_mem(bytes, MPI_INFO_NULL, &at);
    CALLED("MPI_Alloc_mem(size=4096, info=MPI_INFO_NULL, baseptr=%p)", (void *)at);
    char *was = at;
    MPI_Free_mem(at);
    CALLED("MPI_Free_mem(base=0x%lx)", (unsigned long)(uintptr_t)was);
}

int main(void)
{
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
    /* On one machine these do not work. */
    setenv("OMPI_MCA_osc", "^rdma,ucx", 0);
#endif
    MPI_Init(NULL, NULL);
    CALLED("MPI_Init(argc=NULL, argv=NULL)");
    MPI_Comm_rank(world, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);
    peer = 1 - rank;

    accesses();
    generalised();
    shared_and_dynamic();
    attributes();
    memory();

    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(rank);
    return 0;
}
