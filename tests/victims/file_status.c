/*
 * File access sets the byte count of a status, but neither source nor tag: not in the call itself, not
 * in a wait, and not in a query of the status.
 *
 *     file_status file
 */
#include <mpi.h>
#include "say.h"

int main(int argc, char **argv)
{
    int value = 0, count = 0;
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at(file, 0, &value, 1, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    MPI_File_iwrite_at(file, 0, &value, 1, MPI_INT, &request);
    MPI_Wait(&request, &status);
    MPI_File_close(&file);
    say("%d", count);
    MPI_Finalize();
    return 0;
}
