/*
 * Skews the clock of every rank: it is 50 ms ahead of the clock of the previous rank, and 0.1 % faster.
 *
 * For tests of how clocks are aligned, with `REFRAIN_CLOCK=system`.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long own_rank(void)
{
    const char *rank = getenv("PMI_RANK");
    if (rank == NULL)
        rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank == NULL ? 0 : atoll(rank);
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    static long long rank = -1, first[16];
    int result = (int) syscall(SYS_clock_gettime, id, time);
    if (result != 0 || id < 0 || id >= 16)
        return result;
    if (rank < 0)
        rank = own_rank();
    long long now = time->tv_sec * 1000000000LL + time->tv_nsec;
    if (first[id] == 0)
        first[id] = now;
    now += rank * 50000000LL + rank * (now - first[id]) / 1000;
    time->tv_sec = now / 1000000000LL;
    time->tv_nsec = now % 1000000000LL;
    return result;
}
