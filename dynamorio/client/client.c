/* Initialization and exit of the client, and the events of basic blocks. */
#include "client.h"

options_t options;
static hashtable_t counted; /* basic blocks, by address */

static dr_emit_flags_t
expand(void *drcontext, void *tag, instrlist_t *block, bool for_trace, bool translating)
{
    /* Each repetition of a string instruction becomes a block. */
    if (is_recorded(dr_fragment_app_pc(tag)))
        drutil_expand_rep_string(drcontext, block);
    return DR_EMIT_DEFAULT;
}

/* Counts each basic block once; DynamoRIO builds some again. How many blocks of other code run tells
 * whether the work of a program is in its libraries. */
static void
count_block(app_pc pc, bool recorded)
{
    if (hashtable_add(&counted, pc, (void *)1) && connected) {
        __atomic_fetch_add(recorded ? &control->recorded_blocks : &control->skipped_blocks, 1,
                           __ATOMIC_RELAXED);
    }
}

static dr_emit_flags_t
analyse(void *drcontext, void *tag, instrlist_t *block, bool for_trace, bool translating,
        void **plan)
{
    app_pc pc = dr_fragment_app_pc(tag);
    bool recorded = is_recorded(pc);
    if (!translating)
        count_block(pc, recorded);
    *plan = recorded ? plan_make(drcontext, pc, block) : NULL;
    return DR_EMIT_DEFAULT;
}

static dr_emit_flags_t
insert(void *drcontext, void *tag, instrlist_t *block, instr_t *instr, bool for_trace,
       bool translating, void *data)
{
    plan_t *plan = data;
    if (plan != NULL && plan->landing && drmgr_is_first_instr(drcontext, instr))
        inline_landing(drcontext, block, instr);
    if (plan != NULL && instr_is_app(instr)) {
        if (has_lanes(instr))
            lanes_insert(drcontext, block, instr);
        else
            inline_accesses(drcontext, block, instr, plan);
        if (options.walks && (instr_reads_memory(instr) || instr_writes_memory(instr)))
            dr_insert_clean_call(drcontext, block, instr, (void *)contexts_walk, false, 0);
    }
    if (plan != NULL && drmgr_is_last_instr(drcontext, instr))
        plan_free(drcontext, plan);
    return DR_EMIT_DEFAULT;
}

static void
publish(thread_t *thread)
{
    ring_publish(thread, true);
}

static void
at_exit(void)
{
    threads_visit(publish);
    goodbye();
    drmgr_unregister_bb_insertion_event(insert);
    lanes_stop();
    plans_stop();
    contexts_stop();
    inline_stop();
    modules_stop();
    threads_stop();
    ledger_stop();
    hashtable_delete(&counted);
    drwrap_exit();
    drutil_exit();
    drreg_exit();
    drmgr_exit();
}

/* socket=NAME libraries contexts walks from=F until=G */
static void
read_options(int count, const char *words[])
{
    for (int i = 1; i < count; i++) {
        const char *word = words[i];
        size_t length = strlen(word);
        if (length > 7 && memcmp(word, "socket=", 7) == 0)
            strncpy(options.socket, word + 7, sizeof(options.socket) - 1);
        else if (length > 5 && memcmp(word, "from=", 5) == 0)
            strncpy(options.from, word + 5, sizeof(options.from) - 1);
        else if (length > 6 && memcmp(word, "until=", 6) == 0)
            strncpy(options.until, word + 6, sizeof(options.until) - 1);
        else if (strcmp(word, "libraries") == 0)
            options.libraries = true;
        else if (strcmp(word, "contexts") == 0)
            options.contexts = true;
        else if (strcmp(word, "walks") == 0)
            options.walks = true;
    }
}

DR_EXPORT void
dr_client_main(client_id_t id, int argc, const char *argv[])
{
    dr_set_client_name("Refrain", "");
    read_options(argc, argv);
    environment_clean(first_stack());
    if (!hello())
        return;
    drreg_options_t registers = { sizeof(registers), 6, false };
    drmgr_priority_t after_wraps = { sizeof(after_wraps), "refrain", NULL, NULL,
                                     DRMGR_PRIORITY_INSERT_DRWRAP + 100 };
    if (!drmgr_init() || !drutil_init() || drreg_init(&registers) != DRREG_SUCCESS ||
        !drwrap_init()) {
        say("process %d is not recorded: DynamoRIO's extensions do not start",
            dr_get_process_id());
        return;
    }
    hashtable_init_ex(&counted, 12, HASH_INTPTR, false, true, NULL, NULL, NULL);
    ledger_start();
    ledger_add_block(NULL, 0); /* number 0 marks the end of the words */
    modules_start();
    contexts_start();
    plans_start();
    lanes_start();
    threads_start();
    inline_start();
    segments_start();
    window_start();
    faults_start();
    drmgr_register_bb_app2app_event(expand, &after_wraps);
    drmgr_register_bb_instrumentation_event(analyse, insert, &after_wraps);
    dr_register_exit_event(at_exit);
}
