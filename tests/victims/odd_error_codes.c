/*
 * Callbacks that return invalid error codes, which MPI passes on.
 *
 * If a tool queries the class of such a code, MPI may treat the query itself as an error, and call the
 * error handler that ends the program.
 */
#include <mpi.h>
#include "say.h"

enum { ODD = 0x12345600 };

static int handled;

static void count_errors(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    (void) code;
    handled++;
}

static int query(void *extra, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_INT, 1);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = 5;
    return *(int *) extra;
}

static int release(void *extra)
{
    (void) extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void) extra;
    (void) complete;
    return MPI_SUCCESS;
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void) comm;
    (void) keyval;
    (void) in;
    *(void **) out = NULL;
    *flag = 0;
    return *(int *) extra;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void) comm;
    (void) keyval;
    (void) value;
    return *(int *) extra;
}

static void provoke(const char *when, int code)
{
    static int invented;
    int keyval, result;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request;
    MPI_Status status;

    invented = code;
    handled = 0;
    MPI_Grequest_start(query, release, cancel, &invented, &request);
    MPI_Grequest_complete(request);
    result = MPI_Wait(&request, &status);
    say("%s: Wait, error %d, as returned %d, handled %d", when, result != MPI_SUCCESS, result == code, handled);

    handled = 0;
    MPI_Comm_create_keyval(copy, delete, &keyval, &invented);
    MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &invented);
    result = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    say("%s: Comm_dup, error %d, as returned %d, handled %d", when, result != MPI_SUCCESS, result == code, handled);
    handled = 0;
    result = MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
    say("%s: Comm_delete_attr, error %d, as returned %d, handled %d", when, result != MPI_SUCCESS,
        result == code, handled);
    invented = MPI_SUCCESS;
    MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
    MPI_Comm_free_keyval(&keyval);
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    int class, code;
    MPI_Init(&argc, &argv);
    MPI_Comm_create_errhandler(count_errors, &handler);

    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "an error of the program's own");

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    provoke("own code", code);
    provoke("odd code", ODD);
    provoke("negative code", -5);
    handled = 0;
    code = MPI_Comm_call_errhandler(MPI_COMM_WORLD, ODD);
    say("Comm_call_errhandler: %d, handled %d", code, handled);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    provoke("odd code, self returns", ODD);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return 0;
}
