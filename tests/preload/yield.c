/*
 * Lets MPICH's waiting ranks give up the processor.
 *
 * MPICH polls without pause while it waits. With more ranks than cores, the rank that
 * all others wait for runs only when the time slices of the others end, so an
 * Allreduce with 8 ranks on 2 cores takes 25 ms. Preloaded into the ranks, this
 * library yields after every poll of UCX that found nothing, and the same
 * Allreduce takes about 25 microseconds. A rank that has waited for milliseconds
 * also sleeps now and then, which leaves the cores to other processes; a program that
 * polls without a pause hardly becomes slower by that.
 *
 * For tests and demonstrations only: `scripts/mpi` preloads it, `scripts/setup.sh`
 * builds it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <time.h>

/* After so many polls in a row that found nothing, one of so many sleeps for so long. */
enum { LONG = 2000, ONE_OF = 64, NANOSECONDS = 100000 };

typedef unsigned progress_fn(void *worker);

unsigned ucp_worker_progress(void *worker)
{
    /* Not RTLD_NEXT: a Python module loads libmpi, and UCX with it, in a local scope. */
    static progress_fn *real;
    static _Thread_local unsigned idle;
    if (real == NULL)
        real = (progress_fn *) dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD),
                                     "ucp_worker_progress");

    unsigned progressed = real(worker);
    if (progressed != 0) {
        idle = 0;
    } else if (++idle >= LONG && idle % ONE_OF == 0) {
        struct timespec nap = {0, NANOSECONDS};
        nanosleep(&nap, NULL);
    } else {
        sched_yield();
    }
    return progressed;
}
