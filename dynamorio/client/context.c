/* Stack signatures, kept per function by a shadow stack (ScalaMemTrace §4.1).
 *
 * A context is a node of the signature tree: the caller's context and the call site. Its number is
 * written to the stream of a thread before the first reference that has it.
 *
 * Every call in recorded code pushes a frame on the thread's shadow stack: the address of the return
 * address, and the new context. A return does nothing. A frame is dead when the stack pointer is
 * above its return address, whether by a return, an exception, `longjmp`, or a chain of tail calls.
 * Dead frames are removed before every call, and where code may be entered other than by its own
 * branches (plan.c).
 *
 * Each call site caches a few pairs of contexts. A pair is one word, so that threads can share it:
 * the caller's context in the upper half, the callee's in the lower half. Frames hold their context
 * in the upper half, too. So `pair ^ frame` is the new context if, and only if, its upper half is
 * 0. */
#include "client.h"
#include <sys/syscall.h>

static void *lock;
static hashtable_t sites;     /* from the address of a call to its call_site_t */
static hashtable_t children;  /* from (context, call) to the context */
static uint32_t root;
#define MOST_CONTEXTS (1u << 20)
static uint32_t context_count;

/* ---- the tree ---- */

static uint64_t
key_of(uint32_t context, uint64_t call)
{
    uint64_t key = (call ^ ((uint64_t)context << 40) ^ context) * 0x9e3779b97f4a7c15ull;
    return (key ^ (key >> 31)) | 1;
}

typedef struct child {
    struct child *next;
    uint32_t number;
} child_t;

static uint32_t
known_child(uint64_t key, uint32_t parent, uint64_t call)
{
    for (child_t *child = hashtable_lookup(&children, (void *)key); child != NULL;
         child = child->next) {
        const struct refrain_context *context = ledger_context(child->number);
        if (context->parent == parent && context->call == call)
            return child->number;
    }
    return 0;
}

/* A recursive call has the context that the recursion began in, so that the tree stays finite. */
static uint32_t
ancestor_with(uint32_t context, uint64_t call)
{
    while (context != root) {
        const struct refrain_context *node = ledger_context(context);
        if (node->call == call)
            return context;
        context = node->parent;
    }
    return 0;
}

static uint32_t
child_of(uint32_t parent, const call_site_t *site)
{
    uint32_t ancestor = ancestor_with(parent, site->call);
    if (ancestor != 0)
        return ancestor;
    uint64_t key = key_of(parent, site->call);
    uint32_t number = known_child(key, parent, site->call);
    if (number != 0)
        return number;
    if (context_count >= MOST_CONTEXTS)
        return parent;
    context_count++;
    number = ledger_add_context(parent, site->call, site->function);
    child_t *child = dr_global_alloc(sizeof(*child));
    child_t *first = hashtable_lookup(&children, (void *)key);
    *child = (child_t){ NULL, number };
    if (first == NULL) {
        hashtable_add(&children, (void *)key, child);
    } else {
        child->next = first->next;
        first->next = child;
    }
    return number;
}

/* ---- call sites ---- */

static call_site_t *page;
static uint32_t page_used;
#define PAGE_SITES (8192 / sizeof(call_site_t))

call_site_t *
call_site(instr_t *call)
{
    app_pc pc = instr_get_app_pc(call);
    dr_mutex_lock(lock);
    call_site_t *site = hashtable_lookup(&sites, pc);
    if (site == NULL) {
        if (page == NULL || page_used == PAGE_SITES) {
            page = dr_custom_alloc(NULL, DR_ALLOC_NON_HEAP | DR_ALLOC_CACHE_REACHABLE, 8192,
                                   DR_MEMPROT_READ | DR_MEMPROT_WRITE, NULL);
            page_used = 0;
        }
        site = &page[page_used++];
        for (int i = 0; i < SITE_PAIRS; i++)
            site->pairs[i] = ~0ull;
        site->call = place_of(pc);
        site->function = 0;
        if (instr_is_call_direct(call) && opnd_is_pc(instr_get_target(call)))
            site->function = place_of(opnd_get_pc(instr_get_target(call)));
        hashtable_add(&sites, pc, site);
    }
    dr_mutex_unlock(lock);
    return site;
}

/* ---- the shadow stack ---- */

static frame_t *
top_of(thread_t *thread)
{
    return (frame_t *)thread->slots[SLOT_FRAME];
}

uint32_t
thread_context(thread_t *thread)
{
    return (uint32_t)(top_of(thread)->context >> 32);
}

/* Removes dead frames; returns whether there were any. The lowest frame is never dead. */
static bool
bury(thread_t *thread, uint64_t stack)
{
    frame_t *top = top_of(thread);
    frame_t *old = top;
    while (top->stack < stack)
        top--;
    thread->slots[SLOT_FRAME] = (uint64_t)top;
    return top != old;
}

/* The slow path of a call: the caller's context is not cached, or there are dead frames, or the
 * shadow stack is full. The inline code tries again afterwards, and succeeds. */
void
context_of_call(void)
{
    thread_t *thread = this_thread();
    call_site_t *site = (call_site_t *)thread->slots[SLOT_ASK];
    bury(thread, thread->slots[SLOT_STACK]);
    frame_t *top = top_of(thread);
    if ((uint64_t)top >= thread->slots[SLOT_DEEP]) {
        /* Too deep: drop the older half, except the lowest frame. */
        uint32_t half = FRAMES / 2;
        memmove(thread->frames + 1, thread->frames + 1 + half,
                (FRAMES - 1 - half) * sizeof(frame_t));
        top -= half;
        thread->slots[SLOT_FRAME] = (uint64_t)top;
    }
    uint32_t caller = (uint32_t)(top->context >> 32);
    dr_mutex_lock(lock);
    uint32_t callee = child_of(caller, site);
    dr_mutex_unlock(lock);
    __atomic_store_n(&site->pairs[caller % SITE_PAIRS], (uint64_t)caller << 32 | callee,
                     __ATOMIC_RELEASE);
}

/* The slow path where code is entered with more than one dead frame. */
void
context_of_landing(void)
{
    thread_t *thread = this_thread();
    if (bury(thread, thread->slots[SLOT_STACK]))
        thread_put_context(thread, thread_context(thread));
}

void
contexts_walk(void)
{
    thread_t *thread = this_thread();
    uint64_t signature = 0;
    for (frame_t *frame = top_of(thread); frame > thread->frames; frame--)
        signature ^= ledger_context((uint32_t)(frame->context >> 32))->call;
    thread->signature = signature;
}

/* ---- room for shadow stacks ----
 *
 * The first threads get a slot in one mapping. Separate mappings would lie between the stacks of the
 * program's threads at random, which otherwise are evenly spaced. Unused pages take no memory. */

#define STACK_BYTES (FRAMES * sizeof(frame_t))
#define PLACES 64
static byte *places;
static uint64_t places_taken; /* a bit for each */

static frame_t *
take_frames(void)
{
    uint64_t taken = __atomic_load_n(&places_taken, __ATOMIC_RELAXED);
    while (places != NULL && ~taken != 0) {
        int place = __builtin_ctzll(~taken);
        if (__atomic_compare_exchange_n(&places_taken, &taken, taken | 1ull << place, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return (frame_t *)(places + place * STACK_BYTES);
    }
    return dr_raw_mem_alloc(STACK_BYTES, DR_MEMPROT_READ | DR_MEMPROT_WRITE, NULL);
}

static void
give_frames(frame_t *frames)
{
    uint64_t offset = (uint64_t)frames - (uint64_t)places;
    if (places == NULL || offset >= PLACES * STACK_BYTES) {
        dr_raw_mem_free(frames, STACK_BYTES);
        return;
    }
    system_call(SYS_madvise, (long)frames, STACK_BYTES, 4 /* MADV_DONTNEED */, 0, 0, 0);
    __atomic_fetch_and(&places_taken, ~(1ull << (offset / STACK_BYTES)), __ATOMIC_RELEASE);
}

void
contexts_begin_thread(thread_t *thread)
{
    thread->frames = take_frames();
    thread->frames[0] = (frame_t){ ~0ull, (uint64_t)root << 32 };
    thread->slots[SLOT_FRAME] = (uint64_t)thread->frames;
    thread->slots[SLOT_DEEP] = (uint64_t)(thread->frames + FRAMES - 1);
}

void
contexts_end_thread(thread_t *thread)
{
    if (thread->frames != NULL)
        give_frames(thread->frames);
    thread->frames = NULL;
}

static void
free_chain(void *chain)
{
    for (child_t *child = chain; child != NULL;) {
        child_t *next = child->next;
        dr_global_free(child, sizeof(*child));
        child = next;
    }
}

void
contexts_start(void)
{
    lock = dr_mutex_create();
    hashtable_init_ex(&sites, 10, HASH_INTPTR, false, false, NULL, NULL, NULL);
    hashtable_init_ex(&children, 10, HASH_INTPTR, false, false, free_chain, NULL, NULL);
    root = ledger_add_context(REFRAIN_NO_CONTEXT, 0, 0);
    places = dr_raw_mem_alloc(PLACES * STACK_BYTES, DR_MEMPROT_READ | DR_MEMPROT_WRITE, NULL);
}

void
contexts_stop(void)
{
    hashtable_delete(&sites);
    hashtable_delete(&children);
    dr_mutex_destroy(lock);
    if (places != NULL)
        dr_raw_mem_free(places, PLACES * STACK_BYTES);
    places = NULL;
}
