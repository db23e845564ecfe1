/* When to record: from the entry of one function to the entry of another, or as the program says by
 * MPI_Pcontrol. It holds for all threads: each takes the slow path at its next record, and writes to
 * its ring or to scratch memory from then on. */
#include "client.h"

volatile int recording_wanted = 1;

static void
call_in(thread_t *thread)
{
    __atomic_store_n(&thread->slots[SLOT_LIMIT], 0, __ATOMIC_RELEASE);
}

static void
record(int wanted)
{
    if (recording_wanted == wanted)
        return;
    recording_wanted = wanted;
    threads_visit(call_in);
}

static void
at_from(void *call, void **data)
{
    record(1);
}

static void
at_until(void *call, void **data)
{
    record(0);
}

static void
at_pcontrol(void *call, void **data)
{
    record((int)(ptr_int_t)drwrap_get_arg(call, 0) != 0);
}

/* Fortran passes the level by reference. Its function may or may not call the C function. */
static void
at_fortran_pcontrol(void *call, void **data)
{
    int level;
    size_t read;
    if (dr_safe_read(drwrap_get_arg(call, 0), sizeof(level), &level, &read))
        record(level != 0);
}

static void
wrap(const module_data_t *module, const char *name, void (*at)(void *, void **))
{
    if (name[0] == '\0')
        return;
    app_pc function = symbol_address(module, name);
    if (function != NULL)
        drwrap_wrap_ex(function, at, NULL, NULL, 0);
}

void
window_of_module(const module_data_t *module)
{
    wrap(module, options.from, at_from);
    wrap(module, options.until, at_until);
    wrap(module, "MPI_Pcontrol", at_pcontrol);
    wrap(module, "mpi_pcontrol_", at_fortran_pcontrol);
}

void
window_start(void)
{
    recording_wanted = options.from[0] == '\0';
}
