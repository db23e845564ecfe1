/* Refrain's DynamoRIO client: writes every load and store of a program into rings in memory that it
 * shares with its compressor (crates/refrain-rings).
 *
 * Rules of this code, which runs inside other people's programs:
 * - The program cannot see it. The client keeps no descriptor open, installs no signal handler, and
 *   does not call the C library.
 * - The code that runs for each reference is generated inline (inline.c). C code runs when a block is
 *   built, when a chunk of a ring is full, and in rare cases.
 * - If the client cannot go on, the program continues without being recorded, and one line on
 *   standard error says so.
 *
 * client.c   initialization, exit, and the events of basic blocks
 * plan.c     the references of a basic block: records and their numbers
 * inline.c   generates the machine code that writes records
 * lanes.c    gathers and scatters
 * context.c  stack signatures: the tree of contexts, and each thread's shadow stack
 * faults.c   blocks that a fault interrupts
 * ring.c     the rings, and waiting for room in them
 * ledger.c   the tables that the compressor needs: blocks, contexts, modules, segments, threads
 * hello.c    shared memory and the connection to the compressor
 * modules.c  modules, build ids, symbols
 * segments.c modules, stacks and allocations as segments
 * threads.c  threads and their numbers, fork, exec
 * environment.c, limits.c  hide DynamoRIO's environment variables and descriptors
 * window.c   when to record: functions by name, MPI_Pcontrol
 * system.c   system calls, and the few functions that compilers expect
 */
#ifndef REFRAIN_CLIENT_H
#define REFRAIN_CLIENT_H

#include "dr_api.h"
#include "drmgr.h"
#include "drreg.h"
#include "drutil.h"
#include "drwrap.h"
#include "hashtable.h"
#include "refrain_rings.h"
#include <string.h>

/* The options on DynamoRIO's command line. */
typedef struct {
    char socket[108];
    char from[256];
    char until[256];
    bool libraries;
    bool contexts;
    bool walks;
} options_t;
extern options_t options;

/* ---- threads.c ---- */

/* Words of a thread that inline code addresses through a segment register. */
enum {
    SLOT_AT,    /* where the next record goes */
    SLOT_LIMIT, /* the last address where a record may begin; 0 makes the thread call
                 * thread_asks_for_room */
    SLOT_FRAME, /* the top frame of the shadow stack */
    SLOT_DEEP,  /* the end of the shadow stack */
    SLOT_BACK,  /* where a slow path returns to */
    SLOT_ASK,   /* the argument of a slow path */
    SLOT_STACK, /* the stack pointer when a slow path is called */
    SLOT_PAUSE, /* how long to pause in the code cache before asking for room (again) */
    SLOTS
};
extern reg_id_t slot_segment;
extern uint slot_offset;

/* A frame of the shadow stack: the address of the return address, and the context of the callee in
 * the upper half of the word (context.c explains why). */
typedef struct {
    uint64_t stack;
    uint64_t context;
} frame_t;

#define CHUNKS REFRAIN_CHUNKS
#define CHUNK_WORDS REFRAIN_CHUNK_WORDS
/* The most words of a record, with the context after it and the final 0. */
#define MOST_WORDS 1024
/* No record begins in the last words of a chunk: they are room for a record and a few contexts. */
#define MARGIN_WORDS (MOST_WORDS + 64)
#define FRAMES 65536

typedef struct thread {
    struct thread *next;
    uint64_t *slots;
    uint32_t number;
    uint32_t tid;
    process_id_t process; /* differs from the current one after vfork */
    struct refrain_ring *ring; /* NULL: none was left */
    uint32_t chunk;
    uint64_t chunk_ends[CHUNKS]; /* `published` after the last part of each chunk */
    uint64_t *ring_at;           /* the position in the ring while the thread is not recorded */
    uint64_t left;               /* when the thread last left the code cache, in cycles */
    bool recording;              /* SLOT_AT is in the ring, not in `scratch` */
    uint64_t *scratch;
    frame_t *frames;
    uint64_t signature; /* of the latest stack walk */
    void *limit_to;    /* where getrlimit writes the limit, */
    uint64_t limit[2]; /* and the limit */
    uint64_t asked; /* the size of the allocation in progress */
    uint64_t *asked_where; /* where posix_memalign writes its address */
} thread_t;

extern int thread_field;

static inline thread_t *
this_thread(void)
{
    return drmgr_get_tls_field(dr_get_current_drcontext(), thread_field);
}

void threads_start(void);
/* The address of the initial thread's arguments. */
uint64_t first_stack(void);
void threads_stop(void);
/* Calls `each` for every thread, without stopping the threads. */
void threads_visit(void (*each)(thread_t *));

/* ---- hello.c ---- */
extern struct refrain_control *control;
extern volatile bool connected; /* false before the connection, and after the compressor has stopped */
extern byte *ledger_buffer;
bool hello(void);
struct refrain_ring *ring_place(uint32_t index);
uint64_t ring_place_offset(uint32_t index);
void goodbye(void);
void forget_compressor(void);
#define MOST_RINGS 4096u
#define RING_BYTES (REFRAIN_RING_HEAD_BYTES + (uint64_t)CHUNKS * CHUNK_WORDS * 8)

/* ---- ring.c ---- */
/* For the thread that runs. */
void ring_begin(thread_t *thread);
/* For a thread that is not recorded. */
void ring_none(thread_t *thread);
void ring_end(thread_t *thread);
/* Publishes what the thread has written. With `must` it waits for room; otherwise it publishes only
 * if there is room. It does not wake the compressor, which polls often enough. */
void ring_publish(thread_t *thread, bool must);
/* The slow path at the beginning of a record: makes room, or has the inline code call it again. */
void thread_asks_for_room(void);
/* The same for C code: waits until there is room. */
void thread_needs_room(thread_t *thread);
void ring_bell(void);
/* In a forked child, whose parent owns all rings. */
void rings_forget(void);
bool compressor_is_gone(void);
uint64_t *thread_at(thread_t *thread);
/* Writes the number of a context. */
void thread_put_context(thread_t *thread, uint32_t number);

/* ---- ledger.c ---- */
void ledger_start(void);
void ledger_stop(void);
/* Numbers and announces a block or a context. Both are kept, for lookups and for forked children. */
uint32_t ledger_add_block(const struct refrain_reference *references, uint32_t count);
uint32_t ledger_add_context(uint32_t parent, uint64_t call, uint64_t function);
const struct refrain_block *ledger_block(uint32_t number);
const struct refrain_context *ledger_context(uint32_t number);
void ledger_put(const struct refrain_record *record);
/* Announces everything again, to the compressor of a forked child. */
void ledger_tell_again(void);

/* ---- modules.c ---- */
void modules_start(void);
void modules_stop(void);
void modules_tell_again(void);
bool is_recorded(app_pc pc);
uint64_t place_of(app_pc pc);
/* The address of a function of a module, exported or not; NULL if there is none. */
app_pc symbol_address(const module_data_t *module, const char *name);

/* ---- plan.c ---- */
#define MOST_PER_INSTRUCTION 8
typedef struct {
    opnd_t operand;
    uint32_t size;
    uint32_t kind;
} access_t;

/* One or more instructions whose references are one record. */
typedef struct {
    instr_t *first;
    instr_t *last;
    uint32_t number;
    uint32_t count;
    bool calls; /* its last instruction is a call: the context follows the record */
} group_t;

typedef struct {
    bool landing; /* the shadow stack may have dead frames here */
    uint32_t groups;
    uint32_t group;     /* the group that is being inserted, */
    uint32_t reference; /* and its next reference */
    reg_id_t at;
    group_t *group_list;
} plan_t;

void plans_start(void);
void plans_stop(void);
uint32_t accesses_of(instr_t *instr, access_t *accesses);
bool has_lanes(instr_t *instr);
plan_t *plan_make(void *drcontext, app_pc tag, instrlist_t *block);
void plan_free(void *drcontext, plan_t *plan);
uint32_t block_number(const struct refrain_reference *references, uint32_t count);

/* ---- inline.c ---- */
void inline_start(void);
void inline_stop(void);
void inline_landing(void *drcontext, instrlist_t *block, instr_t *where);
void inline_accesses(void *drcontext, instrlist_t *block, instr_t *where, plan_t *plan);

/* ---- lanes.c ---- */
void lanes_start(void);
void lanes_stop(void);
void lanes_insert(void *drcontext, instrlist_t *block, instr_t *where);

/* ---- context.c ---- */
#define SITE_PAIRS 8
typedef struct {
    /* (caller's context) << 32 | callee's context, indexed by the caller's lowest bits */
    uint64_t pairs[SITE_PAIRS];
    uint64_t call;
    uint64_t function;
} call_site_t;
void contexts_start(void);
void contexts_stop(void);
void contexts_begin_thread(thread_t *thread);
void contexts_end_thread(thread_t *thread);
call_site_t *call_site(instr_t *call);
uint32_t thread_context(thread_t *thread);
/* Slow paths of inline code. */
void context_of_call(void);
void context_of_landing(void);
/* Walks the shadow stack at every reference, to measure what that costs (ScalaMemTrace §3.3). */
void contexts_walk(void);

/* ---- faults.c ---- */
void faults_start(void);

/* ---- segments.c ---- */
void segments_start(void);
void segment_begin(uint32_t kind, uint32_t owner, uint64_t base, uint64_t size);
void segments_of_module(const module_data_t *module, uint32_t number);
void segment_of_stack(thread_t *thread, uint64_t stack, uint64_t base, uint64_t size);

/* ---- window.c ---- */
extern volatile int recording_wanted;
void window_start(void);
void window_of_module(const module_data_t *module);

/* ---- environment.c ---- */
void environment_clean(uint64_t stack);

/* ---- limits.c ---- */
bool limits_concern(int number);
void limits_before(void *drcontext, thread_t *thread, int number);
void limits_after(void *drcontext, thread_t *thread);

/* ---- system.c ---- */
long system_call(long number, long a, long b, long c, long d, long e, long f);
void say(const char *format, ...);
#endif
