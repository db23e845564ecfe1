/*
 * Loops that poll with MPI_Iprobe, MPI_Test, MPI_Testany and MPI_Testsome until the messages of the
 * left neighbour have arrived. The number of failed polls differs from run to run, because a rank
 * sends to its right neighbour only after a random number of polls.
 *
 *     polls [rounds]
 */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
#include "say.h"

enum { SEVERAL = 3, MOST_POLLS = 20 };
enum { PROBED, TESTED, ANY, SOME };

static int left, right;
/* What this rank still has to send in this loop, with which tag, and after how many more polls. */
static int unsent, tag, polls;
/* What it has sent. */
static int sent, out[SEVERAL];
static MPI_Request sends[SEVERAL];
/* What has arrived from the left. */
static int received, wrong;

static void start(int messages, int with_tag)
{
    unsent = messages;
    sent = 0;
    tag = with_tag;
    polls = random() % MOST_POLLS;
}

static void send_one(void)
{
    out[sent] = 100 * tag + unsent;
    MPI_Isend(&out[sent], 1, MPI_INT, right, tag, MPI_COMM_WORLD, &sends[sent]);
    sent++;
    unsent--;
    polls = random() % MOST_POLLS;
}

/* Called before each poll. */
static void before_poll(void)
{
    if (unsent > 0 && polls-- == 0)
        send_one();
}

static void finish(void)
{
    while (unsent > 0)
        send_one();
    MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE);
}

static void came(int value, int expected)
{
    received++;
    wrong += value != expected;
}

static void probe(void)
{
    int flag = 0, in = -1;
    MPI_Status status;
    start(1, PROBED);
    while (!flag) {
        before_poll();
        MPI_Iprobe(MPI_ANY_SOURCE, PROBED, MPI_COMM_WORLD, &flag, &status);
    }
    MPI_Recv(&in, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    came(in, 100 * PROBED + 1);
    finish();
}

static void test(void)
{
    int flag = 0, in = -1;
    MPI_Request request;
    MPI_Irecv(&in, 1, MPI_INT, left, TESTED, MPI_COMM_WORLD, &request);
    start(1, TESTED);
    while (!flag) {
        before_poll();
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    }
    came(in, 100 * TESTED + 1);
    finish();
}

/* Messages of one sender match in order. */
static void post(int *in, MPI_Request *requests, int with_tag)
{
    for (int i = 0; i < SEVERAL; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, left, with_tag, MPI_COMM_WORLD, &requests[i]);
}

static void test_any(void)
{
    int in[SEVERAL], flag, which;
    MPI_Request requests[SEVERAL];
    post(in, requests, ANY);
    start(SEVERAL, ANY);
    for (int done = 0; done < SEVERAL; done += flag) {
        before_poll();
        MPI_Testany(SEVERAL, requests, &which, &flag, MPI_STATUS_IGNORE);
        if (flag)
            came(in[which], 100 * ANY + SEVERAL - which);
    }
    finish();
}

static void test_some(void)
{
    int in[SEVERAL], count, which[SEVERAL];
    MPI_Request requests[SEVERAL];
    post(in, requests, SOME);
    start(SEVERAL, SOME);
    for (int done = 0; done < SEVERAL; done += count) {
        before_poll();
        MPI_Testsome(SEVERAL, requests, &count, which, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; i++)
            came(in[which[i]], 100 * SOME + SEVERAL - which[i]);
    }
    finish();
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100, rank, size;
    struct timespec now;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    clock_gettime(CLOCK_REALTIME, &now);
    srandom(now.tv_nsec + 1000003u * rank);

    for (int round = 0; round < rounds; round++) {
        probe();
        test();
        test_any();
        test_some();
    }
    say("rank %d: %d messages, %d wrong", rank, received, wrong);
    MPI_Finalize();
    return wrong > 0;
}
