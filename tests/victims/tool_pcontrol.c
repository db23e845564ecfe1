/*
 * A profiling library whose MPI_Pcontrol prints all its arguments. The level tells how many there are
 * and their types.
 *
 * Built with -shared -fPIC.
 */
#include <mpi.h>
#include <stdarg.h>
#include "say.h"

int MPI_Pcontrol(const int level, ...)
{
    int ints[10] = { 0 };
    double doubles[11] = { 0 };
    va_list arguments;
    va_start(arguments, level);
    if (level == 1) {
        const char *text = va_arg(arguments, const char *);
        int n = va_arg(arguments, int);
        double x = va_arg(arguments, double);
        say("level 1: %s %d %g", text, n, x);
    } else if (level == 2) {
        for (int i = 0; i < 10; i++)
            ints[i] = va_arg(arguments, int);
    } else if (level == 3) {
        for (int i = 0; i < 11; i++)
            doubles[i] = va_arg(arguments, double);
    } else if (level == 4) {
        for (int i = 0; i < 10; i++) {
            ints[i] = va_arg(arguments, int);
            doubles[i] = va_arg(arguments, double);
        }
    } else if (level == 5) {
        doubles[0] = (double) va_arg(arguments, long double);
        ints[0] = va_arg(arguments, int);
        doubles[1] = (double) va_arg(arguments, long double);
        doubles[2] = va_arg(arguments, double);
    }
    va_end(arguments);
    say("level %d: %d %d %d %d %d %d %d %d %d %d", level, ints[0], ints[1], ints[2], ints[3], ints[4],
        ints[5], ints[6], ints[7], ints[8], ints[9]);
    say("level %d: %g %g %g %g %g %g %g %g %g %g %g", level, doubles[0], doubles[1], doubles[2], doubles[3],
        doubles[4], doubles[5], doubles[6], doubles[7], doubles[8], doubles[9], doubles[10]);
    return PMPI_Pcontrol(level);
}
