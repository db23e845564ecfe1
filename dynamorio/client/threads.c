/* Threads and their numbers, fork, and exec.
 *
 * A thread gets its number from its parent, when it is created: new threads begin to run in no
 * particular order, and what a thread does is often a function of its number. The system call that
 * creates a thread names its stack, by which the new thread is recognised. */
#include "client.h"
#include <linux/sched.h>
#include <sys/syscall.h>

reg_id_t slot_segment;
uint slot_offset;
int thread_field;

static void *lock;
static process_id_t process;
static thread_t *threads;
static uint32_t next_number;

typedef struct expected {
    struct expected *next;
    void *parent;
    uint64_t top; /* of its stack */
    uint64_t base, size;
    uint32_t number;
} expected_t;
static expected_t *expected;
#define NEAR_TOP 65536

/* ---- creation ---- */

static bool
is_exec(int number)
{
    return number == SYS_execve || number == SYS_execveat;
}

/* Tells the compressor that the process is about to become another program, or that this failed.
 * A vfork child that becomes another program does not end its parent. */
static void
note_exec(uint32_t is_under_way)
{
    if (connected && dr_get_process_id() == process)
        __atomic_store_n(&control->replaced, is_under_way, __ATOMIC_RELEASE);
}

static bool
reads_syscall(void *drcontext, int number)
{
    return number == SYS_clone || number == SYS_clone3 || is_exec(number) ||
        limits_concern(number);
}

static bool
before_syscall(void *drcontext, int number)
{
    expected_t child = { .parent = drcontext };
    uint64_t flags = 0;
    if (limits_concern(number)) {
        limits_before(drcontext, this_thread(), number);
    } else if (is_exec(number)) {
        /* If exec succeeds, nobody publishes these words later. */
        ring_publish(this_thread(), true);
        note_exec(1);
    } else if (number == SYS_clone) {
        flags = dr_syscall_get_param(drcontext, 0);
        child.top = dr_syscall_get_param(drcontext, 1);
    } else if (number == SYS_clone3) {
        struct clone_args arguments;
        size_t read;
        if (!dr_safe_read((void *)dr_syscall_get_param(drcontext, 0), CLONE_ARGS_SIZE_VER0,
                          &arguments, &read))
            return true;
        flags = arguments.flags;
        child.base = arguments.stack;
        child.size = arguments.stack_size;
        child.top = arguments.stack + arguments.stack_size;
    }
    if ((flags & CLONE_THREAD) == 0 || child.top == 0)
        return true;
    expected_t *entry = dr_global_alloc(sizeof(*entry));
    dr_mutex_lock(lock);
    child.number = next_number++;
    child.next = expected;
    *entry = child;
    expected = entry;
    dr_mutex_unlock(lock);
    return true;
}

/* Removes the first entry that matches from the list. */
static bool
take_expected(void *parent, uint64_t stack, expected_t *found)
{
    bool any = false;
    dr_mutex_lock(lock);
    for (expected_t **link = &expected; *link != NULL; link = &(*link)->next) {
        expected_t *entry = *link;
        if (parent != NULL ? entry->parent == parent
                           : stack <= entry->top && entry->top - stack < NEAR_TOP) {
            *found = *entry;
            *link = entry->next;
            dr_global_free(entry, sizeof(*entry));
            any = true;
            break;
        }
    }
    dr_mutex_unlock(lock);
    return any;
}

static void
after_syscall(void *drcontext, int number)
{
    expected_t failed;
    if (limits_concern(number)) {
        limits_after(drcontext, this_thread());
        return;
    }
    if (is_exec(number))
        note_exec(0);
    if ((long)dr_syscall_get_result(drcontext) < 0 &&
        take_expected(drcontext, 0, &failed)) {
        dr_mutex_lock(lock);
        if (failed.number + 1 == next_number)
            next_number--;
        dr_mutex_unlock(lock);
    }
}

/* ---- begin and end ---- */

/* When the initial thread begins, DynamoRIO does not know its stack yet. */
uint64_t
first_stack(void)
{
    char text[1024];
    file_t file = dr_open_file("/proc/self/stat", DR_FILE_READ);
    ssize_t size = file == INVALID_FILE ? 0 : dr_read_file(file, text, sizeof(text) - 1);
    if (file != INVALID_FILE)
        dr_close_file(file);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    /* The name in brackets may hold anything; the third field follows its end. */
    char *at = text + size;
    while (at > text && *at != ')')
        at--;
    for (int field = 2; field < 28; field++) {
        at++;
        while (*at != ' ' && *at != '\0')
            at++;
    }
    uint64_t stack = 0;
    for (; *at == ' ' || (*at >= '0' && *at <= '9'); at++) {
        if (*at != ' ')
            stack = stack * 10 + (*at - '0');
        else if (stack != 0)
            break;
    }
    return stack;
}

static void
begin_thread(void *drcontext, thread_t *thread)
{
    dr_mcontext_t context = { .size = sizeof(context), .flags = DR_MC_CONTROL };
    uint64_t stack = dr_get_mcontext(drcontext, &context) ? context.xsp : 0;
    expected_t child = { .number = 0 };
    thread->tid = dr_get_thread_id(drcontext);
    thread->process = dr_get_process_id();
    if (thread->process != process) {
        /* A vfork child: a process of its own that borrows this one's memory until it becomes
         * another program. It is not a thread of this process, and is not recorded. */
        ring_none(thread);
        return;
    }
    if (stack == 0 || !take_expected(NULL, stack, &child)) {
        dr_mutex_lock(lock);
        child.number = next_number++;
        dr_mutex_unlock(lock);
    }
    if (stack == 0 && child.number == 0)
        stack = first_stack();
    thread->number = child.number;
    ring_begin(thread);
    if (stack != 0 && connected)
        segment_of_stack(thread, stack, child.base, child.size);
}

static void
at_begin(void *drcontext)
{
    thread_t *thread = dr_global_alloc(sizeof(*thread));
    memset(thread, 0, sizeof(*thread));
    thread->slots = (uint64_t *)((byte *)dr_get_dr_segment_base(slot_segment) + slot_offset);
    memset(thread->slots, 0, SLOTS * 8);
    drmgr_set_tls_field(drcontext, thread_field, thread);
    contexts_begin_thread(thread);
    begin_thread(drcontext, thread);
    dr_mutex_lock(lock);
    thread->next = threads;
    threads = thread;
    dr_mutex_unlock(lock);
}

static void
at_end(void *drcontext)
{
    /* Not always the current thread: others end with the process, or by vfork and exec. */
    thread_t *thread = drmgr_get_tls_field(drcontext, thread_field);
    if (thread == NULL)
        return;
    if (dr_get_process_id() != process && dr_get_process_id() != thread->process) {
        /* A child, whose copies of its parent's other threads are cleaned away before it knows
         * that it is one (at_fork). The rings are the parent's. */
        contexts_end_thread(thread);
        drmgr_set_tls_field(drcontext, thread_field, NULL);
        dr_global_free(thread, sizeof(*thread));
        return;
    }
    dr_mutex_lock(lock);
    for (thread_t **link = &threads; *link != NULL; link = &(*link)->next) {
        if (*link == thread) {
            *link = thread->next;
            break;
        }
    }
    dr_mutex_unlock(lock);
    ring_end(thread);
    contexts_end_thread(thread);
    drmgr_set_tls_field(drcontext, thread_field, NULL);
    dr_global_free(thread, sizeof(*thread));
}

void
threads_visit(void (*each)(thread_t *))
{
    dr_mutex_lock(lock);
    for (thread_t *thread = threads; thread != NULL; thread = thread->next)
        each(thread);
    dr_mutex_unlock(lock);
}

/* A forked child has one thread, and gets a compressor of its own. The code cache keeps its block
 * numbers, so everything is announced to the new compressor again. */
static void
at_fork(void *drcontext)
{
    thread_t *thread = this_thread();
    lock = dr_mutex_create();
    process = dr_get_process_id();
    expected = NULL;
    threads = thread;
    next_number = 0;
    rings_forget();
    if (thread == NULL)
        return;
    thread->next = NULL;
    hello();
    ledger_tell_again();
    modules_tell_again();
    begin_thread(drcontext, thread);
}

void
threads_start(void)
{
    lock = dr_mutex_create();
    process = dr_get_process_id();
    thread_field = drmgr_register_tls_field();
    if (!dr_raw_tls_calloc(&slot_segment, &slot_offset, SLOTS, 0))
        DR_ASSERT_MSG(false, "no thread-local words");
    drmgr_register_thread_init_event(at_begin);
    drmgr_register_thread_exit_event(at_end);
    dr_register_filter_syscall_event(reads_syscall);
    drmgr_register_pre_syscall_event(before_syscall);
    drmgr_register_post_syscall_event(after_syscall);
    dr_register_fork_init_event(at_fork);
}

void
threads_stop(void)
{
    dr_raw_tls_cfree(slot_offset, SLOTS);
    drmgr_unregister_tls_field(thread_field);
    dr_mutex_destroy(lock);
}
