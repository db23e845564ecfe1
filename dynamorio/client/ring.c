/* The rings: publishing what was written, and waiting for the compressor. */
#include "client.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static volatile int told;

/* True once the compressor is gone; then nobody waits for it any more. */
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
        say("the compressor of process %d died; recording ends here, the program goes on",
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

/* Waits until the compressor has consumed so many parts; false if it died. */
static bool
wait_until_consumed(thread_t *thread, uint64_t parts)
{
    struct refrain_ring *ring = thread->ring;
    for (;;) {
        uint64_t consumed = __atomic_load_n(&ring->consumed, __ATOMIC_ACQUIRE);
        if (consumed >= parts)
            return true;
        if (!connected)
            return false;
        __atomic_store_n(&ring->waits, 1, __ATOMIC_SEQ_CST);
        ring_bell();
        if (__atomic_load_n(&ring->consumed, __ATOMIC_SEQ_CST) == consumed) {
            struct {
                long seconds, nanoseconds;
            } patience = { 0, 100 * 1000 * 1000 };
            if (system_call(SYS_futex, (long)&ring->room, FUTEX_WAIT, (uint32_t)consumed,
                            (long)&patience, 0, 0) == -110 /* ETIMEDOUT */ &&
                compressor_is_gone()) {
                __atomic_store_n(&ring->waits, 0, __ATOMIC_RELAXED);
                return false;
            }
        }
        __atomic_store_n(&ring->waits, 0, __ATOMIC_RELAXED);
    }
}

static void
publish_up_to(thread_t *thread, uint64_t *at)
{
    struct refrain_ring *ring = thread->ring;
    uint64_t *first = (uint64_t *)ring->first;
    if (at == first || !connected)
        return;
    uint64_t published = ring->published;
    if (published >= REFRAIN_RING_PARTS &&
        !wait_until_consumed(thread, published - REFRAIN_RING_PARTS + 1))
        return;
    if (!connected)
        return;
    ring->parts[published % REFRAIN_RING_PARTS] = (struct refrain_part){
        first - chunk_begin(thread, 0), at - first,
        __atomic_load_n(&control->ledger_written, __ATOMIC_ACQUIRE), 0
    };
    /* Should the process die in between, `first` is behind: the compressor knows the part. */
    __atomic_store_n(&ring->published, published + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->first, (uint64_t)at, __ATOMIC_RELEASE);
    thread->chunk_ends[thread->chunk] = published + 1;
}

void
ring_publish(thread_t *thread)
{
    if (thread != NULL && thread->ring != NULL)
        publish_up_to(thread, thread->recording ? thread_at(thread) : thread->ring_at);
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

/* Goes on in the next chunk; false if the compressor died. */
static bool
next_chunk(thread_t *thread)
{
    publish_up_to(thread, thread->ring_at);
    ring_bell();
    uint32_t chunk = (thread->chunk + 1) % CHUNKS;
    if (!wait_until_consumed(thread, thread->chunk_ends[chunk]) || !connected)
        return false;
    enter_chunk(thread, chunk);
    return true;
}

#define SCRATCH_WORDS (MARGIN_WORDS + 4096)

static uint64_t *
limit_of(uint64_t *begin, uint64_t words)
{
    return begin + words - MARGIN_WORDS;
}

/* Where the thread writes from now on: its ring, or a place that nobody reads. */
static void
choose_place(thread_t *thread)
{
    bool wanted = recording_wanted && thread->ring != NULL && connected;
    if (thread->recording)
        thread->ring_at = thread_at(thread);
    if (wanted) {
        uint64_t *begin = chunk_begin(thread, thread->chunk);
        if (thread->ring_at > limit_of(begin, CHUNK_WORDS))
            wanted = next_chunk(thread);
    } else if (thread->recording) {
        publish_up_to(thread, thread->ring_at);
        ring_bell();
    }
    if (wanted) {
        uint64_t *begin = chunk_begin(thread, thread->chunk);
        bool resumes = !thread->recording;
        thread->recording = true;
        thread->slots[SLOT_AT] = (uint64_t)thread->ring_at;
        thread->slots[SLOT_LIMIT] = (uint64_t)limit_of(begin, CHUNK_WORDS);
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
}

void
thread_needs_room(void)
{
    thread_t *thread = this_thread();
    int wanted;
    do {
        wanted = recording_wanted;
        choose_place(thread);
    } while (wanted != recording_wanted);
}

void
thread_put_context(thread_t *thread, uint32_t number)
{
    uint64_t *at = thread_at(thread);
    at[1] = 0;
    at[0] = number;
    thread->slots[SLOT_AT] = (uint64_t)(at + 1);
}

/* ---- places for rings ---- */

static volatile uint32_t used[MOST_RINGS];
/* How long the ledger was when the place's last thread had ended. */
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

void
ring_begin(thread_t *thread)
{
    thread->ring = NULL;
    thread->recording = false;
    for (uint32_t i = 0; i < CHUNKS; i++)
        thread->chunk_ends[i] = 0;
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
    thread_needs_room();
}

void
ring_end(thread_t *thread)
{
    if (thread->ring != NULL) {
        ring_publish(thread);
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
