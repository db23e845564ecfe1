/*
 * Calls that callbacks make: operations, attribute functions, error handlers, generalised requests.
 * The last call of each is a tail call if the compiler can make it one. Callbacks inside callbacks;
 * callbacks in MPI_Finalize.
 *
 * MPI decides how often a callback is called: each time, the callback lists its calls.
 */
#include <mpi.h>
#include "expect.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank, data[4], got[4];

/* The results of tail calls: they cannot be on the stack. */
static int result;

/* --- operations --- */

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int size;

    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
    MPI_Type_size(*type, &size);
    CALLED("MPI_Type_size(datatype=MPI_INT, size=4)");
    MPI_Comm_size(world, &size);
    CALLED("MPI_Comm_size(comm=MPI_COMM_WORLD, size=2)");
}

/* Ends in a tail call. */
static void multiply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] *= ((int *)in)[i];
    CALLED("MPI_Type_size(datatype=MPI_INT, size=4)");
    MPI_Type_size(*type, &result);
}

static void operations(void)
{
    MPI_Op sum, product;
    MPI_Request request;
    int call, flag;

    MPI_Op_create(add, 1, &sum);
    CALLED("MPI_Op_create(user_fn=%p, commute=true, op=op1)", (void *)add);
    MPI_Op_create(multiply, 0, &product);
    CALLED("MPI_Op_create(user_fn=%p, commute=false, op=op2)", (void *)multiply);
    MPI_Op_commutative(product, &flag);
    CALLED("MPI_Op_commutative(op=op2, commute=false)");
    call = CALLING();
    MPI_Reduce_local(data, got, 4, MPI_INT, sum);
    CALLED_AT(call, "MPI_Reduce_local(inbuf=%p, inoutbuf=%p, count=4, datatype=MPI_INT, op=op1)", (void *)data, (void *)got);
    call = CALLING();
    MPI_Reduce_local(data, got, 4, MPI_INT, product);
    CALLED_AT(call, "MPI_Reduce_local(inbuf=%p, inoutbuf=%p, count=4, datatype=MPI_INT, op=op2)", (void *)data, (void *)got);
    call = CALLING();
    MPI_Allreduce(data, got, 4, MPI_INT, sum, world);
    CALLED_AT(call, "MPI_Allreduce(sendbuf=%p, recvbuf=%p, count=4, datatype=MPI_INT, op=op1, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    call = CALLING();
    MPI_Scan(data, got, 4, MPI_INT, product, world);
    CALLED_AT(call, "MPI_Scan(sendbuf=%p, recvbuf=%p, count=4, datatype=MPI_INT, op=op2, comm=MPI_COMM_WORLD)", (void *)data, (void *)got);
    call = CALLING();
    MPI_Ireduce(data, got, 4, MPI_INT, product, 0, world, &request);
    CALLED_AT(call, "MPI_Ireduce(sendbuf=%p, recvbuf=%p, count=4, datatype=MPI_INT, op=op2, root=0, comm=MPI_COMM_WORLD, request=r1)", (void *)data, (void *)got);
    call = CALLING();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED_AT(call, "MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    MPI_Op_free(&sum);
    CALLED("MPI_Op_free(op=op1)");
    MPI_Op_free(&product);
    CALLED("MPI_Op_free(op=op2)");
}

/* --- attributes --- */

static int key, again;

static int copy(MPI_Comm old, int keyval, void *state, void *value, void *new_value, int *flag)
{
    int size;

    MPI_Comm_size(old, &size);
    CALLED("MPI_Comm_size(comm=MPI_COMM_WORLD, size=2)");
    *(void **)new_value = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

/* The communicator is about to be freed, but still has its name. */
static int delete(MPI_Comm comm, int keyval, void *value, void *state)
{
    CALLED("MPI_Comm_rank(comm=%s, rank=%d)", comm == world ? "MPI_COMM_WORLD" : comm == MPI_COMM_SELF ? "MPI_COMM_SELF" : "comm1", comm == MPI_COMM_SELF ? 0 : rank);
    return MPI_Comm_rank(comm, &result);
}

/* Deletes an attribute inside a callback, which calls another callback. */
static int delete_twice(MPI_Comm comm, int keyval, void *value, void *state)
{
    int call = CALLING();

    MPI_Comm_delete_attr(world, again);
    CALLED_AT(call, "MPI_Comm_delete_attr(comm=MPI_COMM_WORLD, comm_keyval=%d)", again);
    return MPI_SUCCESS;
}

static int delete_of_type(MPI_Datatype type, int keyval, void *value, void *state)
{
    CALLED("MPI_Type_size(datatype=type1, size=12)");
    return MPI_Type_size(type, &result);
}

static void attributes(void)
{
    MPI_Comm dup, other;
    MPI_Datatype type;
    int call, twice, of_type;

    MPI_Comm_create_keyval(copy, delete, &key, got);
    CALLED("MPI_Comm_create_keyval(comm_copy_attr_fn=%p, comm_delete_attr_fn=%p, comm_keyval=%d, extra_state=%p)", (void *)copy, (void *)delete, key, (void *)got);
    MPI_Comm_set_attr(world, key, data);
    CALLED("MPI_Comm_set_attr(comm=MPI_COMM_WORLD, comm_keyval=%d, attribute_val=%p)", key, (void *)data);
    call = CALLING();
    MPI_Comm_dup(world, &dup);
    CALLED_AT(call, "MPI_Comm_dup(comm=MPI_COMM_WORLD, newcomm=comm1)");
    call = CALLING();
    MPI_Comm_free(&dup);
    CALLED_AT(call, "MPI_Comm_free(comm=comm1)");
    MPI_Comm_split(world, 0, 0, &other);
    CALLED("MPI_Comm_split(comm=MPI_COMM_WORLD, color=0, key=0, newcomm=comm1)");
    MPI_Comm_free(&other);
    CALLED("MPI_Comm_free(comm=comm1)");
    call = CALLING();
    MPI_Comm_set_attr(world, key, NULL);
    CALLED_AT(call, "MPI_Comm_set_attr(comm=MPI_COMM_WORLD, comm_keyval=%d, attribute_val=NULL)", key);
    call = CALLING();
    MPI_Comm_delete_attr(world, key);
    CALLED_AT(call, "MPI_Comm_delete_attr(comm=MPI_COMM_WORLD, comm_keyval=%d)", key);

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &again, NULL);
    CALLED("MPI_Comm_create_keyval(comm_copy_attr_fn=MPI_COMM_NULL_COPY_FN, comm_delete_attr_fn=%p, comm_keyval=%d, extra_state=NULL)", (void *)delete, again);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_twice, &twice, NULL);
    CALLED("MPI_Comm_create_keyval(comm_copy_attr_fn=MPI_COMM_NULL_COPY_FN, comm_delete_attr_fn=%p, comm_keyval=%d, extra_state=NULL)", (void *)delete_twice, twice);
    MPI_Comm_set_attr(world, again, data);
    CALLED("MPI_Comm_set_attr(comm=MPI_COMM_WORLD, comm_keyval=%d, attribute_val=%p)", again, (void *)data);
    MPI_Comm_set_attr(MPI_COMM_SELF, twice, data);
    CALLED("MPI_Comm_set_attr(comm=MPI_COMM_SELF, comm_keyval=%d, attribute_val=%p)", twice, (void *)data);
    call = CALLING();
    MPI_Comm_delete_attr(MPI_COMM_SELF, twice);
    CALLED_AT(call, "MPI_Comm_delete_attr(comm=MPI_COMM_SELF, comm_keyval=%d)", twice);

    MPI_Type_contiguous(3, MPI_INT, &type);
    CALLED("MPI_Type_contiguous(count=3, oldtype=MPI_INT, newtype=type1)");
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_of_type, &of_type, NULL);
    CALLED("MPI_Type_create_keyval(type_copy_attr_fn=MPI_TYPE_NULL_COPY_FN, type_delete_attr_fn=%p, type_keyval=%d, extra_state=NULL)", (void *)delete_of_type, of_type);
    MPI_Type_set_attr(type, of_type, data);
    CALLED("MPI_Type_set_attr(datatype=type1, type_keyval=%d, attribute_val=%p)", of_type, (void *)data);
    call = CALLING();
    MPI_Type_free(&type);
    CALLED_AT(call, "MPI_Type_free(datatype=type1)");
}

/* Freeing a type frees the next one inside its callback, which then makes another call. */
enum { DEEP = 50 };
static MPI_Datatype chain[DEEP];

static int free_next(MPI_Datatype type, int keyval, void *value, void *state)
{
    int level = (int)((MPI_Datatype *)value - chain), call, size;

    if (level + 1 < DEEP) {
        call = CALLING();
        MPI_Type_free(&chain[level + 1]);
        CALLED_AT(call, "MPI_Type_free(datatype=type%d)", level + 2);
    }
    MPI_Type_size(type, &size);
    CALLED("MPI_Type_size(datatype=type%d, size=4)", level + 1);
    return MPI_SUCCESS;
}

static void deep(void)
{
    int call, keyval;

    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, free_next, &keyval, NULL);
    CALLED("MPI_Type_create_keyval(type_copy_attr_fn=MPI_TYPE_NULL_COPY_FN, type_delete_attr_fn=%p, type_keyval=%d, extra_state=NULL)", (void *)free_next, keyval);
    for (int i = 0; i < DEEP; i++) {
        MPI_Type_dup(MPI_INT, &chain[i]);
        CALLED("MPI_Type_dup(oldtype=MPI_INT, newtype=type%d)", i + 1);
        MPI_Type_set_attr(chain[i], keyval, &chain[i]);
        CALLED("MPI_Type_set_attr(datatype=type%d, type_keyval=%d, attribute_val=%p)", i + 1, keyval, (void *)&chain[i]);
    }
    call = CALLING();
    MPI_Type_free(&chain[0]);
    CALLED_AT(call, "MPI_Type_free(datatype=type1)");
}

/* --- error handlers --- */

static void handle(MPI_Comm *comm, int *code, ...)
{
    int class;

    MPI_Error_class(*code, &class);
    CALLED("MPI_Error_class(errorcode=_, errorclass=MPI_ERR_RANK)");
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);
    MPI_Comm_rank(*comm, &result);
}

static void handle_win(MPI_Win *win, int *code, ...)
{
    CALLED("MPI_Error_class(errorcode=MPI_ERR_OTHER, errorclass=MPI_ERR_OTHER)");
    MPI_Error_class(*code, &result);
}

static void error_handlers(void)
{
    MPI_Errhandler handler, of_win, was;
    MPI_Win win;
    int call, code;

    MPI_Comm_create_errhandler(handle, &handler);
    CALLED("MPI_Comm_create_errhandler(comm_errhandler_fn=%p, errhandler=errhandler1)", (void *)handle);
    MPI_Comm_set_errhandler(world, handler);
    CALLED("MPI_Comm_set_errhandler(comm=MPI_COMM_WORLD, errhandler=errhandler1)");
    MPI_Comm_get_errhandler(world, &was);
    CALLED("MPI_Comm_get_errhandler(comm=MPI_COMM_WORLD, errhandler=errhandler1)");
    MPI_Errhandler_free(&was);
    CALLED("MPI_Errhandler_free(errhandler=errhandler1)");
    call = CALLING();
    /* MPICH 5 returns success when a handler has dealt with the error. */
    code = MPI_Send(data, 1, MPI_INT, 55, 0, world);
    CALLED_AT(call, "MPI_Send(buf=%p, count=1, datatype=MPI_INT, dest=55, tag=0, comm=MPI_COMM_WORLD) = %s", (void *)data, code == MPI_SUCCESS ? "SUCCESS" : "ERR_RANK");
    call = CALLING();
    MPI_Comm_call_errhandler(world, MPI_ERR_RANK);
    CALLED_AT(call, "MPI_Comm_call_errhandler(comm=MPI_COMM_WORLD, errorcode=MPI_ERR_RANK)");
    MPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL);
    CALLED("MPI_Comm_set_errhandler(comm=MPI_COMM_WORLD, errhandler=MPI_ERRORS_ARE_FATAL)");
    MPI_Win_create_errhandler(handle_win, &of_win);
    CALLED("MPI_Win_create_errhandler(win_errhandler_fn=%p, errhandler=errhandler2)", (void *)handle_win);
    MPI_Errhandler_free(&handler);
    CALLED("MPI_Errhandler_free(errhandler=errhandler1)");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &win);
    CALLED("MPI_Win_create_dynamic(info=MPI_INFO_NULL, comm=MPI_COMM_SELF, win=win1)");
    MPI_Win_set_errhandler(win, of_win);
    CALLED("MPI_Win_set_errhandler(win=win1, errhandler=errhandler2)");
    call = CALLING();
    MPI_Win_call_errhandler(win, MPI_ERR_OTHER);
    CALLED_AT(call, "MPI_Win_call_errhandler(win=win1, errorcode=MPI_ERR_OTHER)");
    MPI_Errhandler_free(&of_win);
    CALLED("MPI_Errhandler_free(errhandler=errhandler2)");
    MPI_Win_free(&win);
    CALLED("MPI_Win_free(win=win1)");
}

/* --- generalised requests --- */

static int query(void *state, MPI_Status *status)
{
    memset(status, 0, sizeof *status);
    status->MPI_SOURCE = 3;
    status->MPI_TAG = 4;
    MPI_Status_set_elements(status, MPI_INT, 5);
    CALLED("MPI_Status_set_elements(status={source=3, tag=4, bytes=0}→{source=3, tag=4, bytes=20}, datatype=MPI_INT, count=5)");
    CALLED("MPI_Status_set_cancelled(status={source=3, tag=4, bytes=20}, flag=false)");
    return MPI_Status_set_cancelled(status, 0);
}

static int release(void *state)
{
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);
    return MPI_Comm_rank(world, &result);
}

static int cancel(void *state, int complete)
{
    MPI_Request *request = (MPI_Request *)state;

    if (complete)
        return MPI_SUCCESS;
    CALLED("MPI_Grequest_complete(request=r1)");
    return MPI_Grequest_complete(*request);
}

static void generalised_requests(void)
{
    MPI_Request request;
    MPI_Status status;
    int call, flag;

    for (int round = 0; round < 2; round++) {
        MPI_Grequest_start(query, release, cancel, &request, &request);
        CALLED("MPI_Grequest_start(query_fn=%p, free_fn=%p, cancel_fn=%p, extra_state=%p, request=r1)", (void *)query, (void *)release, (void *)cancel, (void *)&request);
        MPI_Test(&request, &flag, &status);
        CALLED("MPI_Test(request=r1, flag=false, status=unset)");
        if (round == 0) {
            MPI_Grequest_complete(request);
            CALLED("MPI_Grequest_complete(request=r1)");
            call = CALLING();
            MPI_Request_get_status(request, &flag, &status);
            CALLED_AT(call, "MPI_Request_get_status(request=r1, flag=true, status={source=3, tag=4, bytes=20})");
        } else {
            call = CALLING();
            MPI_Cancel(&request);
            CALLED_AT(call, "MPI_Cancel(request=r1)");
        }
        call = CALLING();
        MPI_Wait(&request, &status);
        CALLED_AT(call, "MPI_Wait(request=r1, status={source=3, tag=4, bytes=20})");
    }
}

int main(void)
{
    int call;

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
    /* On one machine these do not work. */
    setenv("OMPI_MCA_osc", "^rdma,ucx", 0);
#endif
    MPI_Init(NULL, NULL);
    CALLED("MPI_Init(argc=NULL, argv=NULL)");
    MPI_Comm_rank(world, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);

    operations();
    attributes();
    deep();
    error_handlers();
    generalised_requests();

    MPI_Comm_set_attr(MPI_COMM_SELF, key, data);
    CALLED("MPI_Comm_set_attr(comm=MPI_COMM_SELF, comm_keyval=%d, attribute_val=%p)", key, (void *)data);
    call = CALLING();
    MPI_Finalize();
    CALLED_AT(call, "MPI_Finalize()");
    expect_print(rank);
    return 0;
}
