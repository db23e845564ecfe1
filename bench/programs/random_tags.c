/* Nanoseconds per MPI_Sendrecv to oneself, with one of 1,024 tags drawn at random for each call:
 * the least of many repeats, on one rank.
 *
 *     random_tags [repeats] [calls]
 *
 * No two stretches of the calls are alike, so there is nothing to fold: the worst case for a
 * grammar, with few signatures. The tags are drawn before the clock is started; every repeat has
 * others, every run the same.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TAGS = 1024 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* xorshift64 */
static uint64_t draw(void)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int main(int argc, char **argv)
{
    int repeats = argc > 1 ? atoi(argv[1]) : 30;
    int calls = argc > 2 ? atoi(argv[2]) : 20000;
    int *tags = malloc(calls * sizeof *tags);
    double a[8] = { 0 }, b[8], least = 1e300;

    MPI_Init(&argc, &argv);
    for (int k = 0; k < repeats; k++) {
        for (int i = 0; i < calls; i++)
            tags[i] = draw() >> 32 & (TAGS - 1);
        double start = now();
        for (int i = 0; i < calls; i++)
            MPI_Sendrecv(a, 8, MPI_DOUBLE, 0, tags[i], b, 8, MPI_DOUBLE, 0, tags[i], MPI_COMM_SELF,
                         MPI_STATUS_IGNORE);
        double took = (now() - start) / calls;
        if (took < least)
            least = took;
    }
    printf("random-tags-Sendrecv %.2f\n", least);
    MPI_Finalize();
    free(tags);
    return 0;
}
