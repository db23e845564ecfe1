/*
 * Lets waiting ranks give up the processor.
 *
 * MPICH polls without pause while it waits. With more ranks than cores, the rank that
 * all others wait for runs only when the time slices of the others end, so an
 * Allreduce with 8 ranks on 2 cores takes 25 ms. Preloaded into the ranks, this
 * library yields after every poll of UCX that found nothing, and the same
 * Allreduce takes about 25 microseconds. Open MPI yields by itself.
 *
 * Yielding still takes all of the cores from other processes. With
 * REFRAIN_RANKS_NAP=1, a rank that yields again and again sleeps now and then:
 * beside other work, a program of many small messages takes a tenth of the time.
 *
 * For tests and demonstrations only: `scripts/mpi` preloads it, `scripts/setup.sh`
 * builds it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* After so many yields in a row, every fourth is a nap, which takes 50 microseconds at least. */
enum { IN_A_ROW = 30, ONE_OF = 4, NANOSECONDS = 1000 };
/* Yields that are further apart are not in a row: something happened between them. */
enum { APART = 20000 };

typedef unsigned progress_fn(void *worker);

static int naps(void)
{
    static int naps = -1;
    if (naps < 0) {
        const char *value = getenv("REFRAIN_RANKS_NAP");
        naps = value != NULL && strcmp(value, "1") == 0;
    }
    return naps;
}

/* Not clock_gettime: a recording would contain what it returns. */
static long long now(void)
{
    struct timespec now = {0, 0};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* As the function of the C library, which is no cancellation point and leaves errno alone. */
int sched_yield(void)
{
    static _Thread_local unsigned in_a_row;
    static _Thread_local long long last;
    int error = errno;

    if (naps()) {
        in_a_row = now() - last < APART ? in_a_row + 1 : 0;
        if (in_a_row >= IN_A_ROW && in_a_row % ONE_OF == 0) {
            struct timespec nap = {0, NANOSECONDS};
            syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, NULL);
        } else {
            syscall(SYS_sched_yield);
        }
        last = now();
    } else {
        syscall(SYS_sched_yield);
    }
    errno = error;
    return 0;
}

unsigned ucp_worker_progress(void *worker)
{
    /* Not RTLD_NEXT: a Python module loads libmpi, and UCX with it, in a local scope. */
    static progress_fn *real;
    if (real == NULL)
        real = (progress_fn *) dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD),
                                     "ucp_worker_progress");

    unsigned progressed = real(worker);
    if (progressed == 0)
        sched_yield();
    return progressed;
}
