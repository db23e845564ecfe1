/* Threads that call MPI while they hold locks; the scheduler decides which thread gets a lock first.
 *
 *     order_locks mutex|try|queue|semaphore|serialized [rounds]
 *
 * mutex       all threads receive from any source, and answer, while they hold one lock
 * try         the same with trylock; a thread that does not get the lock does other work
 * queue       one thread receives messages and puts them into a queue; others wait for a condition, take
 *             messages out and answer
 * semaphore   as mutex, with a semaphore
 * serialized  as mutex, with MPI_THREAD_SERIALIZED
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 3, TAG = 7, MOST = 1 << 16 };

static int rank, size, rounds;
static const char *how;
static MPI_Comm comm;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static sem_t one;
static uint64_t queue[MOST], shared_digest;
static int head, tail, finished;

struct thread {
    int number;
    uint64_t digest;
    long idle;
};

static void mix(uint64_t *digest, uint64_t value) {
    *digest = (*digest ^ value) * 0x9e3779b97f4a7c15u;
    *digest ^= *digest >> 29;
}

static void take(struct thread *own) {
    if (strcmp(how, "semaphore") == 0) {
        sem_wait(&one);
    } else if (strcmp(how, "try") == 0) {
        while (pthread_mutex_trylock(&lock) != 0) {
            own->idle++;
            if (own->idle % 100 == 0) {
                struct timespec nap = {0, 1000};
                nanosleep(&nap, NULL);
            }
        }
    } else {
        pthread_mutex_lock(&lock);
    }
}

static void give(void) {
    if (strcmp(how, "semaphore") == 0)
        sem_post(&one);
    else
        pthread_mutex_unlock(&lock);
}

/* Sends to the next rank, and receives from any source. */
static void exchange(struct thread *own) {
    uint64_t out = own->digest, in = 0;
    MPI_Status status;
    MPI_Request request;
    MPI_Isend(&out, 1, MPI_UINT64_T, (rank + 1) % size, TAG + own->number, comm, &request);
    MPI_Recv(&in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    mix(&own->digest, in ^ (uint64_t)status.MPI_TAG);
    mix(&shared_digest, own->digest);
}

static void *work(void *argument) {
    struct thread *own = argument;
    for (int round = 0; round < rounds; round++) {
        take(own);
        exchange(own);
        give();
    }
    mix(&own->digest, (uint64_t)own->idle);
    return NULL;
}

/* The first thread uses a timed wait, as C++ does, that never times out. */
static void await_more(const struct thread *own) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 1000;
    if (own->number == 0)
        pthread_cond_clockwait(&more, &lock, CLOCK_MONOTONIC, &until);
    else
        pthread_cond_wait(&more, &lock);
}

/* Takes a message out of the queue and sends it back to its source. */
static void *serve(void *argument) {
    struct thread *own = argument;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (head == tail && !finished)
            await_more(own);
        if (head == tail) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        uint64_t task = queue[head++];
        mix(&shared_digest, task ^ (uint64_t)own->number);
        pthread_mutex_unlock(&lock);
        mix(&own->digest, task);
        MPI_Send(&own->digest, 1, MPI_UINT64_T, (int)(task >> 32), TAG + 1, comm);
    }
}

/* All other ranks ask rank 0, whose first thread puts the questions into the queue. */
static void ask_and_queue(struct thread *threads) {
    pthread_t ids[THREADS];
    if (rank > 0) {
        for (int i = 0; i < rounds; i++) {
            uint64_t question = (uint64_t)rank << 32 | (uint32_t)(threads[0].digest & 0xffff), answer;
            MPI_Send(&question, 1, MPI_UINT64_T, 0, TAG, comm);
            MPI_Recv(&answer, 1, MPI_UINT64_T, 0, TAG + 1, comm, MPI_STATUS_IGNORE);
            mix(&threads[0].digest, answer);
        }
        return;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&ids[i], NULL, serve, &threads[i]);
    for (int i = 0; i < rounds * (size - 1); i++) {
        uint64_t task;
        MPI_Recv(&task, 1, MPI_UINT64_T, MPI_ANY_SOURCE, TAG, comm, MPI_STATUS_IGNORE);
        pthread_mutex_lock(&lock);
        queue[tail++] = task;
        pthread_cond_signal(&more);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    finished = 1;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
}

int main(int argc, char **argv) {
    how = argc > 1 ? argv[1] : "mutex";
    rounds = argc > 2 ? atoi(argv[2]) : 20;
    int wanted = strcmp(how, "serialized") == 0 ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
    int provided;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    if (provided < wanted) {
        printf("this MPI has no threads\n");
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    sem_init(&one, 0, 1);
    struct thread threads[THREADS];
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = (struct thread){i, (uint64_t)(rank * THREADS + i + 1), 0};
    if (strcmp(how, "queue") == 0) {
        ask_and_queue(threads);
    } else {
        for (int i = 0; i < THREADS; i++)
            pthread_create(&ids[i], NULL, work, &threads[i]);
        for (int i = 0; i < THREADS; i++)
            pthread_join(ids[i], NULL);
    }
    unsigned long long all = shared_digest;
    for (int i = 0; i < THREADS; i++)
        all = all * 31 + threads[i].digest;
    printf("rank %d: %016llx\n", rank, all);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
