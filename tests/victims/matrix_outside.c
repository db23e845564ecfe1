/*
 * Calls before MPI_Init and after MPI_Finalize, also by their PMPI_ names; strings that MPI
 * returns; error classes and codes that the program adds; MPI_Pcontrol with arguments of any
 * kind. Each rank has arguments on its command line.
 */
#include <mpi.h>
#include "expect.h"

static int rank;

static void at_any_time(int initialized, int finalized)
{
    int flag, major, minor, length;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];

    MPI_Initialized(&flag);
    CALLED("MPI_Initialized(flag=%s)", initialized ? "true" : "false");
    MPI_Finalized(&flag);
    CALLED("MPI_Finalized(flag=%s)", finalized ? "true" : "false");
    PMPI_Finalized(&flag);
    CALLED("MPI_Finalized(flag=%s)", finalized ? "true" : "false");
    MPI_Get_version(&major, &minor);
    CALLED("MPI_Get_version(version=%d, subversion=%d)", MPI_VERSION, MPI_SUBVERSION);
    MPI_Get_library_version(text, &length);
    CALLED("MPI_Get_library_version(version=%s, resultlen=%d)", expect_string(text), length);
}

static void strings(void)
{
    char text[MPI_MAX_PROCESSOR_NAME + 1], error[MPI_MAX_ERROR_STRING + 1];
    int length;

    MPI_Get_processor_name(text, &length);
    CALLED("MPI_Get_processor_name(name=%s, resultlen=%d)", expect_string(text), length);
    MPI_Error_string(MPI_ERR_COMM, error, &length);
    CALLED("MPI_Error_string(errorcode=MPI_ERR_COMM, string=%s, resultlen=%d)", expect_string(error), length);
    MPI_Comm_set_name(MPI_COMM_WORLD, "it's\na \"world\"");
    CALLED("MPI_Comm_set_name(comm=MPI_COMM_WORLD, comm_name=%s)", expect_string("it's\na \"world\""));
}

static void errors(void)
{
    int class, code, got, length;
    char error[MPI_MAX_ERROR_STRING + 1];

    MPI_Add_error_class(&class);
    CALLED("MPI_Add_error_class(errorclass=%d)", class);
    MPI_Add_error_code(class, &code);
    CALLED("MPI_Add_error_code(errorclass=%d, errorcode=%d)", class, code);
    MPI_Add_error_string(code, "our own");
    CALLED("MPI_Add_error_string(errorcode=%d, string=\"our own\")", code);
    MPI_Error_class(code, &got);
    CALLED("MPI_Error_class(errorcode=%d, errorclass=%d)", code, class);
    MPI_Error_string(code, error, &length);
    CALLED("MPI_Error_string(errorcode=%d, string=\"our own\", resultlen=7)", code);
}

static void named_twice(void)
{
    int data = 1, sum, size;
    MPI_Request request;

    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    CALLED("MPI_Comm_size(comm=MPI_COMM_WORLD, size=2)");
    PMPI_Allreduce(&data, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CALLED("MPI_Allreduce(sendbuf=%p, recvbuf=%p, count=1, datatype=MPI_INT, op=MPI_SUM, comm=MPI_COMM_WORLD)", (void *)&data, (void *)&sum);
    PMPI_Isend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    CALLED("MPI_Isend(buf=%p, count=1, datatype=MPI_INT, dest=MPI_PROC_NULL, tag=0, comm=MPI_COMM_WORLD, request=r1)", (void *)&data);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    /* Through pointers to both names. */
    int (*function)(MPI_Comm, int *) = rank == 0 ? MPI_Comm_rank : PMPI_Comm_rank;
    function(MPI_COMM_SELF, &size);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_SELF, rank=0)");
}

static void control(void)
{
    MPI_Pcontrol(1);
    CALLED("MPI_Pcontrol(level=1)");
    MPI_Pcontrol(-7, 1, 2.5, "three", 4L, 5, 6, 7.0f, 8, 9);
    CALLED("MPI_Pcontrol(level=-7)");
}

int main(int argc, char **argv)
{
    char arguments[4096] = "";

    at_any_time(0, 0);
    for (int i = 0; i < argc; i++)
        sprintf(arguments + strlen(arguments), "%s%s", i > 0 ? ", " : "", expect_string(argv[i]));
    MPI_Init(&argc, &argv);
    CALLED("MPI_Init(argc=%d, argv=[%s])", argc, arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);
    at_any_time(1, 0);
    strings();
    errors();
    named_twice();
    control();
    MPI_Finalize();
    CALLED("MPI_Finalize()");
    at_any_time(1, 1);
    expect_print(rank);
    return 0;
}
