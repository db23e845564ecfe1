/*
 * Threads with stacks of the smallest allowed size call MPI: a tool must leave enough of the stack for
 * MPI.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "say.h"

static int rank, size;

static void *work(void *result)
{
    int value = -1, flag = -1, version = -1, subversion = -1, *sum = result;
    MPI_Comm_rank(MPI_COMM_WORLD, &value);
    *sum += value == rank;
    MPI_Comm_size(MPI_COMM_WORLD, &value);
    *sum += value == size;
    MPI_Initialized(&flag);
    *sum += flag == 1;
    MPI_Get_version(&version, &subversion);
    *sum += version == MPI_VERSION;
    MPI_Type_size(MPI_INT, &value);
    *sum += value == sizeof(int);
    for (int i = 0; i < 20000; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &value);
    *sum += value == rank;
    return NULL;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = { 64 << 10, 32 << 10, 24 << 10, 16 << 10 };
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        int sum = 0, error;
        size_t bytes = sizes[i];
        char *stack = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(stack, 4096, PROT_NONE);
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stack + 4096, bytes);
        error = pthread_create(&thread, &attributes, work, &sum);
        if (error == 0)
            pthread_join(thread, NULL);
        say("rank %d: %zu KiB: %s, %d right", rank, bytes >> 10, error ? "no thread" : "done", sum);
        pthread_attr_destroy(&attributes);
    }
    MPI_Finalize();
    return 0;
}
