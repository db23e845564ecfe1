/* Three phases; MPI_Pcontrol switches recording off during the middle one. */
#include <mpi.h>
#include <stdio.h>

static volatile long cells[3][100];

static void
phase(int phase)
{
    for (int i = 0; i < 100; i++)
        cells[phase][i] = i;
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    phase(0);
    MPI_Pcontrol(0);
    phase(1);
    MPI_Pcontrol(1);
    phase(2);
    MPI_Finalize();
    for (int phase = 0; phase < 3; phase++)
        printf("%p %p ", (void *)cells[phase], (void *)(cells[phase] + 100));
    printf("\n");
    return 0;
}
