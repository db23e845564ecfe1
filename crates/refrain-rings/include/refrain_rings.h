/* The memory that a traced process shares with its compressor; see the documentation of the
 * crate `refrain-rings`, of which this is the C side. All numbers are little-endian, as x86-64
 * has them. `volatile`/atomic access is the writer's business; the ordering that is needed is
 * said with each field. */
#ifndef REFRAIN_RINGS_H
#define REFRAIN_RINGS_H
#include <stdint.h>

#define REFRAIN_RINGS_MAGIC 0x53474e4952464552ull /* "REFRINGS" */
#define REFRAIN_RINGS_VERSION 1u
#define REFRAIN_RINGS_SOCKET "REFRAIN_MEM_SOCKET" /* environment: name of the abstract socket */

#define REFRAIN_CONTROL_BYTES 4096u
#define REFRAIN_LEDGER_BYTES (1u << 20) /* usual; any power of two of at least 64 KiB */
#define REFRAIN_RING_HEAD_BYTES 4096u
#define REFRAIN_RING_PARTS 64u
#define REFRAIN_CHUNK_WORDS 4096u /* usual */
#define REFRAIN_CHUNKS 8u         /* usual; a power of two, 2 to 64 */

/* Offset 0 of the shared memory. */
struct refrain_control {
    uint64_t magic;
    uint32_t version;
    uint32_t pid;             /* of the traced process, as it sees itself */
    uint32_t front_end;       /* REFRAIN_FRONT_END_* */
    uint32_t ledger_bytes;    /* the ledger's buffer is at REFRAIN_CONTROL_BYTES */
    uint8_t reserved0[40];
    /* 64: written by the program */
    uint64_t ledger_written;  /* bytes ever put into the ledger; stored (release) after them */
    uint32_t ended;           /* 1: nothing more will come */
    uint32_t doorbell;        /* futex: add 1 and wake if `compressor_sleeps` */
    uint32_t replaced;        /* 1 while the process calls exec; 0 again if exec fails */
    uint32_t recorded_blocks; /* distinct basic blocks of recorded code that ran; 0 if not counted */
    uint32_t skipped_blocks;  /* distinct basic blocks of other code that ran */
    uint8_t reserved1[36];
    /* 128: written by the compressor */
    uint64_t ledger_read;     /* bytes ever taken out of the ledger */
    uint32_t ledger_room;     /* futex: changes with ledger_read (its low half) */
    uint32_t compressor_sleeps;
    uint32_t compressor_pid;  /* 0 until it has begun */
    uint32_t state;           /* futex: REFRAIN_STATE_* */
    uint8_t reserved2[40];
    /* 192: written by the program */
    uint32_t ledger_waits;    /* 1 while the program waits for room in the ledger */
    uint8_t reserved3[60];
};

enum { REFRAIN_FRONT_END_DYNAMORIO = 1, REFRAIN_FRONT_END_COMPILED = 2 };
enum {
    REFRAIN_STATE_STARTING = 0,
    REFRAIN_STATE_RUNNING = 1,
    REFRAIN_STATE_DONE = 2, /* all is written: a process that ends waits for this */
    REFRAIN_STATE_GONE = 3  /* the compressor died: do not wait, stop recording, tell the user once */
};

struct refrain_part {
    uint64_t start;  /* index of the first word, from the beginning of the ring's words */
    uint64_t words;  /* whole records only */
    uint64_t ledger; /* `ledger_written` when the part was published */
    uint64_t reserved;
};

/* A ring: this head, REFRAIN_RING_HEAD_BYTES in all, then chunks * chunk_words words. */
struct refrain_ring {
    /* 0: written by the thread */
    uint64_t at;         /* where the next record goes: an address in the program's memory */
    uint64_t end;        /* the end of the current chunk, likewise */
    uint64_t first;      /* where the words that are not yet published begin, likewise */
    uint64_t words_at;   /* address of the ring's first word, likewise */
    uint64_t published;  /* parts ever published; stored (release) after the part */
    uint32_t waits;      /* 1 while the thread waits for the compressor */
    uint32_t reserved0;
    uint64_t reserved1[2];
    /* 64: written by the compressor */
    uint64_t consumed;   /* parts ever consumed; stored (release) after their words were read */
    uint32_t room;       /* futex: the low half of `consumed` */
    uint8_t reserved2[52];
    /* 128 */
    uint32_t thread;
    uint32_t chunk_words;
    uint32_t chunks;
    uint8_t reserved3[52];
    /* 192: part number n is in parts[n % REFRAIN_RING_PARTS] */
    struct refrain_part parts[REFRAIN_RING_PARTS];
};

/* Records of the ledger: each begins with this head, and takes a multiple of 8 bytes. */
struct refrain_record {
    uint32_t kind;  /* REFRAIN_RECORD_* */
    uint32_t bytes; /* with the head; at most a quarter of the ledger */
};

enum {
    REFRAIN_RECORD_MODULE = 1,
    REFRAIN_RECORD_BLOCK = 2,
    REFRAIN_RECORD_CONTEXT = 3,
    REFRAIN_RECORD_SEGMENT = 4,
    REFRAIN_RECORD_THREAD = 5,
    REFRAIN_RECORD_THREAD_END = 6
};

/* A place in the program: the module's number in the upper 16 bits, the offset from the module's
 * base (its load bias: the address that debug information knows) in the lower 48. Module 0 is no
 * module: the rest is an address. */
#define REFRAIN_PC(module, offset) (((uint64_t)(module) << 48) | (uint64_t)(offset))

struct refrain_module {
    struct refrain_record head;
    uint32_t module;      /* 1, 2, 3 ... */
    uint32_t path_bytes;
    uint32_t build_id_bytes;
    uint32_t is_main;     /* 1 for the program itself */
    uint64_t base;        /* load bias */
    uint64_t size;        /* of the mapped range that begins at base, or 0 */
    /* path, then build id, then zeros up to a multiple of 8 */
};

enum { REFRAIN_KIND_LOAD = 0, REFRAIN_KIND_STORE = 1, REFRAIN_KIND_ATOMIC = 2 };

struct refrain_reference {
    uint64_t pc;
    uint32_t size;
    uint32_t kind; /* REFRAIN_KIND_* */
};

/* A block: numbers 0, 1, 2 ... in the order of the ledger, shared with contexts. */
struct refrain_block {
    struct refrain_record head;
    uint32_t block;
    uint32_t references;
    /* struct refrain_reference [references] */
};

/* A node of the tree of stack signatures. It is a block without references: its number stands in
 * the stream wherever references begin to have this context. */
#define REFRAIN_NO_CONTEXT 0xffffffffu
struct refrain_context {
    struct refrain_record head;
    uint32_t block;    /* its number */
    uint32_t parent;   /* the number of the context of the caller; or REFRAIN_NO_CONTEXT */
    uint64_t call;     /* PC of the call (or return address), 0 if unknown */
    uint64_t function; /* PC in the function that was called, 0 if unknown */
};

enum {
    REFRAIN_SEGMENT_MODULE = 0,
    REFRAIN_SEGMENT_HEAP = 1,
    REFRAIN_SEGMENT_STACK = 2,
    REFRAIN_SEGMENT_MAPPING = 3
};

struct refrain_segment {
    struct refrain_record head;
    uint32_t kind;  /* REFRAIN_SEGMENT_* */
    uint32_t owner; /* the thread that allocated it or whose stack it is; a module's number */
    uint64_t base;
    uint64_t size;
};

struct refrain_thread {
    struct refrain_record head;
    uint32_t thread; /* 0, 1, 2 ... in the order of creation */
    uint32_t tid;    /* of the kernel */
    uint64_t ring;   /* offset of its ring in the shared memory */
    uint64_t ring_bytes;
};

struct refrain_thread_end {
    struct refrain_record head;
    uint32_t thread;
    uint32_t reserved;
};

/* What is sent over the socket (SOCK_SEQPACKET); the answer is one message of the same form, sent
 * when the compressor has begun. The shared memory is a memfd, sent along as SCM_RIGHTS. Where the
 * limit on file sizes (RLIMIT_FSIZE), which holds for memfds, is smaller than the shared memory, it
 * is a System V segment instead, and its identifier is sent. The kernel says which process sends. */
struct refrain_hello {
    uint64_t magic;
    uint32_t version;
    int32_t segment; /* identifier for shmat; means nothing if a memfd is sent along */
};
#endif
