/* What the generated program is made of: memory, outcomes, callbacks. */
#ifndef PROXY_H
#define PROXY_H

#include <mpi.h>
#include <stddef.h>

/* Open MPI 5 has sessions and partitioned messages, and no large counts. */
#define HAS_MPI_4 (MPI_VERSION >= 4)
#if HAS_MPI_4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAS_SESSIONS 1
#else
#define HAS_SESSIONS 0
#endif

/* The rank in MPI_COMM_WORLD of this process. */
extern int rank;

/* Finds the rank of this process, and stops unless there are so many processes. */
void proxy_start(int processes);

/* ---- Memory ----
 * Buffers are a segment of memory and an offset in it, as in the trace. */

enum memory { HEAP, MAPPED, STATIC, STACK };

struct segment {
    char *base;  /* the address of offset 0 */
    void *owned; /* what has to be freed */
    void *found; /* what MPI returned */
    long bytes;
    enum memory kind;
};

/* The segment came into use. Its memory is allocated when it is first asked for. */
void segment(struct segment *s, enum memory kind, long bytes);
/* The same of memory that is there: offset `lowest` is its beginning. */
void segment_at(struct segment *s, enum memory kind, void *memory, long lowest);
/* The program freed the segment. */
void release(struct segment *s);
/* An address in a segment. */
void *address(struct segment *s, long offset);
/* MPI returned an address of the segment. */
void found(struct segment *s, void *at, long offset);
/* The memory of MPI that was released last: MPI_Free_mem comes after the release. */
void *released(void);

/* The memory of a stack frame that lasts as long as the thread. */
char *keep(char *memory, size_t bytes);

/* ---- Threads ---- */

/* The functions of the threads other than the first. */
void proxy_threads(int count, void (*const functions[])(void));
/* Starts them, one after the other. */
void start_threads(void);
/* This thread has made its first call. */
void first_call(void);
/* Waits until another thread has made an object. */
void *made(void *object, size_t bytes);
#define OTHER(object) (*(__typeof__(object) *)made(&(object), sizeof(object)))
/* An address in a segment that another thread used first. */
void *address_of_other(struct segment *s, long offset);
/* Waits until only this thread is left. */
void await_threads(void);
/* The first thread is done: waits for the others. */
void end_threads(void);

/* ---- Outcomes ----
 * What MPI decided when the trace was recorded: which message a receive gets, which requests complete,
 * how often a test finds nothing. outcomes.c enforces it, in the next call of the thread. */

#define ANY_OUTCOME (-1000000000L)

struct outcome {
    long failed_polls; /* calls of the same kind that find nothing, before this one */
    long found;        /* the flag, or ANY_OUTCOME */
    long source, tag;  /* of the message, or ANY_OUTCOME */
    long ignores_status; /* whether the program passed MPI_STATUS_IGNORE */
    long count;        /* completed requests */
    long indices[];    /* of these */
};

/* The outcomes of a call site: `times`, then an outcome in `width` numbers, again and again. */
struct outcomes {
    const long *next;
    long left;
    long width;
};

/* The next outcome; `first` is where the outcomes of this rank begin. */
const struct outcome *next_outcome(struct outcomes *o, const long *first, long width);
/* The next call has this outcome. */
void expect(const struct outcome *o);
/* The next call finds nothing. */
void expect_nothing(void);
/* The next call gets this attribute. */
void expect_attribute(int flag, void *value);
/* A status with these contents: source, tag, bytes, whether it was cancelled. */
MPI_Status *status_of(const long *fields);

/* ---- Formulas ---- */

/* An array of integers of that size: the first, and the step from one to the next. */
void *sequence(size_t size, long count, long first, long step);

static inline long lowest_bit(long x) { return x & -x; }
static inline long highest_bit(long x)
{
    long bit = x > 0;
    while (x >>= 1)
        bit <<= 1;
    return bit;
}

/* ---- Callbacks ---- */

/* The next call invokes a callback, which makes this call. */
void inside(int depth, void (*call)(void));
/* What callbacks return from now on. */
void callbacks_return(int code);
/* The status that a callback has to fill in, with these contents; outside of callbacks, any status. */
MPI_Status *status_to_change(const long *fields);

void proxy_user_fn(void *in, void *inout, int *length, MPI_Datatype *type);
int proxy_comm_copy_attr_fn(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag);
int proxy_comm_delete_attr_fn(MPI_Comm comm, int keyval, void *value, void *state);
int proxy_type_copy_attr_fn(MPI_Datatype type, int keyval, void *state, void *in, void *out,
                            int *flag);
int proxy_type_delete_attr_fn(MPI_Datatype type, int keyval, void *value, void *state);
int proxy_win_copy_attr_fn(MPI_Win win, int keyval, void *state, void *in, void *out, int *flag);
int proxy_win_delete_attr_fn(MPI_Win win, int keyval, void *value, void *state);
void proxy_comm_errhandler_fn(MPI_Comm *comm, int *code, ...);
void proxy_file_errhandler_fn(MPI_File *file, int *code, ...);
void proxy_win_errhandler_fn(MPI_Win *win, int *code, ...);
int proxy_query_fn(void *state, MPI_Status *status);
int proxy_free_fn(void *state);
int proxy_cancel_fn(void *state, int complete);
int proxy_read_conversion_fn(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
                             void *state);
int proxy_dtype_file_extent_fn(MPI_Datatype type, MPI_Aint *extent, void *state);
#if HAS_MPI_4
void proxy_event_cb_function(MPI_T_event_instance event, MPI_T_event_registration registration,
                             MPI_T_cb_safety safety, void *user);
void proxy_dropped_cb_function(MPI_Count count, MPI_T_event_registration registration, int source,
                               MPI_T_cb_safety safety, void *user);
void proxy_free_cb_function(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user);
void proxy_user_fn_c(void *in, void *inout, MPI_Count *length, MPI_Datatype *type);
int proxy_read_conversion_fn_c(void *user, MPI_Datatype type, MPI_Count count, void *file,
                               MPI_Offset position, void *state);
#endif
#if HAS_SESSIONS
void proxy_session_errhandler_fn(MPI_Session *session, int *code, ...);
#endif

/* ---- Files ---- */

/* The name of a file in the scratch folder. */
char *scratch(const char *name);
/* The same of a file that was there before the program. */
char *existing(const char *name);
/* The same of a file in a folder that does not exist. */
char *missing(const char *name);

/* ---- Computation ---- */

/* Takes so many nanoseconds, if the program was built with COMPUTE=spin or COMPUTE=sleep. */
void compute(double nanoseconds);

#endif
