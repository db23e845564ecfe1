/* Like algebraic multigrid: V-cycles over levels of sparse matrices whose columns are not sorted. */
#include <stdio.h>
#include <stdlib.h>

#define LEVELS 5
typedef struct {
    long rows;
    int *starts, *columns, *parents;
    double *values, *x, *b, *r;
} level_t;
static level_t levels[LEVELS];
static unsigned state = 7;

static unsigned
draw(unsigned below)
{
    state = state * 1664525 + 1013904223;
    return (unsigned)(((unsigned long)state * below) >> 32);
}

static void
make(level_t *level, long rows, long coarse)
{
    level->rows = rows;
    level->starts = malloc((rows + 1) * sizeof(int));
    level->columns = malloc(12 * rows * sizeof(int));
    level->parents = malloc(rows * sizeof(int));
    level->values = malloc(12 * rows * sizeof(double));
    level->x = calloc(rows, sizeof(double));
    level->b = calloc(rows, sizeof(double));
    level->r = calloc(rows, sizeof(double));
    int entries = 0;
    for (long i = 0; i < rows; i++) {
        level->starts[i] = entries;
        level->columns[entries] = i;
        level->values[entries++] = 12;
        for (unsigned k = 3 + draw(8); k > 0; k--) {
            level->columns[entries] = draw(rows);
            level->values[entries++] = -1;
        }
        level->parents[i] = coarse > 0 ? draw(coarse) : 0;
    }
    level->starts[rows] = entries;
}

static void
smooth(level_t *level)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < level->rows; i++) {
        double sum = level->b[i];
        for (int k = level->starts[i] + 1; k < level->starts[i + 1]; k++)
            sum -= level->values[k] * level->r[level->columns[k]];
        level->x[i] = sum / level->values[level->starts[i]];
    }
#pragma omp parallel for schedule(static)
    for (long i = 0; i < level->rows; i++)
        level->r[i] = level->x[i];
}

static void
cycle(int depth)
{
    level_t *fine = &levels[depth];
    smooth(fine);
    if (depth + 1 == LEVELS)
        return;
    level_t *coarse = &levels[depth + 1];
    for (long i = 0; i < coarse->rows; i++)
        coarse->b[i] = coarse->r[i] = 0;
    for (long i = 0; i < fine->rows; i++)
        coarse->b[fine->parents[i]] += 0.5 * fine->b[i];
    cycle(depth + 1);
    for (long i = 0; i < fine->rows; i++)
        fine->x[i] += 0.5 * coarse->x[fine->parents[i]];
    smooth(fine);
}

int
main(int argc, char **argv)
{
    long rows = argc > 1 ? atol(argv[1]) : 1000, cycles = argc > 2 ? atol(argv[2]) : 4;
    for (int depth = 0; depth < LEVELS; depth++, rows = rows / 3 + 1)
        make(&levels[depth], rows, depth + 1 < LEVELS ? rows / 3 + 1 : 0);
    for (long i = 0; i < levels[0].rows; i++)
        levels[0].b[i] = i % 3;
    for (long i = 0; i < cycles; i++)
        cycle(0);
    printf("%.12g\n", levels[0].x[5]);
    return 0;
}
