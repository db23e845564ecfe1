/*
 * A program with its own allocator, which never frees and serves the whole process, including MPI.
 * With -DPARTLY the functions for aligned memory are those of the C library.
 *
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include "say.h"

static _Alignas(4096) char room[1 << 30];
static size_t taken;
static long allocated;

static void *take(size_t alignment, size_t bytes)
{
    size_t total = bytes + alignment + 32;
    size_t start = __atomic_fetch_add(&taken, total, __ATOMIC_RELAXED);
    if (bytes > sizeof room || start + total > sizeof room)
        return NULL;
    __atomic_fetch_add(&allocated, 1, __ATOMIC_RELAXED);
    uintptr_t at = ((uintptr_t)room + start + 16 + alignment - 1) & ~(uintptr_t)(alignment - 1);
    ((size_t *)at)[-1] = bytes;
    return (void *)at;
}

static int is_ours(void *at)
{
    return (char *)at >= room && (char *)at < room + sizeof room;
}

void *malloc(size_t bytes)
{
    return take(16, bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return take(16, count * bytes); /* never used before, so zero */
}

void free(void *at)
{
    (void)at;
}

void *realloc(void *at, size_t bytes)
{
    void *new = take(16, bytes);
    if (at != NULL && new != NULL && is_ours(at)) {
        size_t old = ((size_t *)at)[-1];
        memcpy(new, at, old < bytes ? old : bytes);
    }
    return new;
}

#ifndef PARTLY
int posix_memalign(void **place, size_t alignment, size_t bytes)
{
    *place = take(alignment, bytes);
    return *place == NULL;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return take(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    return take(alignment, bytes);
}
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long before = allocated;
    int *buffer = malloc(4096), received[64], rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    say("rank %d: ours: %d, counted: %d", rank, is_ours(buffer), allocated > before);
    for (int i = 0; i < 100; i++) {
        void *aligned = NULL;
        if (posix_memalign(&aligned, 256, 512) != 0)
            return 1;
        memset(aligned, i, 512);
        MPI_Sendrecv(i % 2 == 0 ? buffer : (int *)aligned, 64, MPI_INT, 0, 1, received, 64, MPI_INT,
                     0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        free(aligned);
    }
    buffer = realloc(buffer, 8192);
    MPI_Bcast(buffer, 64, MPI_INT, 0, MPI_COMM_WORLD);
    say("rank %d: done", rank);
    MPI_Finalize();
    return 0;
}
