/*
 * MPI-4 sessions without MPI_Init: a communicator made from a process set, used, and freed. Only one session:
 * MPICH 4.0 and Open MPI 5.0 do not support a second one, and MPICH 5.0 not always.
 */
#include <mpi.h>
#include <stdlib.h>
#include "say.h"

int main(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Info info;
    int sets = 0, rank = -1, size = -1, sum = 0, flag = 0, initialized = -1, in = -1;
    char value[64] = "", name[MPI_MAX_PSET_NAME_LEN] = "";
    int length = sizeof value, name_length = sizeof name;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &name_length, name);
    MPI_Session_get_pset_info(session, "mpi://WORLD", &info);
    MPI_Info_get_string(info, "mpi_size", &length, value, &flag);
    MPI_Info_free(&info);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "victim", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
                 MPI_STATUS_IGNORE);
    MPI_Initialized(&initialized);
    say("rank %d of %d: psets %d, first %s, mpi_size %s, sum %d, from %d, initialized %d", rank, size, sets > 0,
        name, value, sum, in, initialized);
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    return 0;
}
