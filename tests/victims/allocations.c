/*
 * Eight threads allocate, reallocate and free in every possible way, free memory that other threads
 * allocated, and pass some of it to MPI. Every block holds a pattern that is checked before the
 * block is freed.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include "say.h"

enum { THREADS = 8, BLOCKS = 64, ROUNDS = 20000 };

struct block {
    unsigned char *at;
    size_t bytes;
    unsigned char fill;
};

/* Blocks that another thread will free. */
static struct block shared[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int damaged[THREADS];

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int is_whole(const struct block *block)
{
    for (size_t i = 0; i < block->bytes; i++)
        if (block->at[i] != block->fill)
            return 0;
    return 1;
}

static void allocate(struct block *block, unsigned *state, int thread)
{
    size_t bytes = 1 + next_random(state) % (next_random(state) % 50 == 0 ? 200000 : 600);
    void *at = NULL;
    size_t alignment = 16u << next_random(state) % 6;
    switch (next_random(state) % 6) {
    case 0:
        at = calloc(bytes, 1);
        for (size_t i = 0; i < bytes; i++)
            damaged[thread] += ((unsigned char *)at)[i] != 0;
        break;
    case 1:
        if (posix_memalign(&at, alignment, bytes) != 0)
            abort();
        damaged[thread] += (uintptr_t)at % alignment != 0;
        break;
    case 2:
        at = memalign(alignment, bytes);
        damaged[thread] += (uintptr_t)at % alignment != 0;
        break;
    case 3:
        at = reallocarray(NULL, bytes, 1);
        break;
    default:
        at = malloc(bytes);
    }
    block->at = at;
    block->bytes = bytes;
    block->fill = (unsigned char)next_random(state);
    memset(at, block->fill, bytes);
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    unsigned state = 17 + thread;
    struct block own[BLOCKS] = { 0 };
    for (int round = 0; round < ROUNDS; round++) {
        struct block *block = &own[next_random(&state) % BLOCKS];
        switch (block->at == NULL ? 0 : next_random(&state) % 8) {
        case 0:
            if (block->at == NULL)
                allocate(block, &state, thread);
            break;
        case 1: { /* Grows or shrinks. */
            damaged[thread] += !is_whole(block);
            size_t bytes = 1 + next_random(&state) % 1000, kept = block->bytes;
            block->at = realloc(block->at, bytes);
            block->bytes = kept < bytes ? kept : bytes;
            damaged[thread] += !is_whole(block);
            block->bytes = bytes;
            memset(block->at, block->fill, bytes);
            break;
        }
        case 2: { /* Exchanges a block with another thread. */
            pthread_mutex_lock(&lock);
            struct block *place = &shared[next_random(&state) % BLOCKS], old = *place;
            *place = *block;
            *block = old;
            pthread_mutex_unlock(&lock);
            break;
        }
        case 3:
            if (round % 16 == 0) {
                unsigned char received[8];
                MPI_Sendrecv(block->at, 1, MPI_BYTE, 0, thread, received, 8, MPI_BYTE, 0, thread,
                             MPI_COMM_SELF, MPI_STATUS_IGNORE);
                damaged[thread] += received[0] != block->fill;
            }
            break;
        default:
            damaged[thread] += !is_whole(block);
            free(block->at);
            block->at = NULL;
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (own[i].at != NULL)
            damaged[thread] += !is_whole(&own[i]);
        free(own[i].at);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, rank;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (provided != MPI_THREAD_MULTIPLE)
        return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    int all = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all += damaged[i];
    }

    errno = 0;
    void *small = malloc(100);
    say("rank %d: %d damaged; errno %d", rank, all, errno);
    void *none = realloc(small, SIZE_MAX / 2);
    say("too much: %d, errno %d", none == NULL, errno);
    /* The block still exists. */
    MPI_Send(small, 100, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF);
    none = reallocarray(small, SIZE_MAX / 2, 4);
    say("too many: %d, errno %d", none == NULL, errno);
    say("no alignment: %d", posix_memalign(&none, 3, 100));
    say("much too much: %d", malloc(SIZE_MAX / 2) == NULL);
    free(small);
    free(NULL);
    MPI_Finalize();
    return 0;
}
