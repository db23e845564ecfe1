/*
 * The handler of a timer repeatedly jumps (siglongjmp) out of whatever it interrupts, including MPI
 * calls and the agent's own code. Afterwards calls must be recorded as before: the test counts the
 * last 500.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include "say.h"

static sigjmp_buf again;

/* The kernel may deliver the signal to a thread of the MPI library, which must not jump into the frames
 * of this thread. */
static void jump(int signal)
{
    if (gettid() != getpid())
        syscall(SYS_tgkill, getpid(), getpid(), signal);
    else
        siglongjmp(again, 1);
}

int main(int argc, char **argv)
{
    static volatile int jumps;
    int rank, size;
    MPI_Init(&argc, &argv);
    signal(SIGALRM, jump);
    if (sigsetjmp(again, 1))
        jumps++;
    if (jumps < 20) {
        struct itimerval soon = {{0, 0}, {0, 2000}};
        setitimer(ITIMER_REAL, &soon, NULL);
        for (;;)
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    for (int i = 0; i < 500; i++)
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    say("jumped %d times", jumps);
    MPI_Finalize();
    return 0;
}
