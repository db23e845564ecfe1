/*
 * Many windows at the same time. Prints how often the kernel's list of mappings was opened meanwhile, how
 * many bytes of it were read, and how often the kernel was asked about one address instead. With `list` as
 * second argument the kernel does not answer that question, like Linux before 6.11.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "say.h"

static const unsigned long QUERY = 0xc0686611; /* PROCMAP_QUERY */

static int maps = -1, list_only;
static long opens, bytes_read, queries;

static int opened(const char *path, int file)
{
    if (file >= 0 && strcmp(path, "/proc/self/maps") == 0) {
        maps = file;
        opens++;
    } else if (file >= 0 && file == maps) {
        maps = -1;
    }
    return file;
}

#define OPEN(name)                                                        \
    int name(const char *path, int flags, ...)                            \
    {                                                                     \
        static int (*next)(const char *, int, ...);                       \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0; \
        va_end(rest);                                                     \
        if (next == NULL)                                                 \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                    \
        return opened(path, next(path, flags, mode));                     \
    }

OPEN(open)
OPEN(open64)

ssize_t read(int file, void *to, size_t n)
{
    static ssize_t (*next)(int, void *, size_t);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "read");
    ssize_t got = next(file, to, n);
    if (file >= 0 && file == maps && got > 0)
        bytes_read += got;
    return got;
}

int close(int file)
{
    static int (*next)(int);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "close");
    if (file >= 0 && file == maps)
        maps = -1;
    return next(file);
}

int ioctl(int file, unsigned long request, ...)
{
    static int (*next)(int, unsigned long, ...);
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
    if ((request & 0xffffffff) == QUERY && list_only) {
        errno = ENOTTY;
        return -1;
    }
    int result = next(file, request, argument);
    if ((request & 0xffffffff) == QUERY && result == 0)
        queries++;
    return result;
}

int main(int argc, char **argv)
{
    int rank, windows = argc > 1 ? atoi(argv[1]) : 50;
    list_only = argc > 2 && strcmp(argv[2], "list") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win *all = malloc(windows * sizeof *all);
    for (int i = 0; i < windows; i++) {
        int *base;
        MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &all[i]);
        *base = rank;
        MPI_Allreduce(MPI_IN_PLACE, base, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (*base != 1)
            say("rank %d, window %d: %d", rank, i, *base);
    }
    say("opens %ld bytes %ld queries %ld", opens, bytes_read, queries);
    for (int i = 0; i < windows; i++)
        MPI_Win_free(&all[i]);
    MPI_Finalize();
    return 0;
}
