/*
 * Counts its calls in a file, for tests that kill it: a trace must have the counted calls. Each thread has
 * two numbers in the file, calls begun and calls returned. The file is mapped, so the numbers survive the
 * death of the process.
 *
 *     counts_calls FILE [iterations] [threads]    0 iterations: until it is killed
 *
 * The numbers of thread t of rank r are the (r * threads + t)-th pair, 64 bits each. With several threads,
 * the initial thread is thread 0 and makes the same calls as the others.
 */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "say.h"

enum { MOST = 64, INNER = 40 };

struct count {
    volatile uint64_t begun, returned;
};

struct worker {
    struct count *count;
    MPI_Comm comm;
    int number;
};

static int rank, size;
static long iterations;

#define CALL(count, call)        \
    do {                         \
        (count)->begun++;        \
        call;                    \
        (count)->returned++;     \
    } while (0)

static void *work(void *argument)
{
    struct worker *me = argument;
    struct count *count = me->count;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (long i = 0; iterations == 0 || i < iterations; i++) {
        long out = i, in = -1;
        int got = 0;
        MPI_Request request;
        MPI_Status status;
        CALL(count, MPI_Irecv(&in, 1, MPI_LONG, left, (int) (i % 7), me->comm, &request));
        CALL(count, MPI_Send(&out, 1, MPI_LONG, right, (int) (i % 7), me->comm));
        CALL(count, MPI_Wait(&request, &status));
        for (int j = 0; j < INNER; j++)
            CALL(count, MPI_Get_count(&status, MPI_LONG, &got));
        if (in != i || got != 1) {
            say("rank %d: iteration %ld went wrong", rank, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[MOST];
    pthread_t others[MOST];
    iterations = argc > 2 ? atol(argv[2]) : 1000;
    int threads = argc > 3 ? atoi(argv[3]) : 1, provided;
    int file = argc > 1 ? open(argv[1], O_RDWR) : -1;
    if (file < 0 || threads < 1 || threads > MOST) {
        say("give me a file, and at most %d threads", MOST);
        return 1;
    }
    size_t bytes = lseek(file, 0, SEEK_END);
    struct count *counts = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    /* Calls before the rank is known are counted here. */
    struct count mine = { 0, 0 };

    CALL(&mine, MPI_Init_thread(&argc, &argv,
                                threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided));
    CALL(&mine, MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    struct count *own = &counts[rank * threads];
    if (bytes < (rank + 1) * threads * sizeof *counts) {
        say("the file is too small");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    *own = mine;
    CALL(own, MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int t = 0; t < threads; t++) {
        workers[t].number = t;
        workers[t].count = own + t;
        CALL(own, MPI_Comm_dup(MPI_COMM_WORLD, &workers[t].comm));
    }
    for (int t = 1; t < threads; t++)
        pthread_create(&others[t], NULL, work, &workers[t]);
    work(&workers[0]);
    for (int t = 1; t < threads; t++)
        pthread_join(others[t], NULL);
    for (int t = 0; t < threads; t++)
        CALL(own, MPI_Comm_free(&workers[t].comm));
    CALL(own, MPI_Finalize());
    say("rank %d: done", rank);
    return 0;
}
