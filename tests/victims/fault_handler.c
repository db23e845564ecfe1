/*
 * A program that handles its own page faults, on a stack of its own, as garbage collectors and
 * checkpointing libraries do: buffers, arrays of counts and requests are unreadable until MPI or a
 * tool accesses them.
 *
 * The output says only that it worked: a tool that reads an array first takes the fault instead of MPI.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "say.h"

enum { PAGES = 64 };

static char *memory;
static long page;
static volatile sig_atomic_t faults;

static void on_fault(int number, siginfo_t *info, void *context)
{
    char *at = info->si_addr;
    (void) number;
    (void) context;
    if (at < memory || at >= memory + PAGES * page)
        _exit(95);
    faults++;
    mprotect(memory + (at - memory) / page * page, page, PROT_READ | PROT_WRITE);
}

static void protect(void)
{
    mprotect(memory, PAGES * page, PROT_NONE);
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    struct sigaction now;
    stack_t stack = { .ss_size = 64 << 10 }, stack_now;
    int rank, size, wrong = 0;

    page = sysconf(_SC_PAGESIZE);
    memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    stack.ss_sp = malloc(stack.ss_size);
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);

    for (int round = 0; round < 20; round++) {
        /* Everything in separate pages. */
        int *out = (int *) memory, *in = (int *) (memory + 8 * page);
        int *counts = (int *) (memory + 16 * page), *displacements = (int *) (memory + 24 * page);
        MPI_Request *requests = (MPI_Request *) (memory + 32 * page);
        MPI_Status *statuses = (MPI_Status *) (memory + 40 * page);
        int *flag = (int *) (memory + 48 * page);
        for (int i = 0; i < size; i++) {
            out[i] = rank * 100 + i + round;
            counts[i] = 1;
            displacements[i] = i;
        }
        protect();
        MPI_Alltoallv(out, counts, displacements, MPI_INT, in, counts, displacements, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < size; i++)
            wrong += in[i] != i * 100 + rank + round;
        protect();
        MPI_Irecv(in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, 1, MPI_INT, (rank + 1) % size, round, MPI_COMM_WORLD, &requests[1]);
        protect();
        MPI_Waitall(2, requests, statuses);
        wrong += statuses[0].MPI_TAG != round;
        protect();
        MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, flag, statuses);
        wrong += *flag;
    }
    sigaction(SIGSEGV, NULL, &now);
    sigaltstack(NULL, &stack_now);
    say("rank %d: faults %d, wrong %d, handler %s, stack %s", rank, faults > 20, wrong,
        now.sa_sigaction == on_fault ? "kept" : "changed", stack_now.ss_sp == stack.ss_sp ? "kept" : "changed");
    sigaction(SIGSEGV, &(struct sigaction) { .sa_handler = SIG_DFL }, NULL);
    mprotect(memory, PAGES * page, PROT_READ | PROT_WRITE);
    MPI_Finalize();
    return 0;
}
