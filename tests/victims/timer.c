/*
 * A signal every fraction of a millisecond while MPI is called without pause; system calls are
 * interrupted, and the handler calls MPI functions that are allowed at any time.
 *
 * A tool that stores anything about a call between entry and forwarding must not be confused by a
 * call of the handler in between: it might forward to another function.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <sys/time.h>
#include "say.h"

static int rank, size;
static volatile sig_atomic_t signals, wrong_answers;

static void on_alarm(int number)
{
    int flag = -1, version = -1, subversion = -1;
    (void) number;
    signals++;
    MPI_Initialized(&flag);
    MPI_Get_version(&version, &subversion);
    if (flag != 1 || version != MPI_VERSION)
        wrong_answers++;
}

int main(int argc, char **argv)
{
    /* No SA_RESTART: blocking system calls return EINTR. */
    struct sigaction action = { .sa_handler = on_alarm };
    struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
    int wrong = 0, in, value, names = 0;
    char name[MPI_MAX_OBJECT_NAME];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);

    for (int i = 0; i < 3000; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, i, &in, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        wrong += in != i;
    }
    for (int i = 0; i < 100000 || signals < 200; i++) {
        value = -1;
        switch (i % 3) {
        case 0:
            MPI_Comm_rank(MPI_COMM_WORLD, &value);
            wrong += value != rank;
            break;
        case 1:
            MPI_Comm_size(MPI_COMM_WORLD, &value);
            wrong += value != size;
            break;
        case 2:
            MPI_Type_size(MPI_INT, &value);
            wrong += value != sizeof(int);
            break;
        }
    }
    for (int i = 0; i < 100000; i++) {
        MPI_Comm_get_name(MPI_COMM_WORLD, name, &value);
        names += strcmp(name, "MPI_COMM_WORLD") == 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: interrupted %d, wrong %d, wrong answers %d, names %d", rank, signals >= 200, wrong,
        wrong_answers, names);
    MPI_Finalize();
    return 0;
}
