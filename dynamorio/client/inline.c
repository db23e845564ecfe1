/* Generates the machine code that writes records.
 *
 *   begin     at = slot; if (at > limit) thread_asks_for_room(); at[n + 1] = 0; at[0] = number;
 *   each      at[i] = address;
 *   end       slot = at + n + 1;
 *
 * The slot is updated last. While a record is being written, `slot[0]` is its number; otherwise it
 * is 0. So a fault identifies the record that it interrupts, and the compressor of a killed process
 * finds the end of the words.
 *
 * If the last instruction of a record is a call, the callee's context follows the record. */
#include "client.h"

static byte *slow_code;
static byte *slow_room, *slow_call, *slow_landing;
#define SLOW_BYTES 8192

static void
add(instrlist_t *block, instr_t *where, instr_t *instr)
{
    instrlist_meta_preinsert(block, where, instr);
}

static opnd_t
slot(void *drcontext, int which)
{
    return dr_raw_tls_opnd(drcontext, slot_segment, slot_offset + which * 8);
}

static void
load_slot(void *drcontext, instrlist_t *block, instr_t *where, int which, reg_id_t reg)
{
    add(block, where,
        INSTR_CREATE_mov_ld(drcontext, opnd_create_reg(reg), slot(drcontext, which)));
}

static void
store_slot(void *drcontext, instrlist_t *block, instr_t *where, int which, reg_id_t reg)
{
    add(block, where,
        INSTR_CREATE_mov_st(drcontext, slot(drcontext, which), opnd_create_reg(reg)));
}

static void
store_word(void *drcontext, instrlist_t *block, instr_t *where, reg_id_t at, uint32_t index,
           uint32_t value)
{
    add(block, where,
        INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM64(at, index * 8),
                            OPND_CREATE_INT32((int)value)));
}

static void
store_reg(void *drcontext, instrlist_t *block, instr_t *where, reg_id_t at, uint32_t index,
          reg_id_t reg)
{
    add(block, where,
        INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM64(at, index * 8), opnd_create_reg(reg)));
}

/* Calls a slow path, which returns to `back`. The value of `reg` is lost. */
static void
detour(void *drcontext, instrlist_t *block, instr_t *where, byte *slow, instr_t *back, reg_id_t reg)
{
    instrlist_insert_mov_instr_addr(drcontext, back, NULL, opnd_create_reg(reg), block, where,
                                    NULL, NULL);
    store_slot(drcontext, block, where, SLOT_BACK, reg);
    add(block, where, INSTR_CREATE_jmp(drcontext, opnd_create_pc(slow)));
}

static reg_id_t
reserve_among(void *drcontext, instrlist_t *block, instr_t *where, drvector_t *allowed)
{
    reg_id_t reg = DR_REG_NULL;
    if (drreg_reserve_register(drcontext, block, where, allowed, &reg) != DRREG_SUCCESS)
        reg = DR_REG_NULL;
    return reg;
}

static reg_id_t
reserve(void *drcontext, instrlist_t *block, instr_t *where)
{
    reg_id_t reg = reserve_among(drcontext, block, where, NULL);
    DR_ASSERT_MSG(reg != DR_REG_NULL, "no register");
    return reg;
}

/* A register that holds the position from the first instruction of a group to its last: one that
 * the program does not use in between, or at least does not write, because drreg keeps our value in
 * a register only if the program reads its own value again. DR_REG_NULL if there is none; then each
 * instruction loads the position. */
static reg_id_t
reserve_for_group(void *drcontext, instrlist_t *block, instr_t *where, const group_t *group)
{
    if (group->first == group->last)
        return reserve(drcontext, block, where);
    reg_id_t found = DR_REG_NULL;
    for (int strict = 1; strict >= 0 && found == DR_REG_NULL; strict--) {
        drvector_t allowed;
        bool any = false;
        drreg_init_and_fill_vector(&allowed, false);
        for (reg_id_t reg = DR_REG_START_GPR; reg <= DR_REG_STOP_GPR; reg++) {
            bool good = reg != DR_REG_XSP;
            for (instr_t *instr = group->first; good && instr != group->last;
                 instr = instr_get_next_app(instr)) {
                good = !instr_writes_to_reg(instr, reg, DR_QUERY_INCLUDE_ALL) &&
                    !(strict && instr_reads_from_reg(instr, reg, DR_QUERY_INCLUDE_ALL));
            }
            if (good)
                drreg_set_vector_entry(&allowed, reg, true);
            any |= good;
        }
        if (any)
            found = reserve_among(drcontext, block, where, &allowed);
        drvector_delete(&allowed);
    }
    return found;
}

static void
unreserve(void *drcontext, instrlist_t *block, instr_t *where, reg_id_t reg)
{
    if (drreg_unreserve_register(drcontext, block, where, reg) != DRREG_SUCCESS)
        DR_ASSERT_MSG(false, "a register stays reserved");
}

static void
reserve_flags(void *drcontext, instrlist_t *block, instr_t *where)
{
    if (drreg_reserve_aflags(drcontext, block, where) != DRREG_SUCCESS)
        DR_ASSERT_MSG(false, "no place for the flags");
}

static void
unreserve_flags(void *drcontext, instrlist_t *block, instr_t *where)
{
    if (drreg_unreserve_aflags(drcontext, block, where) != DRREG_SUCCESS)
        DR_ASSERT_MSG(false, "the flags stay reserved");
}

/* ---- records ---- */

static void
begin_record(void *drcontext, instrlist_t *block, instr_t *where, const group_t *group, reg_id_t at)
{
    instr_t *again = INSTR_CREATE_label(drcontext);
    instr_t *pause = INSTR_CREATE_label(drcontext);
    instr_t *ask = INSTR_CREATE_label(drcontext);
    instr_t *room = INSTR_CREATE_label(drcontext);
    reserve_flags(drcontext, block, where);
    add(block, where, again);
    load_slot(drcontext, block, where, SLOT_AT, at);
    add(block, where,
        INSTR_CREATE_cmp(drcontext, opnd_create_reg(at), slot(drcontext, SLOT_LIMIT)));
    add(block, where, INSTR_CREATE_jcc(drcontext, OP_jbe, opnd_create_instr(room)));
    load_slot(drcontext, block, where, SLOT_PAUSE, at);
    add(block, where, pause);
    add(block, where,
        INSTR_CREATE_test(drcontext, opnd_create_reg(at), opnd_create_reg(at)));
    add(block, where, INSTR_CREATE_jcc(drcontext, OP_jz, opnd_create_instr(ask)));
    add(block, where, INSTR_CREATE_pause(drcontext));
    add(block, where,
        INSTR_CREATE_lea(drcontext, opnd_create_reg(at),
                         opnd_create_base_disp(at, DR_REG_NULL, 0, -1, OPSZ_lea)));
    add(block, where, INSTR_CREATE_jmp(drcontext, opnd_create_instr(pause)));
    add(block, where, ask);
    add(block, where,
        INSTR_CREATE_mov_imm(drcontext, opnd_create_reg(at),
                             OPND_CREATE_INT64((int64)instr_get_app_pc(where))));
    store_slot(drcontext, block, where, SLOT_ASK, at);
    detour(drcontext, block, where, slow_room, again, at);
    add(block, where, room);
    unreserve_flags(drcontext, block, where);
    if (group->calls)
        store_word(drcontext, block, where, at, group->count + 2, 0);
    store_word(drcontext, block, where, at, group->count + 1, 0);
    store_word(drcontext, block, where, at, 0, group->number);
}

/* A call: pushes a frame on the shadow stack, and writes the context after the record. */
static void
put_context(void *drcontext, instrlist_t *block, instr_t *where, reg_id_t at, uint32_t index)
{
    call_site_t *site = call_site(where);
    instr_t *again = INSTR_CREATE_label(drcontext);
    instr_t *other = INSTR_CREATE_label(drcontext);
    instr_t *known = INSTR_CREATE_label(drcontext);
    reserve_flags(drcontext, block, where);
    reg_id_t frame = reserve(drcontext, block, where);
    reg_id_t pair = reserve(drcontext, block, where);
    reg_id_t which = reserve(drcontext, block, where);
    opnd_t stack = opnd_create_reg(DR_REG_XSP);

    add(block, where, again);
    load_slot(drcontext, block, where, SLOT_FRAME, frame);
    add(block, where, INSTR_CREATE_cmp(drcontext, OPND_CREATE_MEM64(frame, 0), stack));
    add(block, where, INSTR_CREATE_jcc(drcontext, OP_jb, opnd_create_instr(other)));
    add(block, where,
        INSTR_CREATE_cmp(drcontext, opnd_create_reg(frame), slot(drcontext, SLOT_DEEP)));
    add(block, where, INSTR_CREATE_jcc(drcontext, OP_jae, opnd_create_instr(other)));
    add(block, where,
        INSTR_CREATE_mov_ld(drcontext, opnd_create_reg(reg_64_to_32(which)),
                            OPND_CREATE_MEM32(frame, 12)));
    add(block, where,
        INSTR_CREATE_and(drcontext, opnd_create_reg(reg_64_to_32(which)),
                         OPND_CREATE_INT8(SITE_PAIRS - 1)));
    add(block, where,
        INSTR_CREATE_mov_imm(drcontext, opnd_create_reg(pair),
                             OPND_CREATE_INT64((int64)site->pairs)));
    add(block, where,
        INSTR_CREATE_mov_ld(drcontext, opnd_create_reg(pair),
                            opnd_create_base_disp(pair, which, 8, 0, OPSZ_8)));
    add(block, where,
        INSTR_CREATE_xor(drcontext, opnd_create_reg(pair), OPND_CREATE_MEM64(frame, 8)));
    add(block, where,
        INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM64(frame, 24), opnd_create_reg(pair)));
    store_reg(drcontext, block, where, at, index, pair);
    add(block, where,
        INSTR_CREATE_shr(drcontext, opnd_create_reg(pair), OPND_CREATE_INT8(32)));
    add(block, where, INSTR_CREATE_jcc(drcontext, OP_jz, opnd_create_instr(known)));

    add(block, where, other);
    add(block, where,
        INSTR_CREATE_mov_imm(drcontext, opnd_create_reg(pair), OPND_CREATE_INT64((int64)site)));
    store_slot(drcontext, block, where, SLOT_ASK, pair);
    store_slot(drcontext, block, where, SLOT_STACK, DR_REG_XSP);
    detour(drcontext, block, where, slow_call, again, pair);

    add(block, where, known);
    add(block, where,
        INSTR_CREATE_mov_ld(drcontext, opnd_create_reg(pair), OPND_CREATE_MEM64(frame, 24)));
    add(block, where,
        INSTR_CREATE_shl(drcontext, opnd_create_reg(pair), OPND_CREATE_INT8(32)));
    add(block, where,
        INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM64(frame, 24), opnd_create_reg(pair)));
    add(block, where,
        INSTR_CREATE_lea(drcontext, opnd_create_reg(pair),
                         opnd_create_base_disp(DR_REG_XSP, DR_REG_NULL, 0, -8, OPSZ_lea)));
    add(block, where,
        INSTR_CREATE_mov_st(drcontext, OPND_CREATE_MEM64(frame, 16), opnd_create_reg(pair)));
    add(block, where,
        INSTR_CREATE_lea(drcontext, opnd_create_reg(frame),
                         opnd_create_base_disp(frame, DR_REG_NULL, 0, 16, OPSZ_lea)));
    store_slot(drcontext, block, where, SLOT_FRAME, frame);
    unreserve(drcontext, block, where, which);
    unreserve(drcontext, block, where, pair);
    unreserve(drcontext, block, where, frame);
    unreserve_flags(drcontext, block, where);
}

static void
end_record(void *drcontext, instrlist_t *block, instr_t *where, const group_t *group, reg_id_t at)
{
    uint32_t words = group->count + 1;
    if (group->calls) {
        put_context(drcontext, block, where, at, words);
        words++;
    }
    add(block, where,
        INSTR_CREATE_lea(drcontext, opnd_create_reg(at),
                         opnd_create_base_disp(at, DR_REG_NULL, 0, words * 8, OPSZ_lea)));
    store_slot(drcontext, block, where, SLOT_AT, at);
}

/* A register that the operand does not use. */
static reg_id_t
reserve_beside(void *drcontext, instrlist_t *block, instr_t *where, opnd_t operand)
{
    drvector_t allowed;
    drreg_init_and_fill_vector(&allowed, true);
    for (int i = 0; i < opnd_num_regs_used(operand); i++) {
        reg_id_t used = opnd_get_reg_used(operand, i);
        if (reg_is_gpr(used))
            drreg_set_vector_entry(&allowed, reg_to_pointer_sized(used), false);
    }
    reg_id_t reg = reserve_among(drcontext, block, where, &allowed);
    DR_ASSERT_MSG(reg != DR_REG_NULL, "no register");
    drvector_delete(&allowed);
    return reg;
}

/* Restores the program's values of the operand's registers, except `at`, which is in use. */
static void
restore_others(void *drcontext, instrlist_t *block, instr_t *where, opnd_t operand, reg_id_t at)
{
    for (int i = 0; i < opnd_num_regs_used(operand); i++) {
        reg_id_t used = opnd_get_reg_used(operand, i);
        if (reg_is_gpr(used) && reg_to_pointer_sized(used) != at) {
            used = reg_to_pointer_sized(used);
            drreg_get_app_value(drcontext, block, where, used, used);
        }
    }
}

static void
put_address(void *drcontext, instrlist_t *block, instr_t *where, opnd_t operand, reg_id_t at,
            uint32_t index)
{
    bool is_far = opnd_is_far_base_disp(operand) ||
        (opnd_is_base_disp(operand) && opnd_get_index(operand) == DR_REG_AL);
    bool is_hidden = opnd_uses_reg(operand, at);
    reg_id_t scratch = is_far ? reserve_beside(drcontext, block, where, operand) : DR_REG_NULL;
    reg_id_t address = is_far || is_hidden ? reserve_beside(drcontext, block, where, operand)
                                           : reserve(drcontext, block, where);
    restore_others(drcontext, block, where, operand, at);
    if (is_hidden) {
        /* The register holds our position; the program's value is in its spill slot. */
        drreg_reserve_info_t saved = { sizeof(saved) };
        drreg_reservation_info_ex(drcontext, at, &saved);
        DR_ASSERT(saved.reserved && saved.app_value_retained && !saved.holds_app_value);
        add(block, where,
            INSTR_CREATE_mov_ld(drcontext, opnd_create_reg(address), saved.opnd));
        opnd_replace_reg_resize(&operand, at, address);
    }
    drutil_insert_get_mem_addr(drcontext, block, where, operand, address, scratch);
    store_reg(drcontext, block, where, at, index, address);
    unreserve(drcontext, block, where, address);
    if (is_far)
        unreserve(drcontext, block, where, scratch);
}

void
inline_accesses(void *drcontext, instrlist_t *block, instr_t *where, plan_t *plan)
{
    access_t accesses[MOST_PER_INSTRUCTION];
    uint32_t count = plan->group < plan->groups ? accesses_of(where, accesses) : 0;
    if (count == 0)
        return;
    const group_t *group = &plan->group_list[plan->group];
    if (where == group->first) {
        plan->reference = 0;
        plan->at = reserve_for_group(drcontext, block, where, group);
    }
    bool borrowed = plan->at == DR_REG_NULL;
    reg_id_t at = borrowed ? reserve(drcontext, block, where) : plan->at;
    if (where == group->first)
        begin_record(drcontext, block, where, group, at);
    else if (borrowed)
        load_slot(drcontext, block, where, SLOT_AT, at);
    for (uint32_t i = 0; i < count; i++) {
        plan->reference++;
        put_address(drcontext, block, where, accesses[i].operand, at, plan->reference);
    }
    if (where == group->last) {
        end_record(drcontext, block, where, group, at);
        plan->group++;
    }
    if (borrowed || where == group->last)
        unreserve(drcontext, block, where, at);
}

/* ---- landings ---- */

/* At code that may be entered by a return or a jump out of functions: removes a dead frame and
 * writes the current context. */
void
inline_landing(void *drcontext, instrlist_t *block, instr_t *where)
{
    instr_t *end = INSTR_CREATE_label(drcontext);
    instr_t *one = INSTR_CREATE_label(drcontext);
    reserve_flags(drcontext, block, where);
    reg_id_t frame = reserve(drcontext, block, where);
    reg_id_t at = reserve(drcontext, block, where);
    opnd_t stack = opnd_create_reg(DR_REG_XSP);

    load_slot(drcontext, block, where, SLOT_FRAME, frame);
    add(block, where, INSTR_CREATE_cmp(drcontext, OPND_CREATE_MEM64(frame, 0), stack));
    add(block, where, INSTR_CREATE_jcc(drcontext, OP_jae, opnd_create_instr(end)));
    add(block, where, INSTR_CREATE_cmp(drcontext, OPND_CREATE_MEM64(frame, -16), stack));
    add(block, where, INSTR_CREATE_jcc(drcontext, OP_jae, opnd_create_instr(one)));
    store_slot(drcontext, block, where, SLOT_STACK, DR_REG_XSP);
    detour(drcontext, block, where, slow_landing, end, frame);

    add(block, where, one);
    load_slot(drcontext, block, where, SLOT_AT, at);
    store_word(drcontext, block, where, at, 1, 0);
    add(block, where,
        INSTR_CREATE_lea(drcontext, opnd_create_reg(frame),
                         opnd_create_base_disp(frame, DR_REG_NULL, 0, -16, OPSZ_lea)));
    store_slot(drcontext, block, where, SLOT_FRAME, frame);
    add(block, where,
        INSTR_CREATE_mov_ld(drcontext, opnd_create_reg(frame), OPND_CREATE_MEM64(frame, 8)));
    add(block, where,
        INSTR_CREATE_shr(drcontext, opnd_create_reg(frame), OPND_CREATE_INT8(32)));
    store_reg(drcontext, block, where, at, 0, frame);
    add(block, where,
        INSTR_CREATE_lea(drcontext, opnd_create_reg(at),
                         opnd_create_base_disp(at, DR_REG_NULL, 0, 8, OPSZ_lea)));
    store_slot(drcontext, block, where, SLOT_AT, at);
    add(block, where, end);
    unreserve(drcontext, block, where, at);
    unreserve(drcontext, block, where, frame);
    unreserve_flags(drcontext, block, where);
}

/* ---- slow paths: shared code that calls C and returns ---- */

static byte *
make_slow_path(void *drcontext, byte *at, void (*function)(void))
{
    instrlist_t *code = instrlist_create(drcontext);
    instr_t *back = INSTR_CREATE_jmp_ind(drcontext, slot(drcontext, SLOT_BACK));
    instrlist_meta_append(code, back);
    dr_insert_clean_call(drcontext, code, back, (void *)function, false, 0);
    byte *end = instrlist_encode(drcontext, code, at, false);
    instrlist_clear_and_destroy(drcontext, code);
    DR_ASSERT(end != NULL && end < slow_code + SLOW_BYTES);
    return (byte *)(((uint64_t)end + 63) & ~63ull);
}

void
inline_start(void)
{
    void *drcontext = dr_get_current_drcontext();
    slow_code = dr_nonheap_alloc(SLOW_BYTES,
                                 DR_MEMPROT_READ | DR_MEMPROT_WRITE | DR_MEMPROT_EXEC);
    slow_room = slow_code;
    slow_call = make_slow_path(drcontext, slow_room, thread_asks_for_room);
    slow_landing = make_slow_path(drcontext, slow_call, context_of_call);
    make_slow_path(drcontext, slow_landing, context_of_landing);
    dr_memory_protect(slow_code, SLOW_BYTES, DR_MEMPROT_READ | DR_MEMPROT_EXEC);
}

void
inline_stop(void)
{
    dr_nonheap_free(slow_code, SLOW_BYTES);
}
