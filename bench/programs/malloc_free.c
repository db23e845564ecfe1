/* Nanoseconds per malloc and free of one block, in an MPI program: the least of many repeats, on
 * one rank.
 *
 *     malloc_free [repeats] [pairs]
 *
 * One line for each pattern: its name, nanoseconds per pair. Before the loops there is one MPI
 * call with a buffer from the heap, so that a tool that follows heap blocks has seen one.
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

static void pair(size_t size)
{
    char *block = malloc(size);
    /* Lets the pointer escape: otherwise the compiler removes the pair. */
    __asm__ volatile("" : : "r"(block) : "memory");
    free(block);
}

static void fixed(void)
{
    for (int i = 0; i < n; i++)
        pair(64);
}

/* All multiples of 16 up to 4,096, in an order in which neighbours differ much. */
static void mixed(void)
{
    for (int i = 0; i < n; i++)
        pair(16 * (1 + i * 77 % 256));
}

static void report(const char *name, void (*pattern)(void), int repeats)
{
    double least = 1e300;
    for (int k = 0; k < repeats; k++) {
        double start = now();
        pattern();
        double took = (now() - start) / n;
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

    double *heap = calloc(16, sizeof *heap);
    MPI_Sendrecv(heap, 8, MPI_DOUBLE, 0, 7, heap + 8, 8, MPI_DOUBLE, 0, 7, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    report("malloc+free-64", fixed, repeats);
    report("malloc+free-16..4096", mixed, repeats);

    free(heap);
    MPI_Finalize();
    return 0;
}
