/* Instructions that refer to memory in unusual ways, and the references that a trace must have for each.
 *
 * Only the instructions below access `buffer`; the C library fills it, which is not recorded. Prints the
 * buffer's range, then the expected references to it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char buffer[4096] __attribute__((aligned(64)));
static struct {
    const char *kind;
    int size;
    unsigned char *address;
} expected[4096];
static int count;

static void
expect(const char *kind, int size, void *address)
{
    expected[count].kind = kind;
    expected[count].size = size;
    expected[count].address = address;
    count++;
}
#define LOAD(size, offset) expect("load", size, buffer + (offset))
#define STORE(size, offset) expect("store", size, buffer + (offset))

static void
plain(void)
{
    unsigned char *b = buffer;
    __asm__ volatile("movq 8(%0), %%rax; movb %%al, 3(%0); addl $1, 16(%0); incw 20(%0)" ::"r"(b)
                     : "rax", "memory", "cc");
    LOAD(8, 8), STORE(1, 3), LOAD(4, 16), STORE(4, 16), LOAD(2, 20), STORE(2, 20);
    /* Neither loads nor stores. */
    __asm__ volatile("leaq 8(%0), %%rax; prefetcht0 64(%0); nopl 64(%0)" ::"r"(b) : "rax");
    /* cmov loads whether or not it moves. */
    __asm__ volatile("cmpq %0, %0; cmovneq 24(%0), %%rax; cmoveq 32(%0), %%rax" ::"r"(b)
                     : "rax", "cc");
    LOAD(8, 24), LOAD(8, 32);
    /* A base that the instruction overwrites, and an index. */
    __asm__ volatile("movq %0, %%rcx; xorl %%edx, %%edx; movq 40(%%rcx,%%rdx,8), %%rcx" ::"r"(b)
                     : "rcx", "rdx", "cc");
    LOAD(8, 40);
    /* Addresses of 32 bits wrap: the upper half of the index is not used. */
    __asm__ volatile("movabsq $0x7700000000, %%rdx; movl $5, %%edx; movb (%0,%%rdx), %%al" ::"r"(b)
                     : "rax", "rdx");
    LOAD(1, 5);
}

static void
atomics(void)
{
    unsigned char *b = buffer + 128;
    __asm__ volatile("movl $1, %%eax; lock xaddl %%eax, (%0); xchgq %%rax, 8(%0);"
                     "movl $77, %%eax; lock cmpxchgl %%eax, 16(%0); lock orb $1, 24(%0)" ::"r"(b)
                     : "rax", "memory", "cc");
    LOAD(4, 128), STORE(4, 128), LOAD(8, 136), STORE(8, 136);
    LOAD(4, 144), STORE(4, 144), LOAD(1, 152), STORE(1, 152);
    __asm__ volatile("xorl %%eax, %%eax; xorl %%ebx, %%ebx; lock cmpxchg16b 32(%0)" ::"r"(b)
                     : "rax", "rbx", "rcx", "rdx", "memory", "cc");
    LOAD(16, 160), STORE(16, 160);
}

/* The stack pointer temporarily points into the buffer. */
static void
stack(void)
{
    unsigned char *top = buffer + 512;
    __asm__ volatile("movq %%rsp, %%r12; movq %0, %%rsp;"
                     "pushq %%rax; popq %%rax; pushq -64(%%rsp); popq -72(%%rsp);"
                     "call 1f; 1: popq %%rax; pushfq; popfq;"
                     "movq %%rsp, %%rbx; enter $16, $0; leave;"
                     "movq %%r12, %%rsp" ::"r"(top)
                     : "rax", "rbx", "r12", "memory", "cc");
    STORE(8, 504), LOAD(8, 504);
    LOAD(8, 448), STORE(8, 504); /* push from memory */
    LOAD(8, 504), STORE(8, 440); /* pop to memory: the stack pointer has moved by then */
    STORE(8, 504), LOAD(8, 504);
    STORE(8, 504), LOAD(8, 504);
    STORE(8, 504), LOAD(8, 504);
}

static void
strings(void)
{
    unsigned char *from = buffer + 640, *to = buffer + 768;
    long n = 5;
    void *s = from, *d = to;
    __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(n)::"memory");
    for (int i = 0; i < 5; i++)
        LOAD(1, 640 + i), STORE(1, 768 + i);
    n = 0;
    __asm__ volatile("rep movsq" : "+S"(s), "+D"(d), "+c"(n)::"memory"); /* none */
    n = 3;
    d = to;
    __asm__ volatile("rep stosq" : "+D"(d), "+c"(n) : "a"(0L) : "memory");
    for (int i = 0; i < 3; i++)
        STORE(8, 768 + 8 * i);
    s = from;
    d = to;
    n = 8;
    /* They differ at the first byte: 640 holds 1, 768 holds 0. */
    __asm__ volatile("repe cmpsb" : "+S"(s), "+D"(d), "+c"(n)::"memory", "cc");
    LOAD(1, 640), LOAD(1, 768);
    s = from;
    __asm__ volatile("lodsl" : "+S"(s)::"rax", "memory");
    LOAD(4, 640);
    __asm__ volatile("movq %0, %%rbx; movb $7, %%al; xlatb" ::"r"(from) : "rax", "rbx");
    LOAD(1, 647);
}

static void
vectors(void)
{
    unsigned char *b = buffer + 1024;
    __asm__ volatile("movups (%0), %%xmm0; movss %%xmm0, 16(%0); movhpd 24(%0), %%xmm0;"
                     "movntdq %%xmm0, 32(%0); fldt 48(%0); fstpt 64(%0)" ::"r"(b)
                     : "xmm0", "memory");
    LOAD(16, 1024), STORE(4, 1040), LOAD(8, 1048), STORE(16, 1056), LOAD(10, 1072), STORE(10, 1088);
    if (__builtin_cpu_supports("avx2")) {
        static const int index[8] = { 3, 0, 1, 8, 9, 2, 2, 5 };
        static const int mask[8] = { -1, 0, -1, -1, 0, 0, -1, 0 };
        __asm__ volatile("vmovdqu (%1), %%ymm1; vmovdqu (%2), %%ymm2;"
                         "vpgatherdd %%ymm2, (%0,%%ymm1,4), %%ymm0; vzeroupper" ::"r"(b),
                         "r"(index), "r"(mask)
                         : "xmm0", "xmm1", "xmm2", "memory");
        LOAD(4, 1024 + 12), LOAD(4, 1024 + 4), LOAD(4, 1024 + 32), LOAD(4, 1024 + 8);
    }
    if (__builtin_cpu_supports("avx512f")) {
        static const long index[8] = { 0, 7, 3, 3, 1, 10, 11, 2 };
        __asm__ volatile("vmovdqu64 (%1), %%zmm1; movl $0xa5, %%eax; kmovw %%eax, %%k1;"
                         "vgatherqpd 8(%0,%%zmm1,8), %%zmm0%{%%k1%};"
                         "movl $0x3c, %%eax; kmovw %%eax, %%k1;"
                         "vscatterqpd %%zmm0, 256(%0,%%zmm1,8)%{%%k1%};"
                         "vmovupd 512(%0), %%zmm0; vmovupd %%zmm0, 576(%0);"
                         "vaddpd 640(%0)%{1to8%}, %%zmm0, %%zmm0; vzeroupper" ::"r"(b),
                         "r"(index)
                         : "rax", "xmm0", "xmm1", "memory");
        LOAD(8, 1032), LOAD(8, 1032 + 24), LOAD(8, 1032 + 80), LOAD(8, 1032 + 16);
        STORE(8, 1280 + 24), STORE(8, 1280 + 24), STORE(8, 1280 + 8), STORE(8, 1280 + 80);
        LOAD(64, 1536), STORE(64, 1600), LOAD(8, 1664);
    }
}

/* Every register and the flags are in use, so that the client must spill. */
static void
crowded(void)
{
    unsigned char *b = buffer + 2048;
    unsigned long sum = 0;
    __asm__ volatile(
        "pushq %%rbp; pushq %%rbx; movq %1, %%rax; movq %%rax, %%rbx; movq %%rax, %%rcx;"
        "movq %%rax, %%rdx; movq %%rax, %%rsi; movq %%rax, %%rdi; movq %%rax, %%rbp;"
        "movq %%rax, %%r8; movq %%rax, %%r9; movq %%rax, %%r10; movq %%rax, %%r11;"
        "movq %%rax, %%r12; movq %%rax, %%r13; movq %%rax, %%r14; movq %%rax, %%r15;"
        "stc; jmp 1f; 1:"
        "movq %%rax, (%%rax); movq %%rbx, 8(%%rbx); movq %%rcx, 16(%%rcx); movq %%rdx, 24(%%rdx);"
        "movq %%rsi, 32(%%rsi); movq %%rdi, 40(%%rdi); movq %%rbp, 48(%%rbp); movq %%r8, 56(%%r8);"
        "movq %%r9, 64(%%r9); movq %%r10, 72(%%r10); movq %%r11, 80(%%r11); movq %%r12, 88(%%r12);"
        "movq %%r13, 96(%%r13); movq %%r14, 104(%%r14); movq %%r15, 112(%%r15);"
        "adcq %%rbx, %%rax; adcq %%rcx, %%rax; adcq %%rdx, %%rax; adcq %%rsi, %%rax;"
        "adcq %%rdi, %%rax; adcq %%rbp, %%rax; adcq %%r8, %%rax; adcq %%r9, %%rax;"
        "adcq %%r10, %%rax; adcq %%r11, %%rax; adcq %%r12, %%rax; adcq %%r13, %%rax;"
        "adcq %%r14, %%rax; adcq %%r15, %%rax; popq %%rbx; popq %%rbp; movq %%rax, %0"
        : "=r"(sum)
        : "r"(b)
        : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
          "memory", "cc");
    for (int i = 0; i < 15; i++)
        STORE(8, 2048 + 8 * i);
    if (sum != 15 * (unsigned long)b + 1) {
        printf("the registers were changed\n");
        exit(1);
    }
}

int
main(void)
{
    void *(*volatile fill)(void *, int, size_t) = memset;
    fill(buffer, 1, sizeof(buffer));
    plain();
    atomics();
    stack();
    strings();
    vectors();
    crowded();
    printf("buffer %p %p\n", (void *)buffer, (void *)(buffer + sizeof(buffer)));
    for (int i = 0; i < count; i++)
        printf("%s %d %p\n", expected[i].kind, expected[i].size, (void *)expected[i].address);
    return 0;
}
