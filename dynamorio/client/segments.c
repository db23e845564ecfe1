/* Segments: modules, stacks, and the program's allocations. Frees are not announced: a segment exists
 * until another one overlaps it. */
#include "client.h"

void
segment_begin(uint32_t kind, uint32_t owner, uint64_t base, uint64_t size)
{
    struct refrain_segment record = { { REFRAIN_RECORD_SEGMENT, sizeof(record) },
                                      kind, owner, base, size };
    ledger_put(&record.head);
}

/* ---- stacks ---- */

#define MAIN_STACK (8ull << 20)

void
segment_of_stack(thread_t *thread, uint64_t stack, uint64_t base, uint64_t size)
{
    if (size == 0) {
        byte *start;
        size_t bytes;
        uint protection;
        if (!dr_query_memory((byte *)stack, &start, &bytes, &protection))
            return;
        base = (uint64_t)start;
        size = bytes;
        if (thread->number == 0 && size < MAIN_STACK) { /* it grows downwards */
            base = base + size - MAIN_STACK;
            size = MAIN_STACK;
        }
    }
    segment_begin(REFRAIN_SEGMENT_STACK, thread->number, base, size);
}

/* ---- allocations ---- */

/* Which arguments hold the size. */
typedef enum {
    SIZE_FIRST,  /* malloc(size), operator new(size, ...) */
    SIZE_SECOND, /* realloc(old, size), memalign(alignment, size), mmap(address, size) */
    PRODUCT,     /* calloc(count, size) */
    PRODUCT_2,   /* reallocarray(old, count, size) */
    INDIRECT     /* posix_memalign(where, alignment, size) */
} form_t;

typedef struct {
    const char *name;
    form_t form;
    uint32_t kind;
} allocator_t;

static const allocator_t allocators[] = {
    { "malloc", SIZE_FIRST, REFRAIN_SEGMENT_HEAP },
    { "calloc", PRODUCT, REFRAIN_SEGMENT_HEAP },
    { "realloc", SIZE_SECOND, REFRAIN_SEGMENT_HEAP },
    { "reallocarray", PRODUCT_2, REFRAIN_SEGMENT_HEAP },
    { "memalign", SIZE_SECOND, REFRAIN_SEGMENT_HEAP },
    { "aligned_alloc", SIZE_SECOND, REFRAIN_SEGMENT_HEAP },
    { "posix_memalign", INDIRECT, REFRAIN_SEGMENT_HEAP },
    { "valloc", SIZE_FIRST, REFRAIN_SEGMENT_HEAP },
    { "_Znwm", SIZE_FIRST, REFRAIN_SEGMENT_HEAP },
    { "_Znam", SIZE_FIRST, REFRAIN_SEGMENT_HEAP },
    { "_ZnwmRKSt9nothrow_t", SIZE_FIRST, REFRAIN_SEGMENT_HEAP },
    { "_ZnamRKSt9nothrow_t", SIZE_FIRST, REFRAIN_SEGMENT_HEAP },
    { "_ZnwmSt11align_val_t", SIZE_FIRST, REFRAIN_SEGMENT_HEAP },
    { "_ZnamSt11align_val_t", SIZE_FIRST, REFRAIN_SEGMENT_HEAP },
    { "mmap", SIZE_SECOND, REFRAIN_SEGMENT_MAPPING },
};

static uint64_t
asked_for(void *call, form_t form)
{
    switch (form) {
    case SIZE_FIRST: return (uint64_t)drwrap_get_arg(call, 0);
    case SIZE_SECOND: return (uint64_t)drwrap_get_arg(call, 1);
    case PRODUCT: return (uint64_t)drwrap_get_arg(call, 0) * (uint64_t)drwrap_get_arg(call, 1);
    case PRODUCT_2: return (uint64_t)drwrap_get_arg(call, 1) * (uint64_t)drwrap_get_arg(call, 2);
    case INDIRECT: return (uint64_t)drwrap_get_arg(call, 2);
    }
    return 0;
}

/* Only allocations by recorded code are segments, not those that libraries make for themselves. */
static void
at_allocation(void *call, void **data)
{
    thread_t *thread = this_thread();
    const allocator_t *allocator = *data;
    *data = NULL;
    if (thread == NULL || !is_recorded(drwrap_get_retaddr(call)))
        return;
    thread->asked = asked_for(call, allocator->form);
    thread->asked_where =
        allocator->form == INDIRECT ? (uint64_t *)drwrap_get_arg(call, 0) : NULL;
    *data = (void *)allocator;
}

static void
after_allocation(void *call, void *data)
{
    thread_t *thread = this_thread();
    const allocator_t *allocator = data;
    if (call == NULL || thread == NULL || allocator == NULL || thread->asked == 0)
        return;
    uint64_t base = (uint64_t)drwrap_get_retval(call);
    size_t read;
    if (allocator->form == INDIRECT &&
        (base != 0 || !dr_safe_read(thread->asked_where, sizeof(base), &base, &read)))
        return;
    if (base == 0 || base > (1ull << 62))
        return;
    ring_publish(thread, false);
    segment_begin(allocator->kind, thread->number, base, thread->asked);
}

void
segments_of_module(const module_data_t *module, uint32_t number)
{
    segment_begin(REFRAIN_SEGMENT_MODULE, number, (uint64_t)module->start,
                  module->end - module->start);
    for (size_t i = 0; i < sizeof(allocators) / sizeof(*allocators); i++) {
        app_pc function = symbol_address(module, allocators[i].name);
        if (function != NULL) {
            drwrap_wrap_ex(function, at_allocation, after_allocation, (void *)&allocators[i],
                           0);
        }
    }
}

void
segments_start(void)
{
    drwrap_set_global_flags(DRWRAP_NO_FRILLS);
}
