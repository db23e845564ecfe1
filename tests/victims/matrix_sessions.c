/*
 * Sessions, one after the other, without MPI_Init: process sets, groups and communicators made
 * from them, an info made before there is a session. Two ranks. With an older MPI, only MPI_Init and
 * MPI_Finalize.
 */
#include <mpi.h>
#include "expect.h"

static int rank;

#if HAVE_MPI_4
/*
 * MPICH 4.0 and Open MPI 5.0 do not survive a second session. MPICH 5.0 fails in about one of 35 runs when a second
 * session makes a communicator.
 */
enum { ROUNDS = MPI_VERSION >= 5 ? 2 : 1 };

static void one_session(int round)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Info info, used;
    int n, length, data = 1, sum;
    char name[1024], tag[64];

    MPI_Info_create(&info);
    CALLED("MPI_Info_create(info=info1)");
    MPI_Info_set(info, "mpi_size", "2");
    CALLED("MPI_Info_set(info=info1, key=\"mpi_size\", value=\"2\")");
    MPI_Session_init(info, MPI_ERRORS_RETURN, &session);
    CALLED("MPI_Session_init(info=info1, errhandler=MPI_ERRORS_RETURN, session=session1)");
    MPI_Info_free(&info);
    CALLED("MPI_Info_free(info=info1)");
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n);
    CALLED("MPI_Session_get_num_psets(session=session1, info=MPI_INFO_NULL, npset_names=%d)", n);
    length = 0;
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, NULL);
    CALLED("MPI_Session_get_nth_pset(session=session1, info=MPI_INFO_NULL, n=0, pset_len=0→%d, pset_name=NULL)", length);
    length = sizeof name;
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name);
    CALLED("MPI_Session_get_nth_pset(session=session1, info=MPI_INFO_NULL, n=0, pset_len=1024, pset_name=%s)", expect_string(name));
    MPI_Session_get_pset_info(session, "mpi://WORLD", &used);
    CALLED("MPI_Session_get_pset_info(session=session1, pset_name=\"mpi://WORLD\", info=info1)");
    MPI_Info_free(&used);
    CALLED("MPI_Info_free(info=info1)");
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    CALLED("MPI_Group_from_session_pset(session=session1, pset_name=\"mpi://WORLD\", newgroup=group1)");
    MPI_Group_rank(group, &rank);
    CALLED("MPI_Group_rank(group=group1, rank=%d)", rank);
    if (round == 0) {
        snprintf(tag, sizeof tag, "round %d", round);
        MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        CALLED("MPI_Comm_create_from_group(group=group1, stringtag=\"%s\", info=MPI_INFO_NULL, errhandler=MPI_ERRORS_ARE_FATAL, newcomm=comm1)", tag);
        MPI_Allreduce(&data, &sum, 1, MPI_INT, MPI_SUM, comm);
        CALLED("MPI_Allreduce(sendbuf=%p, recvbuf=%p, count=1, datatype=MPI_INT, op=MPI_SUM, comm=comm1)", (void *)&data, (void *)&sum);
        MPI_Comm_disconnect(&comm);
        CALLED("MPI_Comm_disconnect(comm=comm1)");
    }
    MPI_Group_free(&group);
    CALLED("MPI_Group_free(group=group1)");
    MPI_Session_finalize(&session);
    CALLED("MPI_Session_finalize(session=session1)");
}

int main(void)
{
    int flag;

    for (int round = 0; round < ROUNDS; round++)
        one_session(round);
    MPI_Initialized(&flag);
    CALLED("MPI_Initialized(flag=false)");
    expect_print(rank);
    return 0;
}
#else
int main(void)
{
    MPI_Init(NULL, NULL);
    CALLED("MPI_Init(argc=NULL, argv=NULL)");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);
    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(rank);
    return 0;
}
#endif
