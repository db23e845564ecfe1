/* MPI_ERROR of statuses: MPI sets a value, or leaves the old one. Whether a call writes it depends on the MPI
 * library; a replay must have the same result. Ranks work in pairs, and rank 0 prints for all, because some
 * launchers mix the lines of several ranks.
 *
 *     order_status_errors [multiple]
 *
 * `multiple` asks for MPI_THREAD_MULTIPLE, where Refrain completes requests in other ways.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN 0x5a5a
#define MANY 6

static int rank, other;
static char said[1 << 16];
static int used;

static void say(const char *what, const char *call, int n, const MPI_Status *statuses)
{
    used += snprintf(said + used, sizeof said - used, "%d %s %s:", rank, what, call);
    for (int i = 0; i < n; i++) {
        if (statuses[i].MPI_ERROR == PATTERN)
            used += snprintf(said + used, sizeof said - used, " untouched");
        else
            used += snprintf(said + used, sizeof said - used, " %d", statuses[i].MPI_ERROR);
    }
    used += snprintf(said + used, sizeof said - used, "\n");
}

static void preset(MPI_Status *statuses, int n)
{
    memset(statuses, 0, n * sizeof *statuses);
    for (int i = 0; i < n; i++)
        statuses[i].MPI_ERROR = PATTERN;
}

static int query(void *extra, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return 0;
}
static int release(void *extra) { return 0; }
static int cancel(void *extra, int complete) { return 0; }

enum what { SENDS, RECEIVES, WILD, BOTH, LARGE, SYNCHRONOUS, PERSISTENT, NULLS, MIXED, INACTIVE, NOBODY, BARRIERS, GENERALIZED, WHATS };
static const char *names[] = { "sends", "receives", "wild", "both", "large", "synchronous", "persistent", "nulls",
                               "mixed", "inactive", "nobody", "barriers", "generalized" };

static char buffers[2][MANY][200000];

static void begin(enum what what, MPI_Request *requests, int n)
{
    int bytes = what == LARGE ? 200000 : 8;
    MPI_Request partners[MANY];
    for (int i = 0; i < n; i++) {
        char *out = buffers[0][i], *in = buffers[1][i];
        requests[i] = MPI_REQUEST_NULL;
        switch (what) {
        case SENDS:
            MPI_Isend(out, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
            MPI_Recv(in, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        case SYNCHRONOUS:
            MPI_Issend(out, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
            MPI_Recv(in, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        case RECEIVES:
        case WILD:
            MPI_Irecv(in, bytes, MPI_BYTE, what == WILD ? MPI_ANY_SOURCE : other, rank / 2 * 100 + i, MPI_COMM_WORLD,
                      &requests[i]);
            MPI_Send(out, bytes, MPI_BYTE, other, rank / 2 * 100 + i, MPI_COMM_WORLD);
            break;
        case BOTH:
        case LARGE:
            if (i % 2 == 0) {
                MPI_Irecv(in, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
                MPI_Isend(out, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, i + 1 < n ? &requests[i + 1] : &partners[i]);
                if (i + 1 == n)
                    MPI_Request_free(&partners[i]);
                i += 1;
            }
            break;
        case MIXED:
            if (i % 3 == 1) {
                MPI_Isend(out, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
                MPI_Recv(in, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (i % 3 == 2) {
                MPI_Irecv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, rank / 2 * 100 + i, MPI_COMM_WORLD, &requests[i]);
                MPI_Send(out, bytes, MPI_BYTE, other, rank / 2 * 100 + i, MPI_COMM_WORLD);
            }
            break;
        case INACTIVE:
            if (i % 3 == 1)
                MPI_Recv_init(in, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
            else if (i % 3 == 2)
                MPI_Send_init(out, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
            else {
                MPI_Irecv(in, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
                MPI_Send(out, bytes, MPI_BYTE, other, i, MPI_COMM_WORLD);
            }
            break;
        case PERSISTENT:
            if (i % 2 == 0)
                MPI_Recv_init(in, bytes, MPI_BYTE, other, i / 2, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Send_init(out, bytes, MPI_BYTE, other, i / 2, MPI_COMM_WORLD, &requests[i]);
            break;
        case NOBODY:
            if (i % 2 == 0)
                MPI_Irecv(in, bytes, MPI_BYTE, MPI_PROC_NULL, i, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Isend(out, bytes, MPI_BYTE, MPI_PROC_NULL, i, MPI_COMM_WORLD, &requests[i]);
            break;
        case BARRIERS:
            MPI_Ibarrier(MPI_COMM_WORLD, &requests[i]);
            break;
        case GENERALIZED:
            MPI_Grequest_start(query, release, cancel, NULL, &requests[i]);
            MPI_Grequest_complete(requests[i]);
            break;
        default:
            break;
        }
    }
    if (what == PERSISTENT) {
        MPI_Startall(n, requests);
        if (n % 2)
            MPI_Send(buffers[0][n], 8, MPI_BYTE, other, n / 2, MPI_COMM_WORLD);
    }
}

/* All calls of one kind, on n requests. */
static void complete(enum what what, int n, int which)
{
    static const char *calls[] = { "wait", "test", "waitany", "testany", "waitall", "testall", "waitsome", "testsome",
                                   "get_status" };
    MPI_Request requests[MANY];
    MPI_Status statuses[MANY], found[MANY];
    int indices[MANY], flag = 0, index, count = 0, done = 0;
    char call[40];
    begin(what, requests, n);
    preset(statuses, n);
    switch (which) {
    case 0:
        for (int i = 0; i < n; i++)
            MPI_Wait(&requests[i], &statuses[i]);
        break;
    case 1:
        for (int i = 0; i < n; i++)
            for (flag = 0; !flag;)
                MPI_Test(&requests[i], &flag, &statuses[i]);
        break;
    case 2:
    case 3:
        for (int i = 0; i < n; i++) {
            MPI_Status one;
            preset(&one, 1);
            if (which == 2)
                MPI_Waitany(n, requests, &index, &one);
            else
                for (flag = 0; !flag;)
                    MPI_Testany(n, requests, &index, &flag, &one);
            statuses[index == MPI_UNDEFINED ? i : index] = one;
        }
        break;
    case 4:
        MPI_Waitall(n, requests, statuses);
        break;
    case 5:
        while (!flag)
            MPI_Testall(n, requests, &flag, statuses);
        break;
    case 6:
    case 7:
        while (done < n) {
            preset(found, n);
            if (which == 6)
                MPI_Waitsome(n, requests, &count, indices, found);
            else
                MPI_Testsome(n, requests, &count, indices, found);
            if (count == MPI_UNDEFINED)
                break;
            for (int i = 0; i < count; i++)
                statuses[indices[i]] = found[i];
            done += count;
        }
        break;
    case 8:
        for (int i = 0; i < n; i++) {
            for (flag = 0; !flag;)
                MPI_Request_get_status(requests[i], &flag, &statuses[i]);
        }
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        break;
    }
    snprintf(call, sizeof call, "%s %d", calls[which], n);
    say(names[what], call, n, statuses);
    if (what == PERSISTENT && which != 8) {
        /* Once more: the requests are inactive before this call. */
        preset(statuses, n);
        MPI_Waitall(n, requests, statuses);
        say("inactive", call, n, statuses);
    }
    for (int i = 0; i < n; i++)
        if (requests[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Receives and probes with one status. */
static void single(void)
{
    char byte = 0, in = 0;
    MPI_Status status;
    MPI_Message message;
    int flag;
    for (int source = 0; source < 3; source++) {
        int from = source == 0 ? other : source == 1 ? MPI_ANY_SOURCE : MPI_PROC_NULL;
        int to = source == 2 ? MPI_PROC_NULL : other;
        const char *name = source == 0 ? "named" : source == 1 ? "any" : "nobody";
        preset(&status, 1);
        MPI_Sendrecv(&byte, 1, MPI_BYTE, to, rank / 2, &in, 1, MPI_BYTE, from, rank / 2, MPI_COMM_WORLD, &status);
        say(name, "sendrecv", 1, &status);
        if (source < 2)
            MPI_Send(&byte, 1, MPI_BYTE, other, rank / 2, MPI_COMM_WORLD);
        preset(&status, 1);
        MPI_Recv(&in, 1, MPI_BYTE, from, rank / 2, MPI_COMM_WORLD, &status);
        say(name, "recv", 1, &status);
        if (source < 2)
            MPI_Send(&byte, 1, MPI_BYTE, other, rank / 2, MPI_COMM_WORLD);
        preset(&status, 1);
        MPI_Probe(from, rank / 2, MPI_COMM_WORLD, &status);
        say(name, "probe", 1, &status);
        preset(&status, 1);
        for (flag = 0; !flag;)
            MPI_Iprobe(from, rank / 2, MPI_COMM_WORLD, &flag, &status);
        say(name, "iprobe", 1, &status);
        preset(&status, 1);
        MPI_Mprobe(from, rank / 2, MPI_COMM_WORLD, &message, &status);
        say(name, "mprobe", 1, &status);
        preset(&status, 1);
        MPI_Mrecv(&in, 1, MPI_BYTE, &message, &status);
        say(name, "mrecv", 1, &status);
        if (source < 2)
            MPI_Send(&byte, 1, MPI_BYTE, other, rank / 2, MPI_COMM_WORLD);
        preset(&status, 1);
        for (flag = 0; !flag;)
            MPI_Improbe(from, rank / 2, MPI_COMM_WORLD, &flag, &message, &status);
        say(name, "improbe", 1, &status);
        MPI_Request request;
        MPI_Imrecv(&in, 1, MPI_BYTE, &message, &request);
        preset(&status, 1);
        MPI_Wait(&request, &status);
        say(name, "imrecv wait", 1, &status);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int size, level;
    if (argc > 1)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size % 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    other = rank ^ 1;
    for (enum what what = 0; what < WHATS; what++)
        for (int which = 0; which < 9; which++)
            for (int n = 1; n <= MANY; n += n == 1 ? 1 : MANY - 2)
                complete(what, n, which);
    single();
    char *all = malloc(size * sizeof said);
    MPI_Gather(said, sizeof said, MPI_CHAR, all, sizeof said, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
        fputs(all + i * sizeof said, stdout);
    MPI_Finalize();
    return 0;
}
