/* In place of the C library: system calls, and the few functions that compilers expect. */
#include "client.h"
#include <stdarg.h>

long
system_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* One line for the user. */
void
say(const char *format, ...)
{
    char line[512] = "refrain: ";
    va_list arguments;
    va_start(arguments, format);
    int length = dr_vsnprintf(line + 9, sizeof(line) - 11, format, arguments);
    va_end(arguments);
    if (length < 0)
        length = sizeof(line) - 11;
    line[9 + length] = '\n';
    dr_write_file(STDERR, line, 10 + length);
}

int
strcmp(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

size_t
strlen(const char *text)
{
    size_t length = 0;
    while (text[length] != '\0')
        length++;
    return length;
}

char *
strncpy(char *to, const char *from, size_t size)
{
    size_t i = 0;
    for (; i < size && from[i] != '\0'; i++)
        to[i] = from[i];
    for (; i < size; i++)
        to[i] = '\0';
    return to;
}

void *
memmove(void *to, const void *from, size_t size)
{
    byte *t = to;
    const byte *f = from;
    if (t < f) {
        for (size_t i = 0; i < size; i++)
            t[i] = f[i];
    } else {
        while (size-- > 0)
            t[size] = f[size];
    }
    return to;
}

void *
memcpy(void *restrict to, const void *restrict from, size_t size)
{
    byte *t = to;
    const byte *f = from;
    for (size_t i = 0; i < size; i++)
        t[i] = f[i];
    return to;
}

void *
memset(void *to, int value, size_t size)
{
    byte *t = to;
    for (size_t i = 0; i < size; i++)
        t[i] = (byte)value;
    return to;
}

int
memcmp(const void *a, const void *b, size_t size)
{
    const byte *x = a, *y = b;
    for (size_t i = 0; i < size; i++) {
        if (x[i] != y[i])
            return x[i] - y[i];
    }
    return 0;
}
