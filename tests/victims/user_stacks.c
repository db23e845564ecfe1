/*
 * Coroutines: MPI is called from stacks that the program has mapped itself, leaves in the middle of
 * a call for ever, and unmaps.
 *
 * A tool that remembers the stack address of a call must not access it again.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "say.h"

enum { STACK = 256 << 10, STACKS = 8 };

static ucontext_t main_context, contexts[STACKS];
static char *stacks;
static int rank, calls;

/* Leaves the coroutine from inside an MPI call; it is never resumed. */
static void leave(MPI_Comm *comm, int *code, ...)
{
    int size;
    (void) comm;
    (void) code;
    MPI_Comm_size(MPI_COMM_SELF, &size);
    calls += size;
    setcontext(&main_context);
}

static void coroutine(void)
{
    int data = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &data);
    calls++;
    MPI_Send(&data, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    say("rank %d: not left", rank);
}

static void run(int i)
{
    char *stack = stacks + i * STACK;
    volatile int left = 0;
    getcontext(&main_context);
    if (left)
        return;
    left = 1;
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = stack;
    contexts[i].uc_stack.ss_size = STACK;
    contexts[i].uc_link = &main_context;
    makecontext(&contexts[i], coroutine, 0);
    setcontext(&contexts[i]);
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    int sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    stacks = mmap(NULL, STACKS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    /* From the highest stack to the lowest; each is unmapped before the next is used. */
    for (int i = STACKS - 1; i >= 0; i--) {
        run(i);
        mprotect(stacks + i * STACK, STACK, PROT_NONE);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Allreduce(&calls, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: %d calls, %d in all", rank, calls, sum);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return 0;
}
