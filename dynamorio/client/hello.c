/* Meeting the compressor: a memory file of ours is mapped, sent to it, and closed. */
#include "client.h"
#include <linux/futex.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

struct refrain_control *control;
volatile bool connected;
byte *ledger_buffer;

static byte *shared;
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

/* Sends the memory file, and waits for the answer. */
static bool
introduce(int file)
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

    struct refrain_hello words = { REFRAIN_RINGS_MAGIC, REFRAIN_RINGS_VERSION, control->pid };
    struct iovec piece = { &words, sizeof(words) };
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } extra = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
    *(int *)CMSG_DATA(&extra.head) = file;
    struct msghdr message = { .msg_iov = &piece,
                              .msg_iovlen = 1,
                              .msg_control = &extra,
                              .msg_controllen = sizeof(extra) };
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

bool
hello(void)
{
    if (shared != NULL) { /* a child's copy of its parent's mapping */
        dr_unmap_file(shared, SHARED_BYTES);
        shared = NULL;
    }
    connected = false;
    long file = system_call(SYS_memfd_create, (long)"refrain", 1 /* MFD_CLOEXEC */, 0, 0, 0, 0);
    if (file < 0)
        return false;
    size_t size = SHARED_BYTES;
    if (system_call(SYS_ftruncate, file, SHARED_BYTES, 0, 0, 0, 0) == 0)
        shared = dr_map_file(file, &size, 0, NULL, DR_MEMPROT_READ | DR_MEMPROT_WRITE, 0);
    bool met = false;
    if (shared != NULL && size == SHARED_BYTES) {
        control = (struct refrain_control *)shared;
        ledger_buffer = shared + REFRAIN_CONTROL_BYTES;
        control->version = REFRAIN_RINGS_VERSION;
        control->pid = dr_get_process_id();
        control->front_end = REFRAIN_FRONT_END_DYNAMORIO;
        control->ledger_bytes = REFRAIN_LEDGER_BYTES;
        __atomic_store_n(&control->magic, REFRAIN_RINGS_MAGIC, __ATOMIC_RELEASE);
        met = introduce(file);
    }
    system_call(SYS_close, file, 0, 0, 0, 0, 0);
    connected = met;
    if (!met) {
        say("process %d is not recorded: its compressor cannot be reached", dr_get_process_id());
    }
    return met;
}

/* Nobody waits for it any more; what is mapped stays, for threads that are just using it. */
void
forget_compressor(void)
{
    connected = false;
}

/* Waits until all is written. */
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
