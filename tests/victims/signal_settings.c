/*
 * The signal state of a program: handlers, masks, alternative stacks, and that no unexpected signal
 * arrives. It must be the same before and after thousands of calls, in the main thread and others.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include "say.h"

static int rank;
static volatile sig_atomic_t arrived;

static void handler(int number)
{
    (void) number;
    arrived++;
}

static void *look(void *who)
{
    sigset_t set, now;
    int value, changed = 0, masked = 0;
    struct sigaction action, before[NSIG];
    stack_t stack;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGWINCH);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &before[s]) != 0)
            before[s].sa_handler = NULL;
    for (int i = 0; i < 30000; i++) {
        MPI_Comm_rank(MPI_COMM_WORLD, &value);
        MPI_Comm_size(MPI_COMM_WORLD, &value);
    }
    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &action) == 0 && action.sa_handler != before[s].sa_handler)
            changed++;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int s = 1; s < NSIG; s++)
        masked += sigismember(&now, s) == 1;
    sigaltstack(NULL, &stack);
    say("rank %d: %s: %d handlers changed, %d signals masked, stack %s", rank, (char *) who, changed, masked,
        stack.ss_flags & SS_DISABLE ? "none" : "some");
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    sigset_t pending;
    int provided, waiting = 0;
    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP && s != SIGCHLD && s != SIGSEGV)
            signal(s, handler);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    arrived = 0;
    look("main");
    pthread_create(&thread, NULL, look, "thread");
    pthread_join(thread, NULL);
    raise(SIGUSR1);
    raise(SIGUSR2);
    sigpending(&pending);
    for (int s = 1; s < NSIG; s++)
        waiting += sigismember(&pending, s) == 1;
    say("rank %d: %d arrived, %d waiting", rank, (int) arrived, waiting);
    MPI_Finalize();
    return 0;
}
