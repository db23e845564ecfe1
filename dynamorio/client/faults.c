/* Blocks that a fault interrupts: the references attempted until then become a record. The
 * reference that faults counts; if it is attempted again, it counts again. */
#include "client.h"

static uint32_t
tried(const struct refrain_block *block, app_pc fault)
{
    const struct refrain_reference *references = (const void *)(block + 1);
    uint64_t place = place_of(fault);
    uint32_t count = 0;
    for (uint32_t i = 0; i < block->references; i++) {
        if (references[i].pc <= place)
            count = i + 1;
    }
    return count;
}

static dr_signal_action_t
at_signal(void *drcontext, dr_siginfo_t *info)
{
    /* Other signals are delivered between blocks. */
    thread_t *thread = info->raw_mcontext_valid && info->fault_fragment_info.tag != NULL
        ? this_thread()
        : NULL;
    uint64_t *at = thread == NULL ? NULL : thread_at(thread);
    if (at == NULL || at[0] == 0)
        return DR_SIGNAL_DELIVER;
    const struct refrain_block *block = ledger_block((uint32_t)at[0]);
    uint32_t count = tried(block, info->mcontext->pc);
    if (count == 0) {
        at[0] = 0;
        return DR_SIGNAL_DELIVER;
    }
    uint32_t number = block_number((const void *)(block + 1), count);
    at[count + 1] = 0;
    at[0] = number;
    thread->slots[SLOT_AT] = (uint64_t)(at + count + 1);
    return DR_SIGNAL_DELIVER;
}

void
faults_start(void)
{
    drmgr_register_signal_event(at_signal);
}
