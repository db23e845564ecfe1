/* The communication of a 2-D five-point stencil, without its arithmetic.
 *
 *     stencil2d [hand|cart] [iterations] [px py]
 *
 * The ranks form a grid of px x py, by default MPI_Dims_create's, with MPI_PROC_NULL beyond its
 * borders. In each iteration (1,000 of them) a rank posts four receives and four sends, and waits
 * for all eight. With `hand` it computes its neighbours and talks on MPI_COMM_WORLD; with `cart`
 * it has MPI_Cart_create and MPI_Cart_shift do that.
 *
 * Rank 0 prints the seconds that the iterations took and the number of its calls.
 *
 * For measuring how a trace grows: more iterations should cost nothing, and ranks differ only by
 * which borders they are at, in nine ways at most.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { UP, DOWN, LEFT, RIGHT, SIDES, CELLS = 64 };

/* A message that goes up comes from below. */
static const int opposite[SIDES] = { DOWN, UP, RIGHT, LEFT };

/* Not MPI_Wtime, which would be in the trace. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static int side_by_hand(int row, int column, const int *grid)
{
    int inside = row >= 0 && row < grid[0] && column >= 0 && column < grid[1];
    return inside ? row * grid[1] + column : MPI_PROC_NULL;
}

static void neighbours_by_hand(int rank, const int *grid, int *side)
{
    int row = rank / grid[1], column = rank % grid[1];
    side[UP] = side_by_hand(row - 1, column, grid);
    side[DOWN] = side_by_hand(row + 1, column, grid);
    side[LEFT] = side_by_hand(row, column - 1, grid);
    side[RIGHT] = side_by_hand(row, column + 1, grid);
}

/* Returns how many messages differ from what the neighbour has sent. */
static int exchange(int iterations, int rank, const int *side, MPI_Comm comm)
{
    double in[SIDES][CELLS] = { { 0 } }, out[SIDES][CELLS] = { { 0 } };
    int wrong = 0;
    for (int k = 0; k < iterations; k++) {
        MPI_Request requests[2 * SIDES];
        for (int s = 0; s < SIDES; s++) {
            out[s][0] = rank;
            out[s][CELLS - 1] = k;
        }
        for (int s = 0; s < SIDES; s++)
            MPI_Irecv(in[s], CELLS, MPI_DOUBLE, side[s], opposite[s], comm, &requests[s]);
        for (int s = 0; s < SIDES; s++)
            MPI_Isend(out[s], CELLS, MPI_DOUBLE, side[s], s, comm, &requests[SIDES + s]);
        MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
        for (int s = 0; s < SIDES; s++)
            wrong += side[s] != MPI_PROC_NULL && (in[s][0] != side[s] || in[s][CELLS - 1] != k);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int named = argc > 1 && (strcmp(argv[1], "cart") == 0 || strcmp(argv[1], "hand") == 0);
    int cart = named && strcmp(argv[1], "cart") == 0;
    char **numbers = argv + 1 + named;
    int given = argc - 1 - named;
    int iterations = given > 0 ? atoi(numbers[0]) : 1000;
    int grid[2] = { given > 2 ? atoi(numbers[1]) : 0, given > 2 ? atoi(numbers[2]) : 0 };

    int size, rank, side[SIDES], periodic[2] = { 0, 0 };
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (given <= 2)
        MPI_Dims_create(size, 2, grid);
    if (grid[0] * grid[1] != size) {
        fprintf(stderr, "stencil2d: %d ranks are no grid of %d x %d\n", size, grid[0], grid[1]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    if (cart) {
        MPI_Cart_create(MPI_COMM_WORLD, 2, grid, periodic, 0, &comm);
        MPI_Cart_shift(comm, 0, 1, &side[UP], &side[DOWN]);
        MPI_Cart_shift(comm, 1, 1, &side[LEFT], &side[RIGHT]);
    } else {
        neighbours_by_hand(rank, grid, side);
    }
    double start = now();
    int wrong = exchange(iterations, rank, side, comm);
    double seconds = now() - start;
    if (cart)
        MPI_Comm_free(&comm);

    if (wrong > 0)
        printf("rank %d: %d messages were wrong\n", rank, wrong);
    else if (rank == 0)
        printf("%d x %d ranks, %d iterations; seconds %.4f calls %d\n", grid[0], grid[1], iterations, seconds,
               iterations * (2 * SIDES + 1));
    MPI_Finalize();
    return wrong > 0;
}
