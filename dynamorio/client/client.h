/* Refrain's client of DynamoRIO: writes every load and store of a program into the rings that it
 * shares with its compressor (crates/refrain-rings).
 *
 * The rules of this code, which runs inside other people's programs:
 * - It changes nothing that the program can see: no descriptor of ours stays open, no signal
 *   handler, no memory of the C library is used. Nothing here calls the C library at all.
 * - What is executed per reference is written inline (inline.c). C code runs where a block is seen
 *   for the first time, where a chunk of the ring is full, and in the rare cases.
 * - When something is beyond us, the program goes on without being recorded, and one line on
 *   standard error says so.
 *
 * plan.c     what a basic block refers to: records and their numbers
 * inline.c   the machine code that writes records
 * lanes.c    gathers and scatters
 * context.c  stack signatures: the tree, and the shadow stack of each thread
 * faults.c   blocks that a fault ends half-way
 * ring.c     the rings, and when to wait
 * ledger.c   the tables that the compressor is told of
 * hello.c    meeting the compressor
 * modules.c  modules, build ids, symbols
 * segments.c where memory lies
 * threads.c  threads and their numbers, fork
 * environment.c, limits.c  what the program would see of us
 * window.c   when to record: functions by name, MPI_Pcontrol
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

/* Options, as the launcher gives them. */
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

/* Words of a thread that inline code reaches at a fixed offset of a segment register. */
enum {
    SLOT_AT,    /* where the next record goes */
    SLOT_LIMIT, /* records may begin up to here; 0 calls the thread into thread_asks_for_room */
    SLOT_FRAME, /* the uppermost frame of the shadow stack */
    SLOT_DEEP,  /* where it is full */
    SLOT_BACK,  /* where a slow path goes on */
    SLOT_ASK,   /* what it is asked */
    SLOT_STACK, /* the stack pointer when it is asked */
    SLOT_PAUSE, /* how long to pause in the code cache before asking for room (again) */
    SLOTS
};
extern reg_id_t slot_segment;
extern uint slot_offset;

/* A frame of the shadow stack: where the return address is, and the context of the code that was
 * called, in the upper half of the word (context.c says why). */
typedef struct {
    uint64_t stack;
    uint64_t context;
} frame_t;

#define CHUNKS REFRAIN_CHUNKS
#define CHUNK_WORDS REFRAIN_CHUNK_WORDS
/* No record has more words, with the context behind it and the 0 that ends all. */
#define MOST_WORDS 1024
/* Words at a chunk's end in which no record begins: room for a record and a few contexts. */
#define MARGIN_WORDS (MOST_WORDS + 64)
#define FRAMES 65536

typedef struct thread {
    struct thread *next;
    uint64_t *slots;
    uint32_t number;
    uint32_t tid;
    process_id_t process; /* another than ours after vfork */
    struct refrain_ring *ring; /* NULL: none was left */
    uint32_t chunk;
    uint64_t chunk_ends[CHUNKS]; /* `published` after the last part of each chunk */
    uint64_t *ring_at;           /* where to go on in the ring while not recording */
    uint64_t left;               /* when the code cache was left last for sure: cycles */
    bool recording;              /* at is in the ring, not in `scratch` */
    uint64_t *scratch;
    frame_t *frames;
    uint64_t signature; /* of the latest walk */
    void *limit_to;    /* where a limit that is asked for goes, */
    uint64_t limit[2]; /* and what it is */
    uint64_t asked; /* bytes asked for by the allocation that is under way */
    uint64_t *asked_where; /* where its address is put, if it is not returned */
} thread_t;

extern int thread_field;

static inline thread_t *
this_thread(void)
{
    return drmgr_get_tls_field(dr_get_current_drcontext(), thread_field);
}

void threads_start(void);
/* Where the kernel put the first thread's arguments. */
uint64_t first_stack(void);
void threads_stop(void);
/* Calls `each` for every thread; they go on running. */
void threads_visit(void (*each)(thread_t *));

/* ---- hello.c ---- */
extern struct refrain_control *control;
extern volatile bool connected; /* false: nothing is recorded (any more) */
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
void ring_end(thread_t *thread);
/* Publishes what the thread has written; if it need not be, only if there is room. The compressor
 * is not woken for it: there are many of these, and it looks by itself before it is needed. */
void ring_publish(thread_t *thread, bool must);
/* The slow path of a record's begin: there is room afterwards, or it is asked again. */
void thread_asks_for_room(void);
/* The same for C code: there is room afterwards. */
void thread_needs_room(thread_t *thread);
void ring_bell(void);
/* In a child: none of the parent's rings is ours. */
void rings_forget(void);
bool compressor_is_gone(void);
uint64_t *thread_at(thread_t *thread);
/* A word of its own: the number of a context. */
void thread_put_context(thread_t *thread, uint32_t number);

/* ---- ledger.c ---- */
void ledger_start(void);
void ledger_stop(void);
/* Numbers and announces a block or a context; both are kept, for lookups and for fork. */
uint32_t ledger_add_block(const struct refrain_reference *references, uint32_t count);
uint32_t ledger_add_context(uint32_t parent, uint64_t call, uint64_t function);
const struct refrain_block *ledger_block(uint32_t number);
const struct refrain_context *ledger_context(uint32_t number);
void ledger_put(const struct refrain_record *record);
/* Tells a new compressor all that was announced before. */
void ledger_tell_again(void);

/* ---- modules.c ---- */
void modules_start(void);
void modules_stop(void);
void modules_tell_again(void);
bool is_recorded(app_pc pc);
uint64_t place_of(app_pc pc);
/* Where a function of a module is, exported or not; NULL if it has none of this name. */
app_pc symbol_address(const module_data_t *module, const char *name);

/* ---- plan.c ---- */
#define MOST_PER_INSTRUCTION 8
typedef struct {
    opnd_t operand;
    uint32_t size;
    uint32_t kind;
} access_t;

/* A record: one or more instructions whose references are written as one block. */
typedef struct {
    instr_t *first;
    instr_t *last;
    uint32_t number;
    uint32_t count;
    bool calls; /* its last instruction is a call: the context follows */
} group_t;

typedef struct {
    bool landing; /* the shadow stack may have to be corrected here */
    uint32_t groups;
    uint32_t group;     /* the insertion is here */
    uint32_t reference; /* and at this reference of the group */
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
    /* (context of the caller) << 32 | context of the callee, by the caller's lowest bits */
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
/* Walks the shadow stack, for `walks`: which need not be done for every reference (ScalaMemTrace §3.3). */
void contexts_walk(void);

/* ---- faults.c ---- */
void faults_start(void);

/* ---- segments.c ---- */
void segments_start(void);
void segment_begin(uint32_t kind, uint32_t owner, uint64_t base, uint64_t size);
void segments_of_module(const module_data_t *module);
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
