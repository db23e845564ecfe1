/*
 * Threads whose last MPI calls are in destructors of thread-local data: of C++, and of POSIX in all
 * rounds. By then a tool may already have freed its own thread-local data.
 */
#include <mpi.h>
#include <pthread.h>
#include <thread>
extern "C" {
#define class class_
#include "say.h"
#undef class
}

static int rank;
static pthread_key_t first_key, last_key;
static int rounds, answers;

static void ask(void)
{
    int value = -1, in = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &value);
    MPI_Sendrecv(&value, 1, MPI_INT, 0, 2, &in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    if (value == rank && in == rank)
        answers++;
}

struct Local {
    int touched = 0;
    ~Local()
    {
        ask();
        say("rank %d: C++ destructor, touched %d", rank, touched);
    }
};

static thread_local Local local;

static void posix_destructor(void *round)
{
    pthread_key_t key = (long) round % 2 ? first_key : last_key;
    ask();
    rounds++;
    /* Set again, so that it is called in the next round too, as many times as POSIX allows. */
    pthread_setspecific(key, (char *) round + 2);
}

int main(int argc, char **argv)
{
    int provided;
    pthread_key_create(&first_key, posix_destructor);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_key_create(&last_key, posix_destructor);

    for (int i = 0; i < 4; i++) {
        rounds = answers = 0;
        std::thread thread([i] {
            pthread_setspecific(first_key, (void *) 1);
            pthread_setspecific(last_key, (void *) 2);
            local.touched = i;
            if (i % 2 == 0)
                ask();
        });
        thread.join();
        say("rank %d: thread %d: %d rounds, %d answers", rank, i, rounds, answers);
    }
    MPI_Finalize();
    return 0;
}
