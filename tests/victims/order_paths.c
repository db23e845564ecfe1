/* Every way to receive a message, each with an outcome that differs from run to run. In every round
 * all ranks send to all others, and receive the messages in one of these ways; the digest that each
 * rank prints depends on the order.
 *
 *     order_paths all|traced|PATH [rounds] [seed]
 *
 * `traced` means the ways whose order a trace of calls has.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, LARGE = 20000 };

static int rank, size, others;
static MPI_Comm comm;
static uint64_t digest, noise;
static uint64_t out[MOST], in[MOST];
static MPI_Request sends[MOST], receives[2 * MOST];
static MPI_Status statuses[2 * MOST];
static int indices[2 * MOST];

static void mix(uint64_t value) {
    digest = (digest ^ value) * 0x9e3779b97f4a7c15u;
    digest ^= digest >> 29;
}

static void got(const MPI_Status *status, uint64_t value) {
    int count;
    MPI_Get_count(status, MPI_UINT64_T, &count);
    mix((uint64_t)status->MPI_SOURCE << 32 | (uint64_t)status->MPI_TAG << 8 | (uint64_t)count);
    mix(value);
}

/* Waits for a time that differs in every run. */
static void dawdle(void) {
    static volatile uint64_t sink;
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    for (uint64_t i = 0; i < (noise >> 33) % 3000; i++)
        sink += i;
}

static void send_all(int tag) {
    dawdle();
    for (int i = 0; i < others; i++) {
        int to = (rank + 1 + i) % size;
        out[i] = digest + (uint64_t)i;
        MPI_Isend(&out[i], 1, MPI_UINT64_T, to, tag + i % 2, comm, &sends[i]);
    }
    dawdle();
}

static void sent(void) { MPI_Waitall(others, sends, MPI_STATUSES_IGNORE); }

static void post_all(void) {
    for (int i = 0; i < others; i++)
        MPI_Irecv(&in[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &receives[i]);
}

static void recv_path(void) {
    send_all(1);
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        MPI_Recv(in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        got(&status, in[0]);
    }
    sent();
}

static void ignoring(void) {
    send_all(1);
    for (int i = 0; i < others; i++) {
        MPI_Recv(in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
        mix(in[0]);
    }
    sent();
    send_all(3);
    post_all();
    MPI_Waitall(others, receives, MPI_STATUSES_IGNORE);
    for (int i = 0; i < others; i++)
        mix(in[i]);
    sent();
}

static void sendrecv(void) {
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        dawdle();
        MPI_Sendrecv(&digest, 1, MPI_UINT64_T, (rank + 1 + i) % size, 5, in, 1, MPI_UINT64_T,
                     MPI_ANY_SOURCE, 5, comm, &status);
        got(&status, in[0]);
    }
}

static void sendrecv_replace(void) {
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        uint64_t both = digest;
        dawdle();
        MPI_Sendrecv_replace(&both, 1, MPI_UINT64_T, (rank + 1 + i) % size, 6, MPI_ANY_SOURCE, 6,
                             comm, &status);
        got(&status, both);
    }
}

static void waitall(void) {
    post_all();
    send_all(1);
    MPI_Waitall(others, receives, statuses);
    for (int i = 0; i < others; i++)
        got(&statuses[i], in[i]);
    sent();
}

static void wait_each(void) {
    post_all();
    send_all(1);
    for (int i = others - 1; i >= 0; i--) {
        MPI_Wait(&receives[i], &statuses[i]);
        got(&statuses[i], in[i]);
    }
    sent();
}

static void waitany(void) {
    post_all();
    send_all(1);
    for (int i = 0; i <= others; i++) {
        int which;
        MPI_Status status;
        MPI_Waitany(others, receives, &which, &status);
        if (which == MPI_UNDEFINED) {
            mix(i == others);
        } else {
            mix((uint64_t)which);
            got(&status, in[which]);
        }
    }
    sent();
}

static void some(int tests) {
    post_all();
    send_all(1);
    /* Sends are in the same array. */
    memcpy(receives + others, sends, sizeof *sends * (size_t)others);
    for (;;) {
        int n;
        if (tests)
            MPI_Testsome(2 * others, receives, &n, indices, statuses);
        else
            MPI_Waitsome(2 * others, receives, &n, indices, statuses);
        if (n == MPI_UNDEFINED)
            break;
        mix((uint64_t)n);
        for (int i = 0; i < n; i++) {
            mix((uint64_t)indices[i]);
            if (indices[i] < others)
                got(&statuses[i], in[indices[i]]);
        }
    }
}

static void waitsome(void) { some(0); }
static void testsome(void) { some(1); }

static void test(void) {
    post_all();
    send_all(1);
    for (int i = 0; i < others; i++) {
        int flag = 0;
        MPI_Status status;
        for (uint64_t n = 0; !flag; n++) {
            MPI_Test(&receives[i], &flag, &status);
            mix(n);
        }
        got(&status, in[i]);
    }
    sent();
}

static void testall(void) {
    post_all();
    send_all(1);
    int flag = 0;
    for (uint64_t n = 0; !flag; n++) {
        MPI_Testall(others, receives, &flag, statuses);
        mix(n);
    }
    for (int i = 0; i < others; i++)
        got(&statuses[i], in[i]);
    sent();
}

static void testany(void) {
    post_all();
    send_all(1);
    for (;;) {
        int which, flag;
        MPI_Status status;
        MPI_Testany(others, receives, &which, &flag, &status);
        mix((uint64_t)flag);
        if (flag && which == MPI_UNDEFINED)
            break;
        if (flag) {
            mix((uint64_t)which);
            got(&status, in[which]);
        }
    }
    sent();
}

static void persistent(void) {
    static MPI_Request started[MOST + 1];
    static uint64_t payload;
    for (int i = 0; i < others; i++)
        MPI_Recv_init(&in[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 7, comm, &started[i]);
    MPI_Send_init(&payload, 1, MPI_UINT64_T, (rank + 1) % size, 7, comm, &started[others]);
    for (int turn = 0; turn < 3; turn++) {
        payload = digest;
        MPI_Startall(others + 1, started);
        dawdle();
        for (int i = 1; i < others; i++)
            MPI_Send(&digest, 1, MPI_UINT64_T, (rank + 1 + i) % size, 7, comm);
        for (int i = 0; i < others + 1; i++) {
            int which;
            MPI_Status status;
            MPI_Waitany(others + 1, started, &which, &status);
            mix((uint64_t)which);
            if (which < others)
                got(&status, in[which]);
        }
        MPI_Barrier(comm);
    }
    for (int i = 0; i < others + 1; i++)
        MPI_Request_free(&started[i]);
}

static void probe(void) {
    send_all(1);
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        MPI_Recv(in, 1, MPI_UINT64_T, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
        got(&status, in[0]);
    }
    sent();
}

static void iprobe(void) {
    send_all(1);
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        int flag = 0;
        for (uint64_t n = 0; !flag; n++) {
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
            mix(n);
        }
        MPI_Recv(in, 1, MPI_UINT64_T, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
        got(&status, in[0]);
    }
    sent();
}

static void mprobe(void) {
    send_all(1);
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        MPI_Message message;
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, i % 2 ? &status : MPI_STATUS_IGNORE);
        MPI_Mrecv(in, 1, MPI_UINT64_T, &message, &status);
        got(&status, in[0]);
    }
    sent();
}

static void improbe(void) {
    send_all(1);
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        MPI_Message message;
        int flag = 0;
        for (uint64_t n = 0; !flag; n++) {
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, &status);
            mix(n);
        }
        MPI_Imrecv(&in[i], 1, MPI_UINT64_T, &message, &receives[i]);
    }
    MPI_Waitall(others, receives, statuses);
    for (int i = 0; i < others; i++)
        got(&statuses[i], in[i]);
    sent();
}

static void get_status(void) {
    post_all();
    send_all(1);
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        int flag = 0;
        for (uint64_t n = 0; !flag; n++) {
            MPI_Request_get_status(receives[i], &flag, &status);
            mix(n);
        }
        got(&status, 0);
        MPI_Wait(&receives[i], MPI_STATUS_IGNORE);
        mix(in[i]);
    }
    sent();
}

/* One receive too many, posted at a varying position: it is cancelled, or another one is. */
static void cancel(void) {
    int cancelled, n;
    MPI_Status status;
    for (int i = 0; i < others + 1; i++)
        MPI_Irecv(&in[i], 1, MPI_UINT64_T, i % 3 ? MPI_ANY_SOURCE : (rank + 1 + i / 3) % size,
                  MPI_ANY_TAG, comm, &receives[i]);
    for (int i = 0; i < others; i++) {
        out[i] = digest + (uint64_t)i;
        MPI_Isend(&out[i], 1, MPI_UINT64_T, (rank + 1 + i) % size, 1, comm, &sends[i]);
    }
    dawdle();
    MPI_Testsome(others + 1, receives, &n, indices, statuses);
    for (int i = 0; i < n; i++)
        got(&statuses[i], in[indices[i]]);
    /* Pending receives are cancelled; messages that remain are received after a probe. */
    int taken = n == MPI_UNDEFINED ? 0 : n;
    for (int i = 0; i < others + 1; i++) {
        if (receives[i] == MPI_REQUEST_NULL)
            continue;
        MPI_Cancel(&receives[i]);
        MPI_Wait(&receives[i], &status);
        MPI_Test_cancelled(&status, &cancelled);
        mix((uint64_t)cancelled);
        if (!cancelled) {
            got(&status, in[i]);
            taken++;
        }
    }
    for (; taken < others; taken++) {
        MPI_Recv(in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        got(&status, in[0]);
    }
    sent();
    /* Otherwise the extra receive might match a message of the next round. */
    MPI_Barrier(comm);
}

/* The first receive is freed; it matches a message nevertheless. */
static void freed(void) {
    static uint64_t lost[1 << 12];
    static int losses;
    if (losses == 1 << 12)
        return;
    MPI_Irecv(&lost[losses++], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 9, comm, &receives[0]);
    MPI_Request_free(&receives[0]);
    dawdle();
    for (int i = 0; i < others; i++)
        MPI_Isend(&digest, 1, MPI_UINT64_T, (rank + 1 + i) % size, 9, comm, &sends[i]);
    uint64_t sum = 0;
    for (int i = 1; i < others; i++) {
        MPI_Status status;
        MPI_Recv(in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 9, comm, &status);
        sum = sum * 31 + (uint64_t)status.MPI_SOURCE + in[0];
    }
    sent();
    mix(sum);
}

/* Two receives from one sender: the large one was posted first and completes last, or not. */
static void out_of_order(void) {
    static double large[2][LARGE];
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    double small = (double)(digest % 1000), little;
    large[0][0] = small + 1;
    MPI_Irecv(large[1], LARGE, MPI_DOUBLE, from, 3, comm, &receives[0]);
    MPI_Irecv(&little, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 4, comm, &receives[1]);
    MPI_Isend(large[0], LARGE, MPI_DOUBLE, to, 3, comm, &receives[2]);
    MPI_Isend(&small, 1, MPI_DOUBLE, to, 4, comm, &receives[3]);
    for (int i = 0; i < 4; i++) {
        int which;
        MPI_Status status;
        MPI_Waitany(4, receives, &which, &status);
        mix((uint64_t)which);
    }
    mix((uint64_t)(large[1][0] + little));
}

/* Halves of all ranks, and messages from one half to the other. */
static void communicators(void) {
    MPI_Comm whole = comm, half, inter;
    MPI_Comm_split(whole, rank % 2, rank, &half);
    int halves, peers;
    MPI_Comm_size(half, &halves);
    MPI_Intercomm_create(half, 0, whole, 1 - rank % 2, 11, &inter);
    MPI_Comm_remote_size(inter, &peers);
    for (int i = 0; i < peers; i++)
        MPI_Isend(&digest, 1, MPI_UINT64_T, i, 2, inter, &sends[i]);
    dawdle();
    for (int i = 0; i < peers; i++) {
        MPI_Status status;
        MPI_Recv(&in[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status);
        got(&status, in[i]);
    }
    MPI_Waitall(peers, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < halves; i++)
        MPI_Isend(&digest, 1, MPI_UINT64_T, i, 3, half, &sends[i]);
    for (int i = 0; i < halves; i++) {
        MPI_Status status;
        MPI_Recv(&in[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 3, half, &status);
        got(&status, in[i]);
    }
    MPI_Waitall(halves, sends, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* As much as fits into a millisecond. */
static void timed(void) {
    double start = MPI_Wtime();
    uint64_t n = 0;
    post_all();
    send_all(1);
    while (MPI_Wtime() - start < 0.001) {
        int which, flag;
        MPI_Testany(others, receives, &which, &flag, MPI_STATUS_IGNORE);
        n++;
        if (flag && which != MPI_UNDEFINED)
            mix(n << 8 | (uint64_t)which);
    }
    mix(n);
    MPI_Waitall(others, receives, MPI_STATUSES_IGNORE);
    for (int i = 0; i < others; i++)
        mix(in[i]);
    sent();
}

/* Receives from MPI_PROC_NULL with any tag, among receives from any source. */
static void nobody(void) {
    MPI_Request none[2];
    MPI_Recv_init(in, 1, MPI_UINT64_T, MPI_PROC_NULL, MPI_ANY_TAG, comm, &none[0]);
    MPI_Start(&none[0]);
    MPI_Irecv(in, 1, MPI_UINT64_T, MPI_PROC_NULL, MPI_ANY_TAG, comm, &none[1]);
    post_all();
    send_all(1);
    MPI_Recv(in, 1, MPI_UINT64_T, MPI_PROC_NULL, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    MPI_Waitall(2, none, statuses);
    mix((uint64_t)(statuses[1].MPI_SOURCE == MPI_PROC_NULL));
    MPI_Request_free(&none[0]);
    MPI_Waitall(others, receives, statuses);
    for (int i = 0; i < others; i++)
        got(&statuses[i], in[i]);
    sent();
}

/* Messages that are too long, in any order. */
static void truncated(void) {
    uint64_t two[2] = {digest, 1};
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < others; i++)
        MPI_Isend(two, 1 + (rank + i) % 2, MPI_UINT64_T, (rank + 1 + i) % size, 8, comm, &sends[i]);
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        int class = MPI_SUCCESS;
        int error = MPI_Recv(in, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 8, comm, &status);
        if (error != MPI_SUCCESS)
            MPI_Error_class(error, &class);
        mix((uint64_t)class << 8 | (uint64_t)status.MPI_SOURCE);
    }
    sent();
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

#if MPI_VERSION >= 4
static void isendrecv(void) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    for (int i = 0; i < others; i++) {
        int from = MPI_ANY_SOURCE;
        /* MPICH's status of such a request does not say what was received. */
        if (strstr(library, "MPICH"))
            from = (rank + size - 1 - i) % size;
        MPI_Isendrecv(&digest, 1, MPI_UINT64_T, (rank + 1 + i) % size, 5, &in[i], 1, MPI_UINT64_T,
                      from, 5, comm, &receives[i]);
    }
    for (int i = 0; i < others; i++) {
        int which;
        MPI_Waitany(others, receives, &which, MPI_STATUS_IGNORE);
        statuses[i].MPI_SOURCE = which;
    }
    for (int i = 0; i < others; i++)
        mix(in[i] + (uint64_t)statuses[i].MPI_SOURCE);
}
#endif

#if MPI_VERSION >= 4
/* A partitioned message; every partition is tested. */
static void partitioned(void) {
    enum { PIECES = 4 };
    static uint64_t from[PIECES], to[PIECES];
    MPI_Request request[2];
    MPI_Precv_init(to, PIECES, 1, MPI_UINT64_T, (rank + size - 1) % size, 12, comm, MPI_INFO_NULL,
                   &request[0]);
    MPI_Psend_init(from, PIECES, 1, MPI_UINT64_T, (rank + 1) % size, 12, comm, MPI_INFO_NULL,
                   &request[1]);
    MPI_Startall(2, request);
    for (int i = 0; i < PIECES; i++) {
        from[i] = digest + (uint64_t)i;
        MPI_Pready(i, request[1]);
    }
    for (int i = PIECES - 1; i >= 0; i--) {
        int flag = 0;
        for (uint64_t n = 0; !flag; n++) {
            MPI_Parrived(request[0], i, &flag);
            mix(n);
        }
    }
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < PIECES; i++)
        mix(to[i]);
    MPI_Request_free(&request[0]);
    MPI_Request_free(&request[1]);
}
#endif

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
/* Queries several requests without completing them. */
static void get_status_of_several(void) {
    post_all();
    send_all(1);
    for (int flag = 0, which; !flag; mix((uint64_t)flag)) {
        MPI_Request_get_status_any(others, receives, &which, &flag, statuses);
        if (flag && which != MPI_UNDEFINED)
            got(&statuses[0], (uint64_t)which);
    }
    for (int n = 0; n == 0; mix((uint64_t)n)) {
        MPI_Request_get_status_some(others, receives, &n, indices, statuses);
        for (int i = 0; i < n; i++)
            got(&statuses[i], (uint64_t)indices[i]);
    }
    for (int flag = 0; !flag; mix((uint64_t)flag))
        MPI_Request_get_status_all(others, receives, &flag, statuses);
    MPI_Waitall(others, receives, statuses);
    for (int i = 0; i < others; i++)
        got(&statuses[i], in[i]);
    sent();
}
#endif

/* Nothing to wait for: arrays of null requests, and none at all. */
static void nothing(void) {
    int which, flag, n;
    MPI_Request none[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Waitall(3, none, MPI_STATUSES_IGNORE);
    MPI_Waitany(3, none, &which, MPI_STATUS_IGNORE);
    mix((uint64_t)(which == MPI_UNDEFINED));
    MPI_Testany(3, none, &which, &flag, MPI_STATUS_IGNORE);
    mix((uint64_t)(which == MPI_UNDEFINED) << 1 | (uint64_t)flag);
    MPI_Waitsome(3, none, &n, indices, MPI_STATUSES_IGNORE);
    mix((uint64_t)(n == MPI_UNDEFINED));
    MPI_Testsome(3, none, &n, indices, MPI_STATUSES_IGNORE);
    mix((uint64_t)(n == MPI_UNDEFINED));
    MPI_Testall(3, none, &flag, MPI_STATUSES_IGNORE);
    mix((uint64_t)flag);
    MPI_Wait(&none[0], MPI_STATUS_IGNORE);
    MPI_Irecv(&in[0], 1, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &none[1]);
    MPI_Send(&digest, 1, MPI_UINT64_T, (rank + 1) % size, 3, comm);
    MPI_Waitany(3, none, &which, &statuses[0]);
    got(&statuses[0], in[0] ^ (uint64_t)which);
}

static const struct {
    const char *name;
    void (*go)(void);
} paths[] = {
    {"recv", recv_path}, {"ignoring", ignoring}, {"sendrecv", sendrecv},
    {"sendrecv_replace", sendrecv_replace}, {"waitall", waitall}, {"wait", wait_each},
    {"waitany", waitany}, {"waitsome", waitsome}, {"test", test}, {"testall", testall},
    {"testany", testany}, {"testsome", testsome}, {"persistent", persistent}, {"probe", probe},
    {"iprobe", iprobe}, {"mprobe", mprobe}, {"improbe", improbe}, {"get_status", get_status},
    {"cancel", cancel}, {"freed", freed}, {"out_of_order", out_of_order},
    {"communicators", communicators}, {"timed", timed}, {"nobody", nobody},
    {"truncated", truncated}, {"nothing", nothing},
#if MPI_VERSION >= 4
    {"isendrecv", isendrecv}, {"partitioned", partitioned},
#endif
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    {"get_status_of_several", get_status_of_several},
#endif
};

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    others = size - 1;
    const char *wanted = argc > 1 ? argv[1] : "all";
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    uint64_t seed = argc > 3 ? (uint64_t)atol(argv[3]) : 1;
    noise = (uint64_t)(MPI_Wtime() * 1e9) + (uint64_t)rank * 977;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int is_untraced = strcmp(paths[i].name, "timed") == 0 || strcmp(paths[i].name, "freed") == 0;
        if (strcmp(wanted, "traced") == 0 ? is_untraced
                                          : strcmp(wanted, "all") != 0 && strcmp(wanted, paths[i].name) != 0)
            continue;
        digest = seed + (uint64_t)rank;
        for (int round = 0; round < rounds; round++)
            paths[i].go();
        MPI_Barrier(comm);
        printf("%s %d: %016llx\n", paths[i].name, rank, (unsigned long long)digest);
    }
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
