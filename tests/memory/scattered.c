/* Loads from random elements of an array, a given number of times. */
#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 1 << 16 };

long values[ELEMENTS];

int main(int argc, char **argv)
{
    long trips = argc > 1 ? atol(argv[1]) : 300000;
    unsigned long state = 88172645463325252ul;
    long sum = 0;
    for (long i = 0; i < trips; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum += values[state % ELEMENTS];
    }
    printf("%ld\n", sum);
    return 0;
}
