/* The rings: publishing words, and waiting for the compressor. */
#include "client.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static volatile int told;

/* Whether the compressor has stopped. Once it has, no thread waits for it. */
bool
compressor_is_gone(void)
{
    struct refrain_control *shared = control;
    if (!connected)
        return true;
    uint32_t pid = __atomic_load_n(&shared->compressor_pid, __ATOMIC_ACQUIRE);
    bool gone = pid != 0 && system_call(SYS_kill, pid, 0, 0, 0, 0, 0) == -3 /* ESRCH */;
    uint32_t state = __atomic_load_n(&shared->state, __ATOMIC_ACQUIRE);
    gone = state == REFRAIN_STATE_GONE || (gone && state != REFRAIN_STATE_DONE);
    if (!gone)
        return false;
    forget_compressor();
    if (__atomic_exchange_n(&told, 1, __ATOMIC_SEQ_CST) == 0) {
        say("the compressor of process %d has stopped; recording ends here, the program goes on",
            dr_get_process_id());
    }
    return true;
}

void
ring_bell(void)
{
    struct refrain_control *shared = control;
    if (!connected)
        return;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&shared->compressor_sleeps, __ATOMIC_RELAXED) != 0) {
        __atomic_fetch_add(&shared->doorbell, 1, __ATOMIC_SEQ_CST);
        system_call(SYS_futex, (long)&shared->doorbell, FUTEX_WAKE, 1, 0, 0, 0);
    }
}

uint64_t *
thread_at(thread_t *thread)
{
    return (uint64_t *)thread->slots[SLOT_AT];
}

static uint64_t *
chunk_begin(thread_t *thread, uint32_t chunk)
{
    return (uint64_t *)((byte *)thread->ring + REFRAIN_RING_HEAD_BYTES) +
        (uint64_t)chunk * CHUNK_WORDS;
}

typedef enum { ROOM, NO_ROOM, LATER } room_t;

/* Waits until the compressor has consumed this many parts. */
typedef enum { GLANCE /* do not wait */, MOMENT /* 5 ms */, PATIENCE /* for ever */ } patience_t;

static room_t
wait_until_consumed(thread_t *thread, uint64_t parts, patience_t patience)
{
    struct refrain_ring *ring = thread->ring;
    for (;;) {
        uint64_t consumed = __atomic_load_n(&ring->consumed, __ATOMIC_ACQUIRE);
        if (consumed >= parts)
            return ROOM;
        if (!connected)
            return NO_ROOM;
        if (patience == GLANCE)
            return LATER;
        __atomic_store_n(&ring->waits, 1, __ATOMIC_SEQ_CST);
        ring_bell();
        long result = 0;
        if (__atomic_load_n(&ring->consumed, __ATOMIC_SEQ_CST) == consumed) {
            struct {
                long seconds, nanoseconds;
            } moment = { 0, 5 * 1000 * 1000 };
            result = system_call(SYS_futex, (long)&ring->room, FUTEX_WAIT, (uint32_t)consumed,
                                 (long)&moment, 0, 0);
        }
        __atomic_store_n(&ring->waits, 0, __ATOMIC_RELAXED);
        if (result == -110 /* ETIMEDOUT */ && compressor_is_gone())
            return NO_ROOM;
        if (patience == MOMENT && (result == -110 || result == -4 /* EINTR */))
            return LATER;
    }
}

static room_t
publish_up_to(thread_t *thread, uint64_t *at, patience_t patience)
{
    struct refrain_ring *ring = thread->ring;
    uint64_t *first = (uint64_t *)ring->first;
    uint64_t published = ring->published;
    if (at == first)
        return ROOM;
    room_t room = published < REFRAIN_RING_PARTS
        ? ROOM
        : wait_until_consumed(thread, published - REFRAIN_RING_PARTS + 1, patience);
    if (room != ROOM)
        return room;
    ring->parts[published % REFRAIN_RING_PARTS] = (struct refrain_part){
        first - chunk_begin(thread, 0), at - first,
        __atomic_load_n(&control->ledger_written, __ATOMIC_ACQUIRE), 0
    };
    /* If the process dies in between, `first` is too low; the compressor corrects it. */
    __atomic_store_n(&ring->published, published + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->first, (uint64_t)at, __ATOMIC_RELEASE);
    thread->chunk_ends[thread->chunk] = published + 1;
    return ROOM;
}

void
ring_publish(thread_t *thread, bool must)
{
    if (thread != NULL && thread->ring != NULL && connected) {
        uint64_t *at = thread->recording ? thread_at(thread) : thread->ring_at;
        publish_up_to(thread, at, must ? PATIENCE : GLANCE);
    }
}

static void
enter_chunk(thread_t *thread, uint32_t chunk)
{
    struct refrain_ring *ring = thread->ring;
    uint64_t *begin = chunk_begin(thread, chunk);
    thread->chunk = chunk;
    thread->ring_at = begin;
    *begin = 0;
    __atomic_store_n(&ring->end, (uint64_t)(begin + CHUNK_WORDS), __ATOMIC_RELAXED);
    __atomic_store_n(&ring->first, (uint64_t)begin, __ATOMIC_RELEASE);
}

/* Moves to the next chunk, if there is room. */
static room_t
next_chunk(thread_t *thread, patience_t patience)
{
    room_t room = publish_up_to(thread, thread->ring_at, patience);
    if (room != ROOM)
        return room;
    ring_bell();
    uint32_t chunk = (thread->chunk + 1) % CHUNKS;
    room = wait_until_consumed(thread, thread->chunk_ends[chunk], patience);
    if (room == ROOM)
        enter_chunk(thread, chunk);
    return room;
}

#define SCRATCH_WORDS (MARGIN_WORDS + 4096)

static uint64_t *
limit_of(uint64_t *begin, uint64_t words)
{
    return begin + words - MARGIN_WORDS;
}

/* Chooses where the thread writes: its ring, or scratch memory that nobody reads. False if the ring
 * has no room yet. */
static bool
choose_place(thread_t *thread, patience_t patience)
{
    room_t room = recording_wanted && thread->ring != NULL && connected ? ROOM : NO_ROOM;
    if (thread->recording)
        thread->ring_at = thread_at(thread);
    if (room == ROOM && thread->ring_at > limit_of(chunk_begin(thread, thread->chunk), CHUNK_WORDS))
        room = next_chunk(thread, patience);
    else if (room == NO_ROOM && thread->recording && connected)
        room = publish_up_to(thread, thread->ring_at, patience) == LATER ? LATER : NO_ROOM;
    if (room == LATER)
        return false;
    if (room == ROOM) {
        bool resumes = !thread->recording;
        thread->recording = true;
        thread->slots[SLOT_AT] = (uint64_t)thread->ring_at;
        thread->slots[SLOT_LIMIT] =
            (uint64_t)limit_of(chunk_begin(thread, thread->chunk), CHUNK_WORDS);
        if (resumes && options.contexts)
            thread_put_context(thread, thread_context(thread));
    } else {
        if (thread->scratch == NULL)
            thread->scratch = dr_global_alloc(SCRATCH_WORDS * 8);
        thread->recording = false;
        thread->slots[SLOT_AT] = (uint64_t)thread->scratch;
        thread->slots[SLOT_LIMIT] = (uint64_t)limit_of(thread->scratch, SCRATCH_WORDS);
        *thread->scratch = 0;
    }
    return true;
}

void
thread_needs_room(thread_t *thread)
{
    int wanted;
    do {
        wanted = recording_wanted;
        choose_place(thread, PATIENCE);
    } while (wanted != recording_wanted);
}

/* Iterations of a loop that takes about 40 ns each. */
#define PAUSES 500
/* Cycles: about a tenth of a second. */
#define STAY (200ull * 1000 * 1000)

/* DynamoRIO can stop a thread, for instance to fork, only while it is in the code cache. So a thread
 * does not wait here for long: it returns to the cache, pauses there, and calls again.
 *
 * A signal that arrives while our C code runs is delivered when the thread leaves the code cache,
 * which a loop may never do. So now and then the thread's block is flushed, which makes it leave. */
void
thread_asks_for_room(void)
{
    thread_t *thread = this_thread();
    int wanted = recording_wanted;
    bool chosen = choose_place(thread, MOMENT);
    if (!chosen || wanted != recording_wanted)
        thread->slots[SLOT_LIMIT] = 0;
    thread->slots[SLOT_PAUSE] = chosen ? 0 : PAUSES;
    uint64_t now = __builtin_ia32_rdtsc();
    if (now - thread->left > STAY) {
        thread->left = now;
        dr_unlink_flush_region((app_pc)thread->slots[SLOT_ASK], 1);
    }
}

void
thread_put_context(thread_t *thread, uint32_t number)
{
    uint64_t *at = thread_at(thread);
    at[1] = 0;
    at[0] = number;
    thread->slots[SLOT_AT] = (uint64_t)(at + 1);
}

/* ---- allocation of rings ---- */

static volatile uint32_t used[MOST_RINGS];
/* The length of the ledger when the ring's last thread had ended. */
static volatile uint64_t ended[MOST_RINGS];

static bool
is_free(uint32_t index)
{
    if (used[index] != 0 ||
        __atomic_load_n(&control->ledger_read, __ATOMIC_ACQUIRE) < ended[index])
        return false;
    struct refrain_ring *ring = ring_place(index);
    return __atomic_load_n(&ring->consumed, __ATOMIC_ACQUIRE) == ring->published;
}

void
rings_forget(void)
{
    for (uint32_t i = 0; i < MOST_RINGS; i++)
        used[i] = ended[i] = 0;
    told = 0;
}

static struct refrain_ring *
take_place(uint64_t *offset)
{
    for (uint32_t i = 0; i < MOST_RINGS && connected; i++) {
        if (is_free(i) && __atomic_exchange_n(&used[i], 1, __ATOMIC_ACQ_REL) == 0) {
            *offset = ring_place_offset(i);
            return ring_place(i);
        }
    }
    return NULL;
}

static void
ring_reset(thread_t *thread)
{
    thread->ring = NULL;
    thread->recording = false;
    for (uint32_t i = 0; i < CHUNKS; i++)
        thread->chunk_ends[i] = 0;
}

/* Without a ring, records go to scratch memory. */
static void
ring_choose(thread_t *thread)
{
    thread->slots[SLOT_PAUSE] = 0;
    thread->left = __builtin_ia32_rdtsc();
    thread_needs_room(thread);
}

void
ring_none(thread_t *thread)
{
    ring_reset(thread);
    ring_choose(thread);
}

void
ring_begin(thread_t *thread)
{
    ring_reset(thread);
    if (connected) {
        uint64_t offset;
        struct refrain_ring *ring = take_place(&offset);
        if (ring == NULL) {
            say("thread %d is not recorded: %d threads are", thread->tid, MOST_RINGS);
        } else {
            memset(ring, 0, 192);
            ring->thread = thread->number;
            ring->chunk_words = CHUNK_WORDS;
            ring->chunks = CHUNKS;
            thread->ring = ring;
            ring->words_at = (uint64_t)chunk_begin(thread, 0);
            enter_chunk(thread, 0);
            struct refrain_thread record = { { REFRAIN_RECORD_THREAD, sizeof(record) },
                                             thread->number, thread->tid, offset, RING_BYTES };
            ledger_put(&record.head);
        }
    }
    ring_choose(thread);
}

void
ring_end(thread_t *thread)
{
    if (thread->ring != NULL) {
        ring_publish(thread, true);
        ring_bell();
        struct refrain_thread_end record = { { REFRAIN_RECORD_THREAD_END, sizeof(record) },
                                             thread->number, 0 };
        ledger_put(&record.head);
        uint64_t index = ((byte *)thread->ring - (byte *)ring_place(0)) / RING_BYTES;
        ended[index] = !connected ? 0 : control->ledger_written;
        __atomic_store_n(&used[index], 0, __ATOMIC_RELEASE);
        thread->ring = NULL;
    }
    if (thread->scratch != NULL)
        dr_global_free(thread->scratch, SCRATCH_WORDS * 8);
    thread->scratch = NULL;
}
