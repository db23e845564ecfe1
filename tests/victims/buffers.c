/*
 * Buffers in every kind of memory: allocated in every possible way, mapped, static, static in a
 * library that is opened with dlopen, on the stacks of several threads, allocated by MPI, null.
 * Some are freed and their addresses reused.
 *
 * Each buffer is sent in one message, whose tag identifies the buffer. The first argument is the
 * path of the library to open.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "say.h"

static int global[64];

static void sends(int tag, void *buffer, int count)
{
    int received[64];
    MPI_Sendrecv(buffer, count, MPI_INT, 0, tag, received, 64, MPI_INT, 0, tag, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
}

static void *in_thread(void *shared)
{
    int own[64] = { 0 };
    sends(30, own, 64);
    sends(31, shared, 64);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, on_stack[64] = { 0 };
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);

    int *small = malloc(256), *zeroed = calloc(64, sizeof *zeroed), *large = malloc(1 << 20);
    int *aligned = NULL;
    if (posix_memalign((void **)&aligned, 4096, 512) != 0)
        return 1;
    int *more = aligned_alloc(64, 640), *most = memalign(128, 1280);
    sends(0, small, 64);
    sends(1, small + 10, 4);
    sends(2, zeroed, 64);
    sends(3, large, 64);
    sends(4, large + (1 << 18) - 64, 64);
    sends(5, aligned, 64);
    sends(6, more, 64);
    sends(7, most, 64);

    sends(10, global, 64);
    sends(11, on_stack, 64);
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int *theirs = library == NULL ? global : dlsym(library, "library_data");
    sends(12, theirs, 64);

    size_t bytes = 3 << 16;
    int *first = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *second = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sends(20, first + 100, 64);
    sends(21, second + 100, 64);
    munmap(first, bytes);

    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, on_stack);
    pthread_join(thread, NULL);

    /* Freed and allocated again, nearly always at the same address. */
    for (int i = 0; i < 3; i++) {
        free(small);
        small = malloc(256);
        sends(40 + i, small, 64);
    }
    small = realloc(small, 2048);
    sends(43, small + 256, 64);
    large = realloc(large, 1 << 21);
    sends(44, large + (1 << 18), 64);
    /* Not used by MPI, so it need not be recorded. */
    free(malloc(1000));
    free(malloc(1 << 20));

    int *given;
    MPI_Alloc_mem(1 << 12, MPI_INFO_NULL, &given);
    sends(50, given + 3, 64);
    MPI_Free_mem(given);
    MPI_Win window;
    int *shared;
    MPI_Win_allocate(1 << 12, 1, MPI_INFO_NULL, MPI_COMM_SELF, &shared, &window);
    sends(51, shared + 5, 64);
    MPI_Win_free(&window);
    sends(52, NULL, 0);
    sends(53, (void *)0x123456789000, 0);

    free(small);
    free(zeroed);
    free(large);
    free(aligned);
    free(more);
    free(most);
    sends(60, global + 32, 32);
    say("done");
    MPI_Finalize();
    return 0;
}
