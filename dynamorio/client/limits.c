/* The limit on descriptors. By default DynamoRIO reserves some descriptors and lowers the limit that
 * the program sees. With -steal_fds 0 it reserves none, but reports a limit of 0 (11.90). So the
 * client gives the program the kernel's answer. */
#include "client.h"
#include <sys/resource.h>
#include <sys/syscall.h>

bool
limits_concern(int number)
{
    return number == SYS_getrlimit || number == SYS_prlimit64;
}

void
limits_before(void *drcontext, thread_t *thread, int number)
{
    bool ancient = number == SYS_getrlimit;
    long process = ancient ? 0 : (long)dr_syscall_get_param(drcontext, 0);
    int resource = (int)dr_syscall_get_param(drcontext, ancient ? 0 : 1);
    thread->limit_to = (void *)dr_syscall_get_param(drcontext, ancient ? 1 : 3);
    if (resource != RLIMIT_NOFILE || thread->limit_to == NULL ||
        system_call(SYS_prlimit64, process, RLIMIT_NOFILE, 0, (long)thread->limit, 0, 0) != 0)
        thread->limit_to = NULL;
}

void
limits_after(void *drcontext, thread_t *thread)
{
    size_t written;
    if (thread->limit_to != NULL && (long)dr_syscall_get_result(drcontext) == 0)
        dr_safe_write(thread->limit_to, sizeof(thread->limit), thread->limit, &written);
    thread->limit_to = NULL;
}
