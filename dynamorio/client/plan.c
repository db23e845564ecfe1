/* The references of a basic block.
 *
 * They are one record, unless an instruction in the middle has a varying number of references
 * (lanes.c). A record is identified by a number that stands for the list of its references. The same
 * list gets the same number when DynamoRIO builds the block again. */
#include "client.h"

/* ---- instructions ---- */

/* Instructions that name memory but neither load nor store. */
static bool
only_hints(instr_t *instr)
{
    switch (instr_get_opcode(instr)) {
    case OP_clflush:
    case OP_clflushopt:
    case OP_clwb:
    case OP_invlpg: return true;
    default: return instr_is_prefetch(instr);
    }
}

static bool
is_vector_of_addresses(opnd_t operand)
{
    return opnd_is_base_disp(operand) && opnd_get_index(operand) != DR_REG_NULL &&
        reg_is_simd(opnd_get_index(operand));
}

bool
has_lanes(instr_t *instr)
{
    return instr_is_gather(instr) || instr_is_scatter(instr);
}

/* The bytes that an instruction accesses through an operand. DynamoRIO's tables (11.90) are wrong for
 * a few instructions. Masked vectors count as a whole. */
static uint32_t
size_of(instr_t *instr, opnd_t operand)
{
    uint32_t size = opnd_size_in_bytes(opnd_get_size(operand));
    switch (instr_get_opcode(instr)) {
    /* `enter`: drutil counts the copied frames, which compilers never request, and not the word that
     * it pushes. */
    case OP_enter: return size;
    case OP_movddup:
    case OP_vmovddup: return size == 16 ? 8 : size;
    case OP_vinsertf64x4:
    case OP_vinserti64x4: return 32;
    default: return drutil_opnd_mem_size_in_bytes(operand, instr);
    }
}

static uint32_t
add_access(instr_t *instr, opnd_t operand, uint32_t kind, access_t *accesses, uint32_t count)
{
    if (!opnd_is_memory_reference(operand) || is_vector_of_addresses(operand) ||
        count == MOST_PER_INSTRUCTION)
        return count;
    int opcode = instr_get_opcode(instr);
    /* `pop` into memory that the stack pointer names: it has moved by then. */
    if (opcode == OP_pop && kind == REFRAIN_KIND_STORE && opnd_is_base_disp(operand) &&
        opnd_get_base(operand) == DR_REG_XSP)
        opnd_set_disp(&operand, opnd_get_disp(operand) + 8);
    /* DynamoRIO classifies these as stores. */
    if (opcode == OP_vexpandpd || opcode == OP_vexpandps)
        kind = REFRAIN_KIND_LOAD;
    accesses[count] = (access_t){ operand, size_of(instr, operand), kind };
    return count + 1;
}

/* The references of an instruction in order: loads, then stores. */
uint32_t
accesses_of(instr_t *instr, access_t *accesses)
{
    if (!instr_is_app(instr) || only_hints(instr))
        return 0;
    uint32_t count = 0;
    if (instr_reads_memory(instr)) {
        for (int i = 0; i < instr_num_srcs(instr); i++) {
            count =
                add_access(instr, instr_get_src(instr, i), REFRAIN_KIND_LOAD, accesses, count);
        }
    }
    if (instr_writes_memory(instr)) {
        for (int i = 0; i < instr_num_dsts(instr); i++) {
            count =
                add_access(instr, instr_get_dst(instr, i), REFRAIN_KIND_STORE, accesses, count);
        }
    }
    return count;
}

/* ---- numbers of blocks ---- */

static hashtable_t numbers; /* maps a hash of references to the blocks with that hash */

typedef struct same_hash {
    struct same_hash *next;
    uint32_t number;
} same_hash_t;

static void
free_chain(void *chain)
{
    for (same_hash_t *link = chain; link != NULL;) {
        same_hash_t *next = link->next;
        dr_global_free(link, sizeof(*link));
        link = next;
    }
}

static bool
is_same(uint32_t number, const struct refrain_reference *references, uint32_t count)
{
    const struct refrain_block *block = ledger_block(number);
    return block->references == count &&
        memcmp(block + 1, references, count * sizeof(*references)) == 0;
}

uint32_t
block_number(const struct refrain_reference *references, uint32_t count)
{
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ references[i].pc) * 0x9e3779b97f4a7c15ull;
        hash = (hash ^ (hash >> 29) ^ references[i].size ^ (references[i].kind << 24)) *
            0xbf58476d1ce4e5b9ull;
    }
    hash |= 1;
    hashtable_lock(&numbers);
    same_hash_t *chain = hashtable_lookup(&numbers, (void *)hash);
    same_hash_t *link = chain;
    while (link != NULL && !is_same(link->number, references, count))
        link = link->next;
    if (link == NULL) {
        link = dr_global_alloc(sizeof(*link));
        link->number = ledger_add_block(references, count);
        link->next = NULL;
        if (chain == NULL) {
            hashtable_add(&numbers, (void *)hash, link);
        } else {
            link->next = chain->next;
            chain->next = link;
        }
    }
    uint32_t number = link->number;
    hashtable_unlock(&numbers);
    return number;
}

/* ---- where there may be dead frames ---- */

static hashtable_t direct_targets;

/* Whether the code before may be a call: then a return, or `setjmp`, may lead here. */
static bool
may_follow_a_call(app_pc pc)
{
    byte before[7];
    size_t read;
    if (!dr_safe_read(pc - 7, sizeof(before), before, &read) || read != sizeof(before))
        return false;
    byte *end = before + 7;
    bool direct = end[-5] == 0xe8;
    /* ff /2, with its address in 0, 1 or 4 bytes, and one more if there is a SIB byte */
    bool indirect = false;
    for (int length = 2; length <= 7; length++)
        indirect |= end[-length] == 0xff && (end[-length + 1] & 0x38) == 0x10;
    return direct || indirect;
}

static void
note_target(app_pc pc)
{
    if (pc != NULL)
        hashtable_add(&direct_targets, pc, (void *)1);
}

/* Remembers the targets of branches and the code after them. Code that is entered otherwise may be a
 * landing pad. */
static void
note_targets(instrlist_t *block)
{
    instr_t *last = instrlist_last_app(block);
    if (last == NULL)
        return;
    app_pc pc = instr_get_app_pc(last);
    if (instr_is_cbr(last) || instr_is_ubr(last) || instr_is_call_direct(last)) {
        opnd_t target = instr_get_target(last);
        if (opnd_is_pc(target))
            note_target(opnd_get_pc(target));
    }
    if (pc != NULL && !instr_is_ubr(last) && !instr_is_call(last))
        note_target(decode_next_pc(dr_get_current_drcontext(), pc));
}

/* ---- plans ---- */

typedef struct {
    struct refrain_reference list[MOST_WORDS];
    uint32_t count;
    instr_t *first;
    instr_t *last;
    group_t groups[MOST_WORDS];
    uint32_t group_count;
} draft_t;

static void
end_group(draft_t *draft)
{
    if (draft->count == 0)
        return;
    draft->groups[draft->group_count++] = (group_t){
        draft->first,
        draft->last,
        block_number(draft->list, draft->count),
        draft->count,
        options.contexts && instr_is_call(draft->last),
    };
    draft->count = 0;
}

static void
add_instruction(draft_t *draft, instr_t *instr)
{
    if (has_lanes(instr) || draft->count > MOST_WORDS - 2 * MOST_PER_INSTRUCTION)
        end_group(draft);
    access_t accesses[MOST_PER_INSTRUCTION];
    uint32_t count = accesses_of(instr, accesses);
    if (count == 0)
        return;
    uint64_t pc = place_of(instr_get_app_pc(instr));
    if (draft->count == 0)
        draft->first = instr;
    draft->last = instr;
    for (uint32_t i = 0; i < count; i++) {
        draft->list[draft->count++] =
            (struct refrain_reference){ pc, accesses[i].size, accesses[i].kind };
    }
}

plan_t *
plan_make(void *drcontext, app_pc tag, instrlist_t *block)
{
    draft_t *draft = dr_thread_alloc(drcontext, sizeof(*draft));
    draft->count = draft->group_count = 0;
    for (instr_t *instr = instrlist_first_app(block); instr != NULL;
         instr = instr_get_next_app(instr))
        add_instruction(draft, instr);
    end_group(draft);

    plan_t *plan = dr_thread_alloc(drcontext, sizeof(*plan));
    *plan = (plan_t){ .groups = draft->group_count, .at = DR_REG_NULL };
    if (plan->groups > 0) {
        size_t bytes = plan->groups * sizeof(group_t);
        plan->group_list = dr_thread_alloc(drcontext, bytes);
        memcpy(plan->group_list, draft->groups, bytes);
    }
    dr_thread_free(drcontext, draft, sizeof(*draft));

    if (options.contexts) {
        plan->landing =
            hashtable_lookup(&direct_targets, tag) == NULL || may_follow_a_call(tag);
        note_targets(block);
    }
    return plan;
}

void
plan_free(void *drcontext, plan_t *plan)
{
    if (plan->groups > 0)
        dr_thread_free(drcontext, plan->group_list, plan->groups * sizeof(group_t));
    dr_thread_free(drcontext, plan, sizeof(*plan));
}

void
plans_start(void)
{
    hashtable_init_ex(&numbers, 12, HASH_INTPTR, false, false, free_chain, NULL, NULL);
    hashtable_init_ex(&direct_targets, 12, HASH_INTPTR, false, true, NULL, NULL, NULL);
}

void
plans_stop(void)
{
    hashtable_delete(&numbers);
    hashtable_delete(&direct_targets);
}
