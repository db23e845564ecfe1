/* As many calls as asked for, by default a million, no two of them with the same arguments: what
 * the table of signatures costs in memory.
 *
 *     signatures [calls]
 *
 * Each call is an MPI_Sendrecv to oneself with a tag and a count that no other call has, in an
 * order without a pattern. Rank 0 prints lines `name KiB`: its peak resident memory after
 * MPI_Init, before MPI_Finalize, and after it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Any MPI has tags up to 32,767. */
enum { TAG_BITS = 12 };

static long peak(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* A permutation of the numbers with this many bits: each step is invertible. */
static unsigned long shuffle(unsigned long x, int bits)
{
    unsigned long mask = (1ul << bits) - 1;
    for (int round = 0; round < 2; round++) {
        x ^= x >> (bits / 2);
        x = x * 0x9e3779b97f4a7c15 & mask;
    }
    return x ^ x >> (bits / 2);
}

int main(int argc, char **argv)
{
    unsigned long calls = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    char *out = calloc((calls >> TAG_BITS) + 1, 1), *in = malloc((calls >> TAG_BITS) + 1);
    int bits = 2, rank;
    while (1ul << bits < calls)
        bits++;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long at_first = peak();
    for (unsigned long i = 0; i < 1ul << bits; i++) {
        unsigned long which = shuffle(i, bits);
        if (which >= calls)
            continue;
        int tag = which & ((1 << TAG_BITS) - 1), count = which >> TAG_BITS;
        MPI_Sendrecv(out, count, MPI_BYTE, 0, tag, in, count, MPI_BYTE, 0, tag, MPI_COMM_SELF,
                     MPI_STATUS_IGNORE);
    }
    long at_last = peak();
    MPI_Finalize();
    if (rank == 0)
        printf("peak-after-Init %ld\npeak-before-Finalize %ld\npeak-after-Finalize %ld\n", at_first,
               at_last, peak());
    free(out);
    free(in);
    return 0;
}
