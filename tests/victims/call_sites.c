/* Calls from two depths. The lines of the calls are marked; the test looks for them. */
#include <mpi.h>
#include <unistd.h>

static void __attribute__((noinline)) exchange(int value) {
    int got;
    usleep(20000);
    MPI_Sendrecv(&value, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, /* exchange: */
                 MPI_STATUS_IGNORE);                                              /* or here */
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv); /* init */
    for (int i = 0; i < 3; i++) {
        exchange(i); /* loop */
    }
    exchange(7); /* once */
    MPI_Finalize();
    return 0;
}
