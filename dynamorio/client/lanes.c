/* Gathers and scatters: each lane that the mask lets through is a reference of its own, so their
 * number varies. Each is a record of one reference. */
#include "client.h"

static void
put_lanes(app_pc pc, uint64_t number)
{
    void *drcontext = dr_get_current_drcontext();
    thread_t *thread = this_thread();
    dr_mcontext_t context = { .size = sizeof(context), .flags = DR_MC_ALL };
    instr_t instr;
    dr_get_mcontext(drcontext, &context);
    instr_init(drcontext, &instr);
    decode(drcontext, pc, &instr);
    app_pc address;
    bool writes;
    for (uint i = 0; instr_compute_address_ex(&instr, &context, i, &address, &writes); i++) {
        if (thread->slots[SLOT_AT] > thread->slots[SLOT_LIMIT])
            thread_needs_room();
        uint64_t *at = thread_at(thread);
        at[2] = 0;
        at[1] = (uint64_t)address;
        at[0] = number;
        thread->slots[SLOT_AT] = (uint64_t)(at + 2);
    }
    instr_free(drcontext, &instr);
}

void
lanes_insert(void *drcontext, instrlist_t *block, instr_t *where)
{
    app_pc pc = instr_get_app_pc(where);
    bool scatters = instr_is_scatter(where);
    opnd_t operand = opnd_create_null();
    int count = scatters ? instr_num_dsts(where) : instr_num_srcs(where);
    for (int i = 0; i < count; i++) {
        opnd_t each = scatters ? instr_get_dst(where, i) : instr_get_src(where, i);
        if (opnd_is_memory_reference(each))
            operand = each;
    }
    struct refrain_reference reference = {
        place_of(pc),
        opnd_size_in_bytes(opnd_get_size(operand)),
        scatters ? REFRAIN_KIND_STORE : REFRAIN_KIND_LOAD,
    };
    uint64_t number = block_number(&reference, 1);
    dr_insert_clean_call_ex(drcontext, block, where, (void *)put_lanes,
                            DR_CLEANCALL_READS_APP_CONTEXT, 2, OPND_CREATE_INTPTR(pc),
                            OPND_CREATE_INT64(number));
}
