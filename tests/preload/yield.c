/*
 * Lets MPICH's waiting ranks give up the processor.
 *
 * MPICH polls without pause while it waits. With more ranks than cores, the rank that
 * all others wait for runs only when the time slices of the others end, so an
 * Allreduce with 8 ranks on 2 cores takes 25 ms. Preloaded into the ranks, this
 * library yields after every poll of UCX that found nothing, and the same
 * Allreduce takes about 25 microseconds.
 *
 * For tests and demonstrations only: `scripts/mpi` preloads it, `scripts/setup.sh`
 * builds it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>

typedef unsigned progress_fn(void *worker);

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
