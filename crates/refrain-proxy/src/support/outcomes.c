/* Enforces recorded outcomes.
 *
 * A library between the program and MPI: it defines the functions whose results MPI decides. If the program has
 * announced an outcome, they make it happen: a receive from any source receives from the recorded one,
 * MPI_Waitany waits for the request that completed first, a test that found nothing finds nothing. A tracer that is
 * loaded before this library records the calls as the program made them. */
#include "support.h"

static _Thread_local const struct outcome *expected;

void expect(const struct outcome *o)
{
    expected = o;
}

void expect_nothing(void)
{
    static const struct outcome nothing = {0, 0, ANY_OUTCOME, ANY_OUTCOME, 0, 0};
    expected = &nothing;
}

const struct outcome *next_outcome(struct outcomes *o, const long *first, long width)
{
    if (!o->next) {
        o->next = first;
        o->left = first[0];
    } else if (o->left == 0) {
        o->next += 1 + width;
        o->left = o->next[0];
    }
    o->left--;
    return (const struct outcome *)(o->next + 1);
}

static const struct outcome *take(void)
{
    const struct outcome *o = expected;
    expected = NULL;
    return o;
}

/* The source and tag that an outcome asks for. */
static int source_of(const struct outcome *o, int source)
{
    return o && o->source != ANY_OUTCOME ? (int)o->source : source;
}

static int tag_of(const struct outcome *o, int tag)
{
    return o && o->tag != ANY_OUTCOME ? (int)o->tag : tag;
}

static int is_flag(const struct outcome *o, int flag)
{
    return o && o->found == flag;
}

MPI_Status *status_of(const long *fields)
{
    static _Thread_local MPI_Status status;
    status.MPI_SOURCE = (int)fields[0];
    status.MPI_TAG = (int)fields[1];
    status.MPI_ERROR = MPI_SUCCESS;
    PMPI_Status_set_elements_x(&status, MPI_BYTE, fields[2] > 0 ? fields[2] : 0);
    PMPI_Status_set_cancelled(&status, (int)fields[3]);
    return &status;
}

/* These are only here so that a tracer knows this library from the beginning: calls of its own are not the
 * program's. */
int MPI_Init(int *argc, char ***argv)
{
    return PMPI_Init(argc, argv);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return PMPI_Init_thread(argc, argv, required, provided);
}

static _Thread_local void *attribute;
static _Thread_local int is_set = -1;

void expect_attribute(int flag, void *value)
{
    is_set = flag;
    attribute = value;
}

/* The attribute as it was recorded: what copies of it are is up to callbacks of the traced program. */
static int recorded(int result, void *value, int *flag)
{
    if (is_set >= 0 && result == MPI_SUCCESS) {
        *flag = is_set;
        if (is_set)
            *(void **)value = attribute;
    }
    is_set = -1;
    return result;
}

int MPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag)
{
    return recorded(PMPI_Comm_get_attr(comm, keyval, value, flag), value, flag);
}

int MPI_Type_get_attr(MPI_Datatype type, int keyval, void *value, int *flag)
{
    return recorded(PMPI_Type_get_attr(type, keyval, value, flag), value, flag);
}

int MPI_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag)
{
    return recorded(PMPI_Win_get_attr(win, keyval, value, flag), value, flag);
}

int MPI_Attr_get(MPI_Comm comm, int keyval, void *value, int *flag)
{
    return recorded(PMPI_Comm_get_attr(comm, keyval, value, flag), value, flag);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    const struct outcome *o = take();
    return PMPI_Recv(buf, count, type, source_of(o, source), tag_of(o, tag), comm, status);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    const struct outcome *o = take();
    return PMPI_Irecv(buf, count, type, source_of(o, source), tag_of(o, tag), comm, request);
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                 MPI_Comm comm, MPI_Status *status)
{
    const struct outcome *o = take();
    return PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                         source_of(o, source), tag_of(o, recvtag), comm, status);
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                         int recvtag, MPI_Comm comm, MPI_Status *status)
{
    const struct outcome *o = take();
    return PMPI_Sendrecv_replace(buf, count, type, dest, sendtag, source_of(o, source),
                                 tag_of(o, recvtag), comm, status);
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    const struct outcome *o = take();
    return PMPI_Probe(source_of(o, source), tag_of(o, tag), comm, status);
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    const struct outcome *o = take();
    if (is_flag(o, 1)) {
        *flag = 1;
        return PMPI_Probe(source_of(o, source), tag_of(o, tag), comm, status);
    }
    int result = PMPI_Iprobe(source, tag, comm, flag, status);
    if (is_flag(o, 0))
        *flag = 0;
    return result;
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    const struct outcome *o = take();
    return PMPI_Mprobe(source_of(o, source), tag_of(o, tag), comm, message, status);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status)
{
    const struct outcome *o = take();
    if (is_flag(o, 1)) {
        *flag = 1;
        return PMPI_Mprobe(source_of(o, source), tag_of(o, tag), comm, message, status);
    }
    if (is_flag(o, 0)) {
        *flag = 0;
        return PMPI_Iprobe(source, tag, comm, &(int){0}, MPI_STATUS_IGNORE);
    }
    return PMPI_Improbe(source, tag, comm, flag, message, status);
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    const struct outcome *o = take();
    if (o && o->count == 1 && o->indices[0] < count) {
        *index = (int)o->indices[0];
        return PMPI_Wait(&requests[*index], status);
    }
    return PMPI_Waitany(count, requests, index, status);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    const struct outcome *o = take();
    if (is_flag(o, 1)) {
        *flag = 1;
        return PMPI_Wait(request, status);
    }
    if (is_flag(o, 0)) {
        int result = PMPI_Request_get_status(*request, flag, MPI_STATUS_IGNORE);
        *flag = 0;
        return result;
    }
    return PMPI_Test(request, flag, status);
}

static int nothing_yet(int count, MPI_Request requests[])
{
    int flag;
    return count > 0 ? PMPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE) : MPI_SUCCESS;
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    const struct outcome *o = take();
    if (is_flag(o, 0)) {
        *flag = 0;
        *index = MPI_UNDEFINED;
        return nothing_yet(count, requests);
    }
    if (is_flag(o, 1) && o->count == 1 && o->indices[0] < count) {
        *flag = 1;
        *index = (int)o->indices[0];
        return PMPI_Wait(&requests[*index], status);
    }
    return PMPI_Testany(count, requests, index, flag, status);
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    const struct outcome *o = take();
    if (is_flag(o, 0)) {
        *flag = 0;
        return nothing_yet(count, requests);
    }
    if (is_flag(o, 1)) {
        *flag = 1;
        return PMPI_Waitall(count, requests, statuses);
    }
    return PMPI_Testall(count, requests, flag, statuses);
}

static int complete(const struct outcome *o, int count, MPI_Request requests[], int *outcount,
                    int indices[], MPI_Status statuses[])
{
    int result = MPI_SUCCESS;
    *outcount = 0;
    for (long i = 0; i < o->count && o->indices[i] < count; i++) {
        MPI_Status *status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
        indices[i] = (int)o->indices[i];
        (*outcount)++;
        int error = PMPI_Wait(&requests[indices[i]], status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = error;
        if (error != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
    }
    return result;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *outcount, int indices[],
                 MPI_Status statuses[])
{
    const struct outcome *o = take();
    if (o && o->count > 0)
        return complete(o, count, requests, outcount, indices, statuses);
    return PMPI_Waitsome(count, requests, outcount, indices, statuses);
}

int MPI_Testsome(int count, MPI_Request requests[], int *outcount, int indices[],
                 MPI_Status statuses[])
{
    const struct outcome *o = take();
    if (o && o->count > 0)
        return complete(o, count, requests, outcount, indices, statuses);
    if (is_flag(o, 0)) {
        *outcount = 0;
        return nothing_yet(count, requests);
    }
    return PMPI_Testsome(count, requests, outcount, indices, statuses);
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    const struct outcome *o = take();
    int result;
    do
        result = PMPI_Request_get_status(request, flag, status);
    while (result == MPI_SUCCESS && is_flag(o, 1) && !*flag);
    if (is_flag(o, 0))
        *flag = 0;
    return result;
}

int MPI_Win_test(MPI_Win win, int *flag)
{
    const struct outcome *o = take();
    if (is_flag(o, 1)) {
        *flag = 1;
        return PMPI_Win_wait(win);
    }
    if (is_flag(o, 0)) {
        *flag = 0;
        return MPI_SUCCESS;
    }
    return PMPI_Win_test(win, flag);
}

#if HAS_SESSIONS
int MPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session)
{
    return PMPI_Session_init(info, errhandler, session);
}

int MPI_Parrived(MPI_Request request, int partition, int *flag)
{
    const struct outcome *o = take();
    int result;
    do
        result = PMPI_Parrived(request, partition, flag);
    while (result == MPI_SUCCESS && is_flag(o, 1) && !*flag);
    if (is_flag(o, 0))
        *flag = 0;
    return result;
}
#endif

#if HAS_MPI_4
int MPI_Recv_c(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
               MPI_Status *status)
{
    const struct outcome *o = take();
    return PMPI_Recv_c(buf, count, type, source_of(o, source), tag_of(o, tag), comm, status);
}

int MPI_Irecv_c(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                MPI_Request *request)
{
    const struct outcome *o = take();
    return PMPI_Irecv_c(buf, count, type, source_of(o, source), tag_of(o, tag), comm, request);
}

int MPI_Sendrecv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                   int sendtag, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source,
                   int recvtag, MPI_Comm comm, MPI_Status *status)
{
    const struct outcome *o = take();
    return PMPI_Sendrecv_c(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                           source_of(o, source), tag_of(o, recvtag), comm, status);
}

int MPI_Sendrecv_replace_c(void *buf, MPI_Count count, MPI_Datatype type, int dest, int sendtag,
                           int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    const struct outcome *o = take();
    return PMPI_Sendrecv_replace_c(buf, count, type, dest, sendtag, source_of(o, source),
                                   tag_of(o, recvtag), comm, status);
}
#endif
