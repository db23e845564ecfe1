/* The ledger: tables for the compressor, each entry written once. Blocks and contexts share one
 * sequence of numbers. */
#include "client.h"
#include <linux/futex.h>
#include <sys/syscall.h>

static void *lock;
static struct refrain_record **records; /* by number */
static uint32_t record_count, record_room;

void
ledger_start(void)
{
    lock = dr_mutex_create();
}

void
ledger_stop(void)
{
    for (uint32_t i = 0; i < record_count; i++)
        dr_global_free(records[i], records[i]->bytes);
    if (records != NULL)
        dr_global_free(records, record_room * sizeof(*records));
    dr_mutex_destroy(lock);
}

/* Waits until the record fits; false if the compressor has stopped. */
static bool
wait_for_room(uint64_t bytes)
{
    for (;;) {
        struct refrain_control *shared = control;
        if (!connected)
            return false;
        uint64_t read = __atomic_load_n(&shared->ledger_read, __ATOMIC_ACQUIRE);
        if (shared->ledger_written + bytes - read <= REFRAIN_LEDGER_BYTES)
            return true;
        __atomic_store_n(&shared->ledger_waits, 1, __ATOMIC_SEQ_CST);
        ring_bell();
        uint32_t room = (uint32_t)read;
        if (__atomic_load_n(&shared->ledger_read, __ATOMIC_SEQ_CST) == read) {
            struct {
                long seconds, nanoseconds;
            } patience = { 0, 100 * 1000 * 1000 };
            system_call(SYS_futex, (long)&shared->ledger_room, FUTEX_WAIT, room, (long)&patience,
                        0, 0);
        }
        __atomic_store_n(&shared->ledger_waits, 0, __ATOMIC_RELAXED);
        if (compressor_is_gone())
            return false;
    }
}

static void
put(const struct refrain_record *record)
{
    if (!wait_for_room(record->bytes))
        return;
    const byte *bytes = (const byte *)record;
    uint64_t at = control->ledger_written;
    for (uint32_t i = 0; i < record->bytes; i++)
        ledger_buffer[(at + i) % REFRAIN_LEDGER_BYTES] = bytes[i];
    __atomic_store_n(&control->ledger_written, at + record->bytes, __ATOMIC_RELEASE);
}

void
ledger_put(const struct refrain_record *record)
{
    dr_mutex_lock(lock);
    put(record);
    dr_mutex_unlock(lock);
}

/* The caller holds the lock. */
static uint32_t
keep(struct refrain_record *record)
{
    if (record_count == record_room) {
        uint32_t room = record_room == 0 ? 1024 : record_room * 2;
        struct refrain_record **more = dr_global_alloc(room * sizeof(*more));
        memcpy(more, records, record_count * sizeof(*more));
        struct refrain_record **old = records;
        /* Readers without the lock see the old array or the new one, so the old one is kept. */
        __atomic_store_n(&records, more, __ATOMIC_RELEASE);
        (void)old;
        record_room = room;
    }
    records[record_count] = record;
    return record_count++;
}

uint32_t
ledger_add_block(const struct refrain_reference *references, uint32_t count)
{
    uint32_t bytes = sizeof(struct refrain_block) + count * sizeof(*references);
    struct refrain_block *block = dr_global_alloc(bytes);
    block->head = (struct refrain_record){ REFRAIN_RECORD_BLOCK, bytes };
    block->references = count;
    memcpy(block + 1, references, count * sizeof(*references));
    dr_mutex_lock(lock);
    block->block = keep(&block->head);
    put(&block->head);
    dr_mutex_unlock(lock);
    return block->block;
}

uint32_t
ledger_add_context(uint32_t parent, uint64_t call, uint64_t function)
{
    struct refrain_context *context = dr_global_alloc(sizeof(*context));
    *context = (struct refrain_context){ { REFRAIN_RECORD_CONTEXT, sizeof(*context) },
                                         0, parent, call, function };
    dr_mutex_lock(lock);
    context->block = keep(&context->head);
    put(&context->head);
    dr_mutex_unlock(lock);
    return context->block;
}

static const struct refrain_record *
record(uint32_t number)
{
    return __atomic_load_n(&records, __ATOMIC_ACQUIRE)[number];
}

const struct refrain_block *
ledger_block(uint32_t number)
{
    return (const struct refrain_block *)record(number);
}

const struct refrain_context *
ledger_context(uint32_t number)
{
    return (const struct refrain_context *)record(number);
}

void
ledger_tell_again(void)
{
    /* The thread that held the lock may not exist in this process. */
    lock = dr_mutex_create();
    for (uint32_t i = 0; i < record_count; i++)
        put(records[i]);
}
