/* So many calls without repetition that grammars are sealed and written to disk; ends abruptly. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int calls = argc > 1 ? atoi(argv[1]) : 1000;
    unsigned state = 5;
    int sent = 1, got;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < calls; i++) {
        state = state * 1664525u + 1013904223u;
        int tag = state >> 22;
        MPI_Sendrecv(&sent, 1, MPI_INT, 0, tag, &got, 1, MPI_INT, 0, tag, MPI_COMM_SELF,
                     MPI_STATUS_IGNORE);
    }
    _exit(0);
}
