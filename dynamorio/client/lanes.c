/* Gathers and scatters: each lane that the mask enables is a reference, so their number varies.
 * Each is a record of one reference. */
#include "client.h"

#define MOST_LANES 16

typedef struct {
    instr_t *instr;
    uint32_t number;
} site_t;

static hashtable_t sites; /* from the instruction's address */

static void
put_lanes(site_t *site)
{
    thread_t *thread = this_thread();
    dr_mcontext_t context = { .size = sizeof(context), .flags = DR_MC_ALL };
    dr_get_mcontext(dr_get_current_drcontext(), &context);
    for (uint lane = 0; lane < MOST_LANES; lane++) {
        app_pc address;
        bool writes;
        if (!instr_compute_address_ex(site->instr, &context, lane, &address, &writes))
            continue;
        if (thread->slots[SLOT_AT] > thread->slots[SLOT_LIMIT])
            thread_needs_room(thread);
        uint64_t *at = thread_at(thread);
        at[2] = 0;
        at[1] = (uint64_t)address;
        at[0] = site->number;
        thread->slots[SLOT_AT] = (uint64_t)(at + 2);
    }
}

/* DynamoRIO 11.90 decodes the short displacement of EVEX scatters as bytes, though it counts
 * elements. Decodes the instruction again, with the right displacement. */
static void
decode_exactly(instr_t *instr, app_pc pc, uint32_t size)
{
    byte *at = decode(GLOBAL_DCONTEXT, pc, instr) == NULL ? NULL : pc;
    while (at != NULL && (*at == 0x67 || *at == 0x64 || *at == 0x65 || *at == 0x2e || *at == 0x3e))
        at++;
    /* 62, three bytes, opcode, ModRM with a displacement of one byte, SIB, displacement */
    if (at == NULL || at[0] != 0x62 || (at[5] & 0xc0) != 0x40)
        return;
    int displacement = (signed char)at[7] * (int)size;
    for (int i = 0; i < instr_num_srcs(instr); i++) {
        opnd_t operand = instr_get_src(instr, i);
        if (opnd_is_memory_reference(operand)) {
            opnd_set_disp(&operand, displacement);
            instr_set_src(instr, i, operand);
        }
    }
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        opnd_t operand = instr_get_dst(instr, i);
        if (opnd_is_memory_reference(operand)) {
            opnd_set_disp(&operand, displacement);
            instr_set_dst(instr, i, operand);
        }
    }
}

static site_t *
make_site(instr_t *instr)
{
    app_pc pc = instr_get_app_pc(instr);
    bool scatters = instr_is_scatter(instr);
    opnd_t operand = opnd_create_null();
    int count = scatters ? instr_num_dsts(instr) : instr_num_srcs(instr);
    for (int i = 0; i < count; i++) {
        opnd_t each = scatters ? instr_get_dst(instr, i) : instr_get_src(instr, i);
        if (opnd_is_memory_reference(each))
            operand = each;
    }
    struct refrain_reference reference = {
        place_of(pc),
        opnd_size_in_bytes(opnd_get_size(operand)),
        scatters ? REFRAIN_KIND_STORE : REFRAIN_KIND_LOAD,
    };
    site_t *site = dr_global_alloc(sizeof(*site));
    site->number = block_number(&reference, 1);
    site->instr = instr_create(GLOBAL_DCONTEXT);
    decode_exactly(site->instr, pc, reference.size);
    return site;
}

void
lanes_insert(void *drcontext, instrlist_t *block, instr_t *where)
{
    app_pc pc = instr_get_app_pc(where);
    hashtable_lock(&sites);
    site_t *site = hashtable_lookup(&sites, pc);
    if (site == NULL) {
        site = make_site(where);
        hashtable_add(&sites, pc, site);
    }
    hashtable_unlock(&sites);
    dr_insert_clean_call_ex(drcontext, block, where, (void *)put_lanes,
                            DR_CLEANCALL_READS_APP_CONTEXT, 1, OPND_CREATE_INTPTR(site));
}

static void
free_site(void *site)
{
    instr_destroy(GLOBAL_DCONTEXT, ((site_t *)site)->instr);
    dr_global_free(site, sizeof(site_t));
}

void
lanes_start(void)
{
    hashtable_init_ex(&sites, 6, HASH_INTPTR, false, false, free_site, NULL, NULL);
}

void
lanes_stop(void)
{
    hashtable_delete(&sites);
}
