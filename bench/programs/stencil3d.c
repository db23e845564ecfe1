/* The communication of a 3-D seven-point stencil, without its arithmetic, on a grid that wraps
 * around.
 *
 *     stencil3d [hand|cart] [iterations] [px py pz]
 *
 * The ranks form a grid of px x py x pz, by default MPI_Dims_create's. In each iteration (1,000 of
 * them) a rank posts six receives and six sends, and waits for all twelve. With `hand` it computes
 * its neighbours and talks on MPI_COMM_WORLD; with `cart` it has MPI_Cart_create and
 * MPI_Cart_shift do that.
 *
 * For measuring how a trace grows: more iterations should cost nothing. All ranks do the same, but
 * at the grid's faces the distance to a neighbour is another one.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A side is 2 x axis, plus one for the neighbour further up that axis. */
enum { AXES = 3, SIDES = 2 * AXES, CELLS = 64 };

static int opposite(int s)
{
    return s ^ 1;
}

static void neighbours_by_hand(int rank, const int *grid, int *side)
{
    int stride = 1;
    for (int axis = AXES - 1; axis >= 0; axis--) {
        int extent = grid[axis], at = rank / stride % extent;
        int first = rank - at * stride;
        side[2 * axis] = first + (at + extent - 1) % extent * stride;
        side[2 * axis + 1] = first + (at + 1) % extent * stride;
        stride *= extent;
    }
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
            MPI_Irecv(in[s], CELLS, MPI_DOUBLE, side[s], opposite(s), comm, &requests[s]);
        for (int s = 0; s < SIDES; s++)
            MPI_Isend(out[s], CELLS, MPI_DOUBLE, side[s], s, comm, &requests[SIDES + s]);
        MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
        for (int s = 0; s < SIDES; s++)
            wrong += in[s][0] != side[s] || in[s][CELLS - 1] != k;
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
    int grid[AXES] = { 0 };
    for (int axis = 0; axis < AXES && given > AXES; axis++)
        grid[axis] = atoi(numbers[1 + axis]);

    int size, rank, side[SIDES], periodic[AXES] = { 1, 1, 1 };
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (given <= AXES)
        MPI_Dims_create(size, AXES, grid);
    if (grid[0] * grid[1] * grid[2] != size) {
        fprintf(stderr, "stencil3d: %d ranks are no grid of %d x %d x %d\n", size, grid[0],
                grid[1], grid[2]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    if (cart) {
        MPI_Cart_create(MPI_COMM_WORLD, AXES, grid, periodic, 0, &comm);
        for (int axis = 0; axis < AXES; axis++)
            MPI_Cart_shift(comm, axis, 1, &side[2 * axis], &side[2 * axis + 1]);
    } else {
        neighbours_by_hand(rank, grid, side);
    }
    int wrong = exchange(iterations, rank, side, comm);
    if (cart)
        MPI_Comm_free(&comm);

    if (wrong > 0)
        printf("rank %d: %d messages were wrong\n", rank, wrong);
    else if (rank == 0)
        printf("%d x %d x %d ranks, %d iterations\n", grid[0], grid[1], grid[2], iterations);
    MPI_Finalize();
    return wrong > 0;
}
