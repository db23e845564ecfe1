/* Memory, callbacks and computation of the generated program. */
#define _GNU_SOURCE
#include "support.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int rank;

static void stop(const char *why)
{
    fprintf(stderr, "proxy: %s\n", why);
    exit(2);
}

static long number_in(const char *const *names)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value)
            return atol(value);
    }
    return -1;
}

void proxy_start(int processes)
{
    /* MPI may not be asked yet: what it is asked depends on the rank. */
    static const char *const ranks[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "SLURM_PROCID", NULL};
    static const char *const sizes[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", NULL};
    long number = number_in(ranks), size = number_in(sizes);
    rank = number < 0 ? 0 : (int)number;
    if (number < 0)
        size = 1;
    if (size >= 0 && size != processes) {
        fprintf(stderr, "proxy: the trace has %d ranks, and this job %ld: start it with mpirun -n %d\n",
                processes, size, processes);
        exit(2);
    }
}

/* ---- Memory ---- */

static void give_back(struct segment *s)
{
    if (s->owned && s->kind == HEAP)
        free(s->owned);
    else if (s->owned && s->kind == MAPPED)
        munmap(s->owned, (size_t)s->bytes);
    s->owned = NULL;
}

void segment(struct segment *s, enum memory kind, long bytes)
{
    give_back(s);
    s->base = NULL;
    s->found = NULL;
    s->kind = kind;
    s->bytes = bytes > 0 ? bytes : 1;
}

void segment_at(struct segment *s, enum memory kind, void *memory, long lowest)
{
    give_back(s);
    s->kind = kind;
    s->base = (char *)((uintptr_t)memory - (uintptr_t)lowest);
    s->bytes = 1;
}

static _Thread_local void *last_released;

void release(struct segment *s)
{
    if (s->owned) {
        give_back(s);
        s->base = NULL;
    } else if (s->found) {
        last_released = s->found;
    }
}

void *released(void)
{
    return last_released;
}

void *address(struct segment *s, long offset)
{
    if (!s->base) {
        if (s->kind == MAPPED)
            s->owned = mmap(NULL, (size_t)s->bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        else
            s->owned = calloc(1, (size_t)(s->bytes > 0 ? s->bytes : 1));
        if (!s->owned || s->owned == MAP_FAILED)
            stop("there is no memory left");
        s->base = s->owned;
    }
    return (void *)((uintptr_t)s->base + (uintptr_t)offset);
}

void found(struct segment *s, void *at, long offset)
{
    if (s->owned || s->kind == STACK)
        return;
    s->found = at;
    s->base = (char *)((uintptr_t)at - (uintptr_t)offset);
}

char *keep(char *memory, size_t bytes)
{
    memset(memory, 0, bytes);
    return memory;
}

/* ---- Threads ---- */

static int threads;
static void (*const *functions)(void);
static pthread_t *started;
static atomic_int calling, finished;

void proxy_threads(int count, void (*const all[])(void))
{
    threads = count;
    functions = all;
}

static void *run(void *function)
{
    (*(void (*const *)(void))function)();
    finished++;
    return NULL;
}

void first_call(void)
{
    static _Thread_local int is_counted;
    if (!is_counted)
        calling++;
    is_counted = 1;
}

void start_threads(void)
{
    if (started)
        return;
    started = calloc((size_t)threads, sizeof *started);
    for (int i = 0; i < threads; i++) {
        /* Threads are numbered in the order of their first calls; a first call may wait for another thread. */
        struct timespec pause = {0, 200000};
        if (pthread_create(&started[i], NULL, run, (void *)(uintptr_t)&functions[i]))
            stop("cannot start a thread");
        for (int pauses = 0; calling <= i && pauses < 250; pauses++)
            nanosleep(&pause, NULL);
    }
}

void *made(void *object, size_t bytes)
{
    for (;;) {
        for (size_t i = 0; i < bytes; i++)
            if (((volatile char *)object)[i])
                return object;
        sched_yield();
    }
}

void *address_of_other(struct segment *s, long offset)
{
    while (!*(volatile long *)&s->bytes)
        sched_yield();
    return address(s, offset);
}

void await_threads(void)
{
    while (started && finished < threads)
        sched_yield();
}

void end_threads(void)
{
    finished++;
    for (int i = 0; started && i < threads; i++)
        pthread_join(started[i], NULL);
}

/* ---- Callbacks ---- */

static _Thread_local struct {
    int depth;
    void (*call)(void);
} inner[256];
static _Thread_local int from, to, level;
static _Thread_local int callback_result = MPI_SUCCESS;
static _Thread_local MPI_Status *current;

void callbacks_return(int code)
{
    callback_result = code;
}

MPI_Status *status_to_change(const long *fields)
{
    MPI_Status *status = status_of(fields);
    if (!current)
        return status;
    *current = *status;
    return current;
}

void inside(int depth, void (*call)(void))
{
    if (to == (int)(sizeof inner / sizeof *inner))
        stop("too many calls inside of one call");
    inner[to].depth = depth;
    inner[to++].call = call;
}

/* Makes the calls that the trace has inside of the current call. Those inside of one of them come before it. */
static void callback(void)
{
    int first = from, last = to;
    level++;
    for (int i = first; i < last; i++) {
        if (inner[i].depth != level)
            continue;
        from = first;
        to = i;
        inner[i].call();
        first = i + 1;
    }
    level--;
    from = to = level ? last : 0;
}

void proxy_user_fn(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)length, (void)type;
    callback();
}

int proxy_comm_copy_attr_fn(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)state;
    callback();
    *(void **)out = in;
    *flag = 1;
    return callback_result;
}

int proxy_comm_delete_attr_fn(MPI_Comm comm, int keyval, void *value, void *state)
{
    (void)comm, (void)keyval, (void)value, (void)state;
    callback();
    return callback_result;
}

int proxy_type_copy_attr_fn(MPI_Datatype type, int keyval, void *state, void *in, void *out,
                            int *flag)
{
    (void)type, (void)keyval, (void)state;
    callback();
    *(void **)out = in;
    *flag = 1;
    return callback_result;
}

int proxy_type_delete_attr_fn(MPI_Datatype type, int keyval, void *value, void *state)
{
    (void)type, (void)keyval, (void)value, (void)state;
    callback();
    return callback_result;
}

int proxy_win_copy_attr_fn(MPI_Win win, int keyval, void *state, void *in, void *out, int *flag)
{
    (void)win, (void)keyval, (void)state;
    callback();
    *(void **)out = in;
    *flag = 1;
    return callback_result;
}

int proxy_win_delete_attr_fn(MPI_Win win, int keyval, void *value, void *state)
{
    (void)win, (void)keyval, (void)value, (void)state;
    callback();
    return callback_result;
}

void proxy_comm_errhandler_fn(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    callback();
}

void proxy_file_errhandler_fn(MPI_File *file, int *code, ...)
{
    (void)file, (void)code;
    callback();
}

void proxy_win_errhandler_fn(MPI_Win *win, int *code, ...)
{
    (void)win, (void)code;
    callback();
}

int proxy_query_fn(void *state, MPI_Status *status)
{
    static const long fields[] = {MPI_UNDEFINED, MPI_UNDEFINED, 0, 0};
    (void)state;
    *status = *status_of(fields);
    current = status;
    callback();
    current = NULL;
    return callback_result;
}

int proxy_free_fn(void *state)
{
    (void)state;
    callback();
    return callback_result;
}

int proxy_cancel_fn(void *state, int complete)
{
    (void)state, (void)complete;
    callback();
    return callback_result;
}

int proxy_read_conversion_fn(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
                             void *state)
{
    (void)user, (void)type, (void)count, (void)file, (void)position, (void)state;
    callback();
    return callback_result;
}

int proxy_dtype_file_extent_fn(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    (void)type, (void)state;
    *extent = 8;
    callback();
    return callback_result;
}

#if HAS_MPI_4
void proxy_event_cb_function(MPI_T_event_instance event, MPI_T_event_registration registration,
                             MPI_T_cb_safety safety, void *user)
{
    (void)event, (void)registration, (void)safety, (void)user;
}

void proxy_dropped_cb_function(MPI_Count count, MPI_T_event_registration registration, int source,
                               MPI_T_cb_safety safety, void *user)
{
    (void)count, (void)registration, (void)source, (void)safety, (void)user;
}

void proxy_free_cb_function(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user)
{
    (void)registration, (void)safety, (void)user;
}

void proxy_user_fn_c(void *in, void *inout, MPI_Count *length, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)length, (void)type;
    callback();
}

int proxy_read_conversion_fn_c(void *user, MPI_Datatype type, MPI_Count count, void *file,
                               MPI_Offset position, void *state)
{
    (void)user, (void)type, (void)count, (void)file, (void)position, (void)state;
    callback();
    return callback_result;
}
#endif

#if HAS_SESSIONS
void proxy_session_errhandler_fn(MPI_Session *session, int *code, ...)
{
    (void)session, (void)code;
    callback();
}
#endif

/* ---- Files ---- */

static char *in_folder(const char *inner, const char *name)
{
    static _Thread_local char path[4096];
    const char *folder = getenv("PROXY_SCRATCH");
    const char *last = strrchr(name, '/');
    if (!folder)
        folder = "scratch";
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/%s%s", folder, inner, last ? last + 1 : name);
    return path;
}

char *scratch(const char *name)
{
    return in_folder("", name);
}

char *existing(const char *name)
{
    char *path = in_folder("", name);
    int file = open(path, O_CREAT | O_RDWR, 0666);
    struct stat facts;
    /* Long enough for what the program reads of it. */
    if (file >= 0 && fstat(file, &facts) == 0 && facts.st_size == 0 && ftruncate(file, 1L << 30))
        stop("cannot make a file");
    close(file);
    return path;
}

char *missing(const char *name)
{
    return in_folder("missing/", name);
}

/* ---- Formulas ---- */

void *sequence(size_t size, long count, long first, long step)
{
    static _Thread_local struct known {
        struct known *next;
        size_t size;
        long count, first, step;
        long long numbers[];
    } *all;
    struct known *one = all;
    while (one && (one->size != size || one->count != count || one->first != first || one->step != step))
        one = one->next;
    if (one)
        return one->numbers;
    one = malloc(sizeof *one + (size_t)count * size);
    if (!one)
        stop("there is no memory left");
    *one = (struct known){all, size, count, first, step};
    for (long i = 0; i < count; i++) {
        if (size == sizeof(int))
            ((int *)one->numbers)[i] = (int)(first + i * step);
        else
            ((long long *)one->numbers)[i] = first + i * step;
    }
    all = one;
    return one->numbers;
}

/* ---- Computation ---- */

void compute(double nanoseconds)
{
#if defined COMPUTE_SLEEP
    struct timespec time = {(time_t)(nanoseconds / 1e9), 0};
    time.tv_nsec = (long)(nanoseconds - 1e9 * (double)time.tv_sec);
    nanosleep(&time, NULL);
#elif defined COMPUTE_SPIN
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = 1e9 * (double)now.tv_sec + (double)now.tv_nsec + nanoseconds;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (1e9 * (double)now.tv_sec + (double)now.tv_nsec < end);
#else
    (void)nanoseconds;
#endif
}
