/* longjmp over frames, tail calls, recursion, and calls through pointers. After each of them `main` calls
 * `landmark`, whose context must always be `main`. */
#include <setjmp.h>
#include <stdio.h>

static jmp_buf back;
static volatile long cells[8];
static volatile int jumps = 1;

__attribute__((noinline)) static void
landmark(void)
{
    cells[0]++;
}

__attribute__((noinline)) static void
deep(int depth)
{
    cells[1]++;
    if (depth == 0 && jumps)
        longjmp(back, 1);
    deep(depth - 1);
    cells[2]++; /* never */
}

__attribute__((noinline)) static long
last(long value)
{
    cells[3]++;
    return value + 1;
}

__attribute__((noinline, optimize("optimize-sibling-calls"))) static long
first(long value)
{
    cells[4]++;
    return last(value * 2);
}

__attribute__((noinline)) static long
fibonacci(int n)
{
    cells[5]++;
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static long (*volatile pointer)(long) = first;

int
main(void)
{
    volatile long sum = 0;
    for (volatile int turn = 0; turn < 20; turn++) {
        if (setjmp(back) == 0)
            deep(turn % 7);
        landmark();
        sum += first(turn);
        landmark();
        sum += fibonacci(turn % 10);
        landmark();
        sum += pointer(turn);
        landmark();
    }
    printf("%ld %ld %ld\n", sum, cells[0], cells[2]);
    return 0;
}
