/* Nanoseconds per MPI call, on one rank: the least of many repeats.
 *
 * One line for each pattern: its name, nanoseconds per call. A pattern of several calls
 * (Irecv, Isend, Waitall) counts each of them.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int n;
static double a[8], b[8];

static void comm_rank(void)
{
    int rank;
    for (int i = 0; i < n; i++)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}

static void sendrecv(void)
{
    for (int i = 0; i < n; i++)
        MPI_Sendrecv(a, 8, MPI_DOUBLE, 0, 7, b, 8, MPI_DOUBLE, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static void nonblocking(void)
{
    for (int i = 0; i < n; i++) {
        MPI_Request r[2];
        MPI_Irecv(b, 8, MPI_DOUBLE, 0, 7, MPI_COMM_SELF, &r[0]);
        MPI_Isend(a, 8, MPI_DOUBLE, 0, 7, MPI_COMM_SELF, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
}

static void report(const char *name, void (*pattern)(void), int calls, int repeats)
{
    double least = 1e300;
    for (int k = 0; k < repeats; k++) {
        double start = now();
        pattern();
        double took = (now() - start) / n / calls;
        if (took < least)
            least = took;
    }
    printf("%s %.2f\n", name, least);
}

int main(int argc, char **argv)
{
    int repeats = argc > 1 ? atoi(argv[1]) : 30;
    n = argc > 2 ? atoi(argv[2]) : 20000;
    MPI_Init(&argc, &argv);
    report("Comm_rank", comm_rank, 1, repeats);
    report("self-Sendrecv", sendrecv, 1, repeats);
    report("Irecv+Isend+Waitall", nonblocking, 3, repeats);
    MPI_Finalize();
    return 0;
}
