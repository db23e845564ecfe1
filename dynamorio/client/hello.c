/* The connection to the compressor: the client creates shared memory and passes it to the compressor. */
#include "client.h"
#include <linux/futex.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

struct refrain_control *control;
volatile bool connected;
byte *ledger_buffer;

static byte *shared;
static bool is_segment; /* a System V segment, not a mapped memfd */
#define RINGS_AT ((uint64_t)REFRAIN_CONTROL_BYTES + REFRAIN_LEDGER_BYTES)
#define SHARED_BYTES (RINGS_AT + MOST_RINGS * RING_BYTES)

struct refrain_ring *
ring_place(uint32_t index)
{
    return (struct refrain_ring *)(shared + ring_place_offset(index));
}

uint64_t
ring_place_offset(uint32_t index)
{
    return RINGS_AT + index * RING_BYTES;
}

static long
interrupted_until_done(long number, long a, long b, long c)
{
    long result;
    do {
        result = system_call(number, a, b, c, 0, 0, 0);
    } while (result == -4 /* EINTR */);
    return result;
}

/* Sends the memory file, or the segment's identifier, and waits for the answer. */
static bool
introduce(int file, int segment)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t length = strlen(options.socket);
    if (length == 0 || length + 1 > sizeof(address.sun_path))
        return false;
    memcpy(address.sun_path + 1, options.socket, length);
    long connection =
        system_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, 0, 0, 0);
    if (connection < 0)
        return false;

    struct refrain_hello words = { REFRAIN_RINGS_MAGIC, REFRAIN_RINGS_VERSION, segment };
    struct iovec piece = { &words, sizeof(words) };
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } extra = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
    *(int *)CMSG_DATA(&extra.head) = file;
    struct msghdr message = { .msg_iov = &piece,
                              .msg_iovlen = 1,
                              .msg_control = file < 0 ? NULL : &extra,
                              .msg_controllen = file < 0 ? 0 : sizeof(extra) };
    bool met = interrupted_until_done(SYS_connect, connection, (long)&address,
                                      offsetof(struct sockaddr_un, sun_path) + 1 + length) == 0 &&
        interrupted_until_done(SYS_sendmsg, connection, (long)&message, MSG_NOSIGNAL) ==
            sizeof(words);
    if (met) {
        message.msg_control = NULL;
        message.msg_controllen = 0;
        met = interrupted_until_done(SYS_recvmsg, connection, (long)&message, 0) ==
                sizeof(words) &&
            words.magic == REFRAIN_RINGS_MAGIC && words.version == REFRAIN_RINGS_VERSION;
    }
    system_call(SYS_close, connection, 0, 0, 0, 0, 0);
    return met;
}

/* The limit on file sizes applies to memfds, too: past it, ftruncate would kill the program by
 * SIGXFSZ. */
static bool
fits_in_file(uint64_t bytes)
{
    struct rlimit limit;
    return system_call(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0) != 0 ||
        bytes <= limit.rlim_cur;
}

/* Maps a new memfd; its descriptor, or -1. */
static long
map_memory_file(void)
{
    long file = system_call(SYS_memfd_create, (long)"refrain", 1 /* MFD_CLOEXEC */, 0, 0, 0, 0);
    if (file < 0)
        return -1;
    size_t size = SHARED_BYTES;
    if (system_call(SYS_ftruncate, file, SHARED_BYTES, 0, 0, 0, 0) == 0)
        shared = dr_map_file(file, &size, 0, NULL, DR_MEMPROT_READ | DR_MEMPROT_WRITE, 0);
    if (shared != NULL && size == SHARED_BYTES)
        return file;
    system_call(SYS_close, file, 0, 0, 0, 0, 0);
    return -1;
}

/* Attaches a new System V segment; its identifier, or -1. It is removed at once: Linux keeps it
 * as long as the program or the compressor has it attached. */
static long
attach_segment(void)
{
    long segment = system_call(SYS_shmget, IPC_PRIVATE, SHARED_BYTES,
                               IPC_CREAT | 010000 /* SHM_NORESERVE */ | 0600, 0, 0, 0);
    if (segment < 0)
        return -1;
    long memory = system_call(SYS_shmat, segment, 0, 0, 0, 0, 0);
    system_call(SYS_shmctl, segment, IPC_RMID, 0, 0, 0, 0);
    if (memory < 0 && memory > -4096)
        return -1;
    shared = (byte *)memory;
    return segment;
}

bool
hello(void)
{
    if (shared != NULL) { /* a child's copy of its parent's mapping */
        if (is_segment)
            system_call(SYS_shmdt, (long)shared, 0, 0, 0, 0, 0);
        else
            dr_unmap_file(shared, SHARED_BYTES);
        shared = NULL;
    }
    connected = false;
    is_segment = !fits_in_file(SHARED_BYTES);
    long file = is_segment ? -1 : map_memory_file();
    long segment = is_segment ? attach_segment() : -1;
    bool met = false;
    if (file >= 0 || segment >= 0) {
        control = (struct refrain_control *)shared;
        ledger_buffer = shared + REFRAIN_CONTROL_BYTES;
        control->version = REFRAIN_RINGS_VERSION;
        control->pid = dr_get_process_id();
        control->front_end = REFRAIN_FRONT_END_DYNAMORIO;
        control->ledger_bytes = REFRAIN_LEDGER_BYTES;
        __atomic_store_n(&control->magic, REFRAIN_RINGS_MAGIC, __ATOMIC_RELEASE);
        met = introduce(file, segment);
    }
    if (file >= 0)
        system_call(SYS_close, file, 0, 0, 0, 0, 0);
    connected = met;
    if (!met) {
        say("process %d is not recorded: its compressor cannot be reached", dr_get_process_id());
    }
    return met;
}

/* The memory stays mapped, for threads that are just using it. */
void
forget_compressor(void)
{
    connected = false;
}

/* Tells the compressor that the process ends, and waits until it has written everything. */
void
goodbye(void)
{
    if (!connected)
        return;
    __atomic_store_n(&control->ended, 1, __ATOMIC_RELEASE);
    ring_bell();
    for (;;) {
        uint32_t state = __atomic_load_n(&control->state, __ATOMIC_ACQUIRE);
        if (state == REFRAIN_STATE_DONE || compressor_is_gone())
            break;
        struct {
            long seconds, nanoseconds;
        } patience = { 0, 100 * 1000 * 1000 };
        system_call(SYS_futex, (long)&control->state, FUTEX_WAIT, state, (long)&patience, 0, 0);
    }
}
