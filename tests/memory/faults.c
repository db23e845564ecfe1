/* Faults in the middle of basic blocks: for some, the handler repairs the cause and the instruction is
 * executed again; for others, it jumps away. Prints the expected references to `page`: a reference that
 * faults counts, and counts again when it is executed again. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static volatile long *page, *wall;
static sigjmp_buf back;
static volatile int mends;

static void
at_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    if (mends)
        mprotect((void *)wall, 4096, PROT_READ | PROT_WRITE);
    else
        siglongjmp(back, 1);
}

/* One basic block: two stores to the page, one to the wall, one to the page. */
static void __attribute__((noinline))
block(void)
{
    __asm__ volatile("movq $1, (%0); movq $2, 8(%0); movq $3, (%1); movq $4, 16(%0)" ::"r"(page),
                     "r"(wall)
                     : "memory");
}

static long __attribute__((noinline))
divide(long by)
{
    long result;
    __asm__ volatile("movq 24(%2), %%rax; cqto; idivq %1; movq %%rax, 32(%2)"
                     : "=&a"(result)
                     : "r"(by), "r"(page)
                     : "rdx", "memory", "cc");
    return result;
}

int
main(void)
{
    struct sigaction action = { .sa_sigaction = at_fault, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    wall = page + 512;
    mprotect((void *)wall, 4096, PROT_NONE);

    for (volatile int turn = 0; turn < 3; turn++) {
        if (sigsetjmp(back, 1) == 0)
            block();
        if (sigsetjmp(back, 1) == 0)
            divide(0);
    }
    mends = 1;
    block();
    divide(1);

    char *p = (char *)page, *w = (char *)wall;
    printf("buffer %p %p\n", (void *)p, (void *)(p + 8192));
    for (int turn = 0; turn < 3; turn++) {
        printf("store 8 %p\nstore 8 %p\nstore 8 %p\n", (void *)p, (void *)(p + 8), (void *)w);
        printf("load 8 %p\n", (void *)(p + 24));
    }
    printf("store 8 %p\nstore 8 %p\nstore 8 %p\n", (void *)p, (void *)(p + 8), (void *)w);
    printf("store 8 %p\nstore 8 %p\n", (void *)w, (void *)(p + 16));
    printf("load 8 %p\nstore 8 %p\n", (void *)(p + 24), (void *)(p + 32));
    return 0;
}
