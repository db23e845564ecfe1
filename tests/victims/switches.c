/*
 * A program that switches recording off and on again, by MPI_Pcontrol and by an info object. In
 * between it asks for the classes of error codes from 1 to 10.
 */
#include <mpi.h>
#include "say.h"

static void mark(int number)
{
    int class;
    MPI_Error_class(number, &class);
    say("%d", class);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    mark(1);
    MPI_Pcontrol(0);
    mark(2);
    MPI_Pcontrol(0);
    mark(3);
    MPI_Pcontrol(1);
    mark(4);
    MPI_Pcontrol(-1);
    mark(5);

    MPI_Info info;
    char value[8] = "";
    int found = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "other", "off");
    mark(6);
    MPI_Info_set(info, "refrain", "off");
    mark(7);
    MPI_Info_set(info, "other", "on");
    mark(8);
    MPI_Info_set(info, "refrain", "on");
    mark(9);
    MPI_Info_get(info, "refrain", 7, value, &found);
    say("refrain: %d %s", found, value);
    MPI_Info_free(&info);
    MPI_Pcontrol(0);
    mark(10);
    MPI_Finalize();
    return 0;
}
