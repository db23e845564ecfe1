/* A Jacobi solver that receives from any source, although every message can come from one rank only:
 * each side of a block has its own tag. The order is the same in every run, but a recorder that does not know
 * that must record it (hidden determinism: Sato et al., section 6.3).
 *
 *     order_jacobi [iterations] [points a side of each block] [table]
 *
 * With a table, each rank writes the paper's base table as order_montecarlo does.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT, RIGHT, UP, DOWN, SIDES, WIDEST = 256 };

/* A side of a block, and the sender's Lamport clock. */
struct halo {
    double values[WIDEST];
    uint64_t clock;
};

static int rank, size, across, points;
static double now[WIDEST + 2][WIDEST + 2], then[WIDEST + 2][WIDEST + 2];
static uint64_t lamport;
static FILE *table;

/* The neighbour on a side; ranks form rows, and the grid is periodic. */
static int neighbour(int side) {
    int row = rank / across, column = rank % across, rows = size / across;
    switch (side) {
    case LEFT: return row * across + (column + across - 1) % across;
    case RIGHT: return row * across + (column + 1) % across;
    case UP: return (row + rows - 1) % rows * across + column;
    default: return (row + 1) % rows * across + column;
    }
}

static double *edge(int side, int i, int halo) {
    switch (side) {
    case LEFT: return &now[i][halo ? 0 : 1];
    case RIGHT: return &now[i][points + (halo ? 1 : 0)];
    case UP: return &now[halo ? 0 : 1][i];
    default: return &now[points + (halo ? 1 : 0)][i];
    }
}

static void exchange(void) {
    static struct halo in[SIDES], out[SIDES];
    MPI_Request receives[SIDES], sends[SIDES];
    MPI_Status statuses[SIDES];
    for (int side = 0; side < SIDES; side++)
        MPI_Irecv(&in[side], sizeof in[side], MPI_BYTE, MPI_ANY_SOURCE, side, MPI_COMM_WORLD,
                  &receives[side]);
    for (int side = 0; side < SIDES; side++) {
        for (int i = 1; i <= points; i++)
            out[side].values[i - 1] = *edge(side, i, 0);
        out[side].clock = ++lamport;
        /* The left side of one block is the right side of its neighbour. */
        MPI_Isend(&out[side], sizeof out[side], MPI_BYTE, neighbour(side), side ^ 1, MPI_COMM_WORLD,
                  &sends[side]);
    }
    MPI_Waitall(SIDES, receives, statuses);
    for (int side = 0; side < SIDES; side++) {
        for (int i = 1; i <= points; i++)
            *edge(side, i, 1) = in[side].values[i - 1];
        lamport = (in[side].clock > lamport ? in[side].clock : lamport) + 1;
        uint32_t row[] = {1, 1, side + 1 < SIDES, (uint32_t)statuses[side].MPI_SOURCE,
                          (uint32_t)in[side].clock};
        if (table != NULL)
            fwrite(row, sizeof row, 1, table);
    }
    MPI_Waitall(SIDES, sends, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int iterations = argc > 1 ? atoi(argv[1]) : 100;
    points = argc > 2 ? atoi(argv[2]) : 32;
    if (points > WIDEST)
        points = WIDEST;
    for (across = 1; (across + 1) * (across + 1) <= size; across++)
        ;
    while (size % across != 0)
        across--;
    if (argc > 3) {
        char name[1000];
        snprintf(name, sizeof name, "%s.%d", argv[3], rank);
        table = fopen(name, "wb");
    }
    now[1][1] = 1.0 + rank;
    double change = 0, all = 0;
    for (int iteration = 1; iteration <= iterations; iteration++) {
        exchange();
        change = 0;
        for (int i = 1; i <= points; i++)
            for (int j = 1; j <= points; j++) {
                then[i][j] = 0.25 * (now[i - 1][j] + now[i + 1][j] + now[i][j - 1] + now[i][j + 1]);
                change += (then[i][j] - now[i][j]) * (then[i][j] - now[i][j]);
            }
        memcpy(now, then, sizeof now);
        if (iteration % 100 == 0)
            MPI_Allreduce(&change, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (table != NULL)
        fclose(table);
    printf("rank %d: %a, %a\n", rank, now[1][1], all);
    MPI_Finalize();
    return 0;
}
