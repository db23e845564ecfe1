/* Particles move between ranks at random. Each rank has a few receives from any source posted, and tests
 * them between steps. The last bits of its tally depend on the order in which particles arrive. So does the
 * next random number of a particle.
 *
 *     order_montecarlo [particles a rank] [seed] [collisions a step] [table] [near]
 *
 * With a table, each rank writes what a record needs in the form of the paper's base table (Sato et
 * al., figure 4) to a file of that name and its number: rows of count, flag, with_next, rank and clock.
 * For that, messages always carry Lamport clocks. A second file, with `-which` appended to the name, has the request
 * that got each message, as bytes.
 *
 * Particles move to any rank. With "near" ranks are cells of a torus, and particles move to one of the four
 * neighbours, as in the paper's program.
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* AHEAD: how many particles of a rank move at a time. IDLE: failed polls before it makes another. */
enum { POSTED = 4, PARTICLE = 1, DONE = 2, AHEAD = 8, IDLE = 20 };

struct particle {
    double energy, weight;
    uint64_t state, clock;
};

static uint64_t next(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(uint64_t *state) { return (double)(next(state) >> 11) / 9007199254740992.0; }

static int rank, size, near, width;
static double tally;
static long absorbed, moved, collisions;
static uint64_t lamport;

static FILE *table, *requests_of;
static uint32_t failed;

static void row(uint32_t count, uint32_t flag, uint32_t with_next, uint32_t from, uint32_t when) {
    uint32_t values[] = {count, flag, with_next, from, when};
    fwrite(values, sizeof values, 1, table);
}

/* A message has arrived. */
static void came(int which, int source, uint64_t clock, int with_next) {
    lamport = (clock > lamport ? clock : lamport) + 1;
    if (table == NULL)
        return;
    if (failed > 0)
        row(failed, 0, 0, 0, 0);
    failed = 0;
    row(1, 1, (uint32_t)with_next, (uint32_t)source, (uint32_t)clock);
    fputc(which, requests_of);
}

/* The rank to which a particle moves. */
static int destination(uint64_t *state) {
    if (!near) {
        int to = (int)(next(state) % (uint64_t)(size - 1));
        return to + (to >= rank);
    }
    int height = size / width, x = rank % width, y = rank / width;
    switch (next(state) % 4) {
    case 0: return y * width + (x + 1) % width;
    case 1: return y * width + (x + width - 1) % width;
    case 2: return (y + 1) % height * width + x;
    default: return (y + height - 1) % height * width + x;
    }
}

/* One step of a particle: absorbed here, or sent on. */
static void step(struct particle p) {
    tally = tally * 1.0000001 + p.energy * p.weight * sin(tally);
    p.state ^= (uint64_t)(tally * 1e6);
    for (long i = 0; i < collisions; i++)
        p.weight += 1e-9 * cos(p.energy * uniform(&p.state));
    p.energy *= 0.5 + 0.5 * uniform(&p.state);
    p.clock = ++lamport;
    p.weight *= 0.95;
    if (size == 1 || uniform(&p.state) < 0.1) {
        absorbed++;
        MPI_Send(&p.clock, 1, MPI_UINT64_T, 0, DONE, MPI_COMM_WORLD);
        return;
    }
    MPI_Send(&p, sizeof p, MPI_BYTE, destination(&p.state), PARTICLE, MPI_COMM_WORLD);
    moved++;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long own = argc > 1 ? atol(argv[1]) : 200;
    uint64_t seed = argc > 2 ? (uint64_t)atol(argv[2]) : 1;
    collisions = argc > 3 ? atol(argv[3]) : 0;
    if (argc > 4) {
        char name[1000];
        snprintf(name, sizeof name, "%s.%d", argv[4], rank);
        table = fopen(name, "wb");
        snprintf(name, sizeof name, "%s-which.%d", argv[4], rank);
        requests_of = fopen(name, "wb");
    }
    near = argc > 5;
    for (width = 1; (width + 1) * (width + 1) <= size; width++)
        ;
    while (size % width != 0)
        width--;
    long left = rank == 0 ? own * size : -1, made = 0, idle = 0;
    tally = 1.0 + rank;

    struct particle buffers[POSTED];
    MPI_Request requests[POSTED + 1];
    for (int i = 0; i < POSTED; i++)
        MPI_Irecv(&buffers[i], sizeof buffers[i], MPI_BYTE, MPI_ANY_SOURCE, PARTICLE,
                  MPI_COMM_WORLD, &requests[i]);
    /* Rank 0 counts finished particles, and tells all ranks when all are finished. */
    uint64_t done;
    MPI_Irecv(&done, 1, MPI_UINT64_T, rank == 0 ? MPI_ANY_SOURCE : 0, DONE, MPI_COMM_WORLD,
              &requests[POSTED]);
    int over = 0;
    while (!over) {
        if (made < own && (made < absorbed + AHEAD || idle > IDLE)) {
            struct particle p = {1.0, 1.0, seed * 1000003u + (uint64_t)rank * 7919u + (uint64_t)made};
            made++;
            step(p);
        }
        int found, indices[POSTED + 1];
        MPI_Status statuses[POSTED + 1];
        MPI_Testsome(POSTED + 1, requests, &found, indices, statuses);
        idle = found == 0 ? idle + 1 : 0;
        failed += found == 0;
        for (int i = 0; i < found; i++) {
            int which = indices[i];
            came(which, statuses[i].MPI_SOURCE, which < POSTED ? buffers[which].clock : done,
                 i + 1 < found);
            if (which < POSTED) {
                struct particle p = buffers[which];
                p.weight += 1e-3 * statuses[i].MPI_SOURCE;
                MPI_Irecv(&buffers[which], sizeof buffers[which], MPI_BYTE, MPI_ANY_SOURCE,
                          PARTICLE, MPI_COMM_WORLD, &requests[which]);
                step(p);
            } else if (rank == 0 && --left > 0) {
                MPI_Irecv(&done, 1, MPI_UINT64_T, MPI_ANY_SOURCE, DONE, MPI_COMM_WORLD,
                          &requests[which]);
            } else {
                over = 1;
            }
        }
    }
    for (int to = 1; rank == 0 && to < size; to++)
        MPI_Send(&lamport, 1, MPI_UINT64_T, to, DONE, MPI_COMM_WORLD);
    for (int i = 0; i < POSTED; i++) {
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    if (table != NULL) {
        fclose(table);
        fclose(requests_of);
    }
    for (int turn = 0; turn < size; turn++) {
        if (turn == rank)
            printf("rank %d: tally %a, %ld absorbed, %ld moved\n", rank, tally, absorbed, moved);
        fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
