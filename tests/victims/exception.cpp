/*
 * C++ exceptions that leave MPI calls: thrown by an error handler and by an operation, through the
 * frames of MPI and of a tool, caught in main. Objects in between are destroyed, and the program continues
 * to call MPI.
 */
#include <mpi.h>
#include <stdexcept>
#include <string>
extern "C" {
#define class class_
#include "say.h"
#undef class
}

static int destroyed;

struct Local {
    ~Local() { destroyed++; }
};

static void throw_code(MPI_Comm *, int *code, ...)
{
    Local local;
    int cls = 0;
    MPI_Error_class(*code, &cls);
    throw std::runtime_error("class " + std::to_string(cls));
}

static void throw_in_op(void *, void *, int *n, MPI_Datatype *)
{
    Local local;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    throw *n;
}

__attribute__((noinline)) static int send_badly(int tag)
{
    Local local;
    int data = 1;
    return MPI_Send(&data, 1, MPI_INT, 99, tag, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, caught = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(throw_code, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);

    for (int i = 0; i < 100; i++) {
        try {
            send_badly(i);
            say("rank %d: not thrown", rank);
        } catch (const std::runtime_error &error) {
            if (i == 0)
                say("rank %d: caught %s", rank, error.what());
            caught++;
        }
        int out = rank + i, in = 0;
        MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, i, &in, 1, MPI_INT, MPI_ANY_SOURCE, i,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (in != (rank + size - 1) % size + i)
            say("rank %d: wrong data", rank);
    }
    say("rank %d: caught %d, destroyed %d", rank, caught, destroyed);

    MPI_Op op;
    MPI_Op_create(throw_in_op, 1, &op);
    for (int i = 1; i < 5; i++) {
        int in[5] = {0}, out[5] = {0};
        try {
            MPI_Reduce_local(in, out, i, MPI_INT, op);
        } catch (int n) {
            say("rank %d: operation threw %d", rank, n);
        }
    }
    MPI_Op_free(&op);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: sum %d, destroyed %d", rank, sum, destroyed);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return 0;
}
