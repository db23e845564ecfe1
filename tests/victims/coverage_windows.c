/* One-sided communication: every kind of window, every transfer, every synchronisation, and
 * what belongs to a window as an object. Each rank changes the other's memory only, so the
 * results are always the same. Runs on 2 ranks. */
#ifndef F
#include "coverage.h"

#define ELEMENTS 16

static int rank, peer;

static void fill(int *memory)
{
    for (int i = 0; i < ELEMENTS; i++)
        memory[i] = 100 * (rank + 1) + i;
}

static void return_window_errors(MPI_Win win)
{
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
}

static void show_attribute(MPI_Win win, int key, const char *what)
{
    MPI_Aint *value;
    int flag;

    CALL(MPI_Win_get_attr(win, key, &value, &flag));
    if (!flag)
        say("    %s: none", what);
    else if (key == MPI_WIN_SIZE)
        say("    %s: %lld", what, (long long)*value);
    else
        say("    %s: %d", what, *(int *)value);
}

static void show_window(MPI_Win win, void *memory)
{
    void *base;
    int flag;

    CALL(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    say("    flag %d, the same: %d", flag, base == memory);
    show_attribute(win, MPI_WIN_SIZE, "size");
    show_attribute(win, MPI_WIN_DISP_UNIT, "unit");
    show_attribute(win, MPI_WIN_CREATE_FLAVOR, "flavor");
    show_attribute(win, MPI_WIN_MODEL, "model");
}

/* Rank 0 opens its memory to rank 1. */
static void post_and_start(MPI_Win win, int *memory)
{
    MPI_Group everyone, other;
    int flag = 0;

    MPI_Comm_group(MPI_COMM_WORLD, &everyone);
    MPI_Group_incl(everyone, 1, &peer, &other);
    for (int round = 0; round < 2; round++) {
        if (rank == 0) {
            CALL(MPI_Win_post(other, 0, win));
            if (round == 0) {
                CALL(MPI_Win_wait(win));
            } else {
                for (flag = 0; !flag;)
                    POLL(MPI_Win_test(win, &flag));
                say("MPI_Win_test");
            }
        } else {
            int value[] = { 70 + round, 80 + round };
            CALL(MPI_Win_start(other, 0, win));
            CALL(MPI_Put(value, 2, MPI_INT, 0, 4 * round, 2, MPI_INT, win));
            CALL(MPI_Win_complete(win));
        }
        show_ints("memory", memory, ELEMENTS);
    }
    MPI_Group_free(&everyone);
    MPI_Group_free(&other);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Operations on one element. */
static void atomics(MPI_Win win, int *memory)
{
    int ten = 10, result = -1, expected = 100 * (peer + 1) + 10, wrong = 0, seven = 7;

    fill(memory);
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    CALL(MPI_Fetch_and_op(&ten, &result, MPI_INT, peer, 10, MPI_SUM, win));
    CALL(MPI_Win_flush(peer, win));
    say("    result %d", result);
    CALL(MPI_Fetch_and_op(NULL, &result, MPI_INT, peer, 10, MPI_NO_OP, win));
    CALL(MPI_Win_flush_all(win));
    say("    result %d", result);
    expected += 10;
    CALL(MPI_Compare_and_swap(&seven, &expected, &result, MPI_INT, peer, 10, win));
    CALL(MPI_Win_flush_local(peer, win));
    MPI_Win_flush(peer, win);
    say("    result %d", result);
    CALL(MPI_Compare_and_swap(&ten, &wrong, &result, MPI_INT, peer, 10, win));
    CALL(MPI_Win_flush_local_all(win));
    MPI_Win_flush_all(win);
    say("    result %d", result);
    CALL(MPI_Win_sync(win));
    CALL(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    show_ints("memory", memory, ELEMENTS);
    MPI_Win_unlock(rank, win);
}

static int copy_attribute(MPI_Win win, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)win, (void)key, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

static int delete_attribute(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key;
    say("delete %d, %d", *(int *)value, *(int *)extra);
    return MPI_SUCCESS;
}

static void handle_error(MPI_Win *win, int *code, ...)
{
    say("handled %s, null %d", class_of(*code), *win == MPI_WIN_NULL);
}

static void properties(MPI_Win win)
{
    static int extra = 17, first = 1, second = 2;
    char name[MPI_MAX_OBJECT_NAME];
    int length, key, flag, *value;
    MPI_Group group;
    MPI_Info info;
    MPI_Errhandler handler, found;

    CALL(MPI_Win_set_name(win, "a window"));
    CALL(MPI_Win_get_name(win, name, &length));
    say("    %s, %d", name, length);
    CALL(MPI_Win_get_group(win, &group));
    MPI_Group_size(group, &length);
    say("    size %d", length);
    MPI_Group_free(&group);
    MPI_Info_create(&info);
    MPI_Info_set(info, "accumulate_ordering", "none");
    CALL(MPI_Win_set_info(win, info));
    MPI_Info_free(&info);
    CALL(MPI_Win_get_info(win, &info));
    MPI_Info_get_nkeys(info, &length);
    say("    some: %d", length >= 0);
    MPI_Info_free(&info);

    CALL(MPI_Win_create_keyval(copy_attribute, delete_attribute, &key, &extra));
    CALL(MPI_Win_get_attr(win, key, &value, &flag));
    say("    flag %d", flag);
    CALL(MPI_Win_set_attr(win, key, &first));
    CALL(MPI_Win_get_attr(win, key, &value, &flag));
    say("    flag %d, value %d", flag, *value);
    CALL(MPI_Win_set_attr(win, key, &second));
    CALL(MPI_Win_delete_attr(win, key));
    CALL(MPI_Win_free_keyval(&key));
    say("    invalid: %d", key == MPI_KEYVAL_INVALID);

    CALL(MPI_Win_create_errhandler(handle_error, &handler));
    CALL(MPI_Win_set_errhandler(win, handler));
    CALL(MPI_Win_get_errhandler(win, &found));
    say("    the same: %d", found == handler);
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&handler);
    CALL(MPI_Win_call_errhandler(win, MPI_ERR_RMA_CONFLICT));
    return_window_errors(win);
}

static void dynamic(void)
{
    MPI_Win win;
    MPI_Aint mine, theirs;
    int memory[ELEMENTS], value[] = { 5, 6 };

    fill(memory);
    CALL(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    return_window_errors(win);
    show_window(win, MPI_BOTTOM);
    CALL(MPI_Win_attach(win, memory, sizeof memory));
    MPI_Get_address(memory, &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, peer, 0, &theirs, 1, MPI_AINT, peer, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CALL(MPI_Win_fence(0, win));
    CALL(MPI_Put(value, 2, MPI_INT, peer, MPI_Aint_add(theirs, 3 * sizeof(int)), 2, MPI_INT,
                 win));
    CALL(MPI_Win_fence(0, win));
    show_ints("memory", memory, ELEMENTS);
    CALL(MPI_Win_detach(win, memory));
    CALL(MPI_Win_free(&win));
}

/* The rest of the file, once for each size of counts. */
#define F(name) name
#define OF(name) name##_small
#define UNIT int
#include "coverage_windows.c"
#undef F
#undef OF
#undef UNIT
#if HAVE_LARGE_COUNTS
#define F(name) name##_c
#define OF(name) name##_large
#define UNIT MPI_Aint
#include "coverage_windows.c"
#endif

int main(int argc, char **argv)
{
#if ON_OPEN_MPI
    /* On one machine neither of these is needed; 4.1 fails with the first, 5.0 prints warnings with the other. */
    setenv("OMPI_MCA_osc", OMPI_MAJOR_VERSION < 5 ? "^rdma,ucx" : "^ucx", 0);
#endif
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    return_errors(MPI_COMM_WORLD);

    windows_small();
#if HAVE_LARGE_COUNTS
    windows_large();
#endif
    dynamic();

    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

#else /* once for each size of counts */

/* Both ranks at once, between fences. */
static void OF(fenced)(MPI_Win win, int *memory)
{
    int value[] = { 1, 2, 3 }, got[3] = { -1, -1, -1 };
    MPI_Datatype every_second;

    fill(memory);
    MPI_Type_vector(3, 1, 2, MPI_INT, &every_second);
    MPI_Type_commit(&every_second);
    CALL(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    CALL(F(MPI_Put)(value, 3, MPI_INT, peer, 0, 1, every_second, win));
    CALL(MPI_Win_fence(0, win));
    CALL(F(MPI_Get)(got, 3, MPI_INT, peer, 2, 3, MPI_INT, win));
    CALL(MPI_Win_fence(0, win));
    show_ints("got", got, 3);
    CALL(F(MPI_Accumulate)(value, 3, MPI_INT, peer, 6, 3, MPI_INT, MPI_SUM, win));
    CALL(MPI_Win_fence(0, win));
    CALL(F(MPI_Get_accumulate)(value, 3, MPI_INT, got, 3, MPI_INT, peer, 6, 3, MPI_INT,
                               MPI_REPLACE, win));
    CALL(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    show_ints("got", got, 3);
    show_ints("memory", memory, ELEMENTS);
    MPI_Type_free(&every_second);
}

/* With a lock on the other's memory. */
static void OF(locked)(MPI_Win win, int *memory)
{
    int value[] = { 1, 2, 3 }, got[3] = { -1, -1, -1 };
    MPI_Request request;

    fill(memory);
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, win));
    CALL(F(MPI_Rput)(value, 2, MPI_INT, peer, 0, 2, MPI_INT, win, &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CALL(MPI_Win_flush(peer, win));
    CALL(F(MPI_Rget)(got, 3, MPI_INT, peer, 1, 3, MPI_INT, win, &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    show_ints("got", got, 3);
    CALL(F(MPI_Raccumulate)(value, 3, MPI_INT, peer, 4, 3, MPI_INT, MPI_PROD, win, &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CALL(MPI_Win_flush(peer, win));
    CALL(F(MPI_Rget_accumulate)(value, 3, MPI_INT, got, 3, MPI_INT, peer, 4, 3, MPI_INT,
                                MPI_SUM, win, &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    show_ints("got", got, 3);
    CALL(F(MPI_Put)(value, 3, MPI_INT, MPI_PROC_NULL, 0, 3, MPI_INT, win));
    CALL(MPI_Win_unlock(peer, win));
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    show_ints("memory", memory, ELEMENTS);
    CALL(MPI_Win_unlock(rank, win));
}

static void OF(use)(MPI_Win win, int *memory)
{
    return_window_errors(win);
    show_window(win, memory);
    OF(fenced)(win, memory);
    OF(locked)(win, memory);
    post_and_start(win, memory);
    atomics(win, memory);
    properties(win);
    CALL(MPI_Win_free(&win));
    say("    null: %d", win == MPI_WIN_NULL);
}

static void OF(windows)(void)
{
    const MPI_Aint size = ELEMENTS * sizeof(int);
    static int memory[ELEMENTS];
    int *allocated, *shared, *theirs;
    MPI_Aint queried;
    UNIT unit;
    MPI_Win win;

    CALL(F(MPI_Win_create)(memory, size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OF(use)(win, memory);
    CALL(F(MPI_Win_allocate)(size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &allocated,
                             &win));
    OF(use)(win, allocated);
    CALL(F(MPI_Win_allocate_shared)(size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &shared,
                                    &win));
    CALL(F(MPI_Win_shared_query)(win, rank, &queried, &unit, &theirs));
    say("    size %lld, unit %lld, the same: %d", (long long)queried, (long long)unit,
        theirs == shared);
    fill(shared);
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(F(MPI_Win_shared_query)(win, peer, &queried, &unit, &theirs));
    say("    size %lld, unit %lld", (long long)queried, (long long)unit);
    show_ints("theirs", theirs, ELEMENTS);
    MPI_Barrier(MPI_COMM_WORLD);
    OF(use)(win, shared);
}

#endif
