/*
 * longjmp out of an error handler, over the frames of MPI and of any tool around it, a thousand
 * times, from different depths; then further calls.
 */
#include <mpi.h>
#include <setjmp.h>
#include "say.h"

static jmp_buf back;
static int depth;

static void jump(MPI_Comm *comm, int *code, ...)
{
    int class = 0;
    (void) comm;
    MPI_Error_class(*code, &class);
    longjmp(back, class + 1);
}

/* An operation that calls MPI inside MPI, and causes an error at some depth. */
static void nest(void *in, void *inout, int *n, MPI_Datatype *type)
{
    MPI_Op op;
    (void) type;
    if (depth-- == 0)
        MPI_Send(NULL, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    MPI_Op_create(nest, 1, &op);
    MPI_Reduce_local(in, inout, *n, MPI_INT, op);
    MPI_Op_free(&op);
}

int main(int argc, char **argv)
{
    static volatile int i, jumps;
    static int rank, size, sum, in, out;
    MPI_Errhandler handler;
    MPI_Op op;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_create_errhandler(jump, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Op_create(nest, 1, &op);

    for (i = 0; i < 1000; i++) {
        int class = setjmp(back);
        if (class == 0) {
            if (i % 10 == 9) {
                depth = i / 10 % 8;
                MPI_Reduce_local(&in, &out, 1, MPI_INT, op);
            } else {
                MPI_Send(&rank, 1, MPI_INT, 99, i, MPI_COMM_WORLD);
            }
            say("rank %d: no jump", rank);
        }
        jumps++;
        in = -1;
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, i, &in, 1, MPI_INT, MPI_ANY_SOURCE,
                     MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (in != (rank + size - 1) % size)
            say("rank %d: wrong data", rank);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: %d jumps, sum %d", rank, jumps, sum);
    MPI_Op_free(&op);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return 0;
}
