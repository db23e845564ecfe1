/*
 * A program at the limit of its memory, which it sets itself after MPI_Init: nothing more can be
 * mapped. It continues to receive from any source, so often that a recorder must write its log.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "say.h"

static int rank;

static int receive(int times)
{
    int wrong = 0;
    for (int i = 0; i < times; i++) {
        int out = i, in = -1, flag;
        MPI_Request request;
        MPI_Isend(&out, 1, MPI_INT, 0, i % 100, MPI_COMM_SELF, &request);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        wrong += in != out;
    }
    return wrong;
}

static long mapped(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld", &pages) != 1)
        say("rank %d: no statm", rank);
    if (file != NULL)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    struct rlimit limit, old;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* MPI has executed all its code once. */
    int wrong = receive(1000);
    getrlimit(RLIMIT_AS, &old);
    limit = (struct rlimit) { (rlim_t) mapped() + (64 << 10), old.rlim_max };
    setrlimit(RLIMIT_AS, &limit);
    wrong += receive(100000);
    void *more = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    setrlimit(RLIMIT_AS, &old);
    say("rank %d: %d wrong, %s memory left", rank, wrong, more == MAP_FAILED ? "no" : "some");
    MPI_Finalize();
    return 0;
}
