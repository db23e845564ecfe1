/* MPI with sessions alone: no rank calls MPI_Init. Runs on 2 ranks. */
#include "coverage.h"

#if HAVE_MPI_4

static int rank;
static MPI_Session session;
static MPI_Comm comm;

static void handle_error(MPI_Session *of, int *code, ...)
{
    say("handled %s, null %d", class_of(*code), *of == MPI_SESSION_NULL);
}

static void begin(void)
{
    MPI_Info info, used;
    MPI_Errhandler handler, found;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = -1;

    CALL(MPI_Info_create(&info));
    CALL(MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE"));
    CALL(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    CALL(MPI_Session_get_info(session, &used));
    CALL(MPI_Info_get(used, "thread_level", MPI_MAX_INFO_VAL, value, &flag));
    say("    flag %d, %s", flag, value);
    CALL(MPI_Info_free(&used));
#if ON_OPEN_MPI
    /* Was in a draft of the standard. */
    int MPI_Session_set_info(MPI_Session, MPI_Info);
    CALL(MPI_Session_set_info(session, info));
#endif
    CALL(MPI_Info_free(&info));

    /* MPICH 4.0 cannot make an error handler before it has a session. */
    CALL(MPI_Session_create_errhandler(handle_error, &handler));
    CALL(MPI_Session_set_errhandler(session, handler));
    CALL(MPI_Session_get_errhandler(session, &found));
    say("    the same: %d", found == handler);
    CALL(MPI_Session_call_errhandler(session, MPI_ERR_ARG));
    CALL(MPI_Errhandler_free(&found));
    CALL(MPI_Errhandler_free(&handler));
    CALL(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
}

static void process_sets(void)
{
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1] = "", name[1024];
    int n = -1, length, flag;

    CALL(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n));
    say("    some: %d", n >= 2);
    for (int i = 0; i < n; i++) {
        length = 0;
        POLL(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL));
        POLL(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        /* A launcher may have sets of its own, named after the job. */
        if (strncmp(name, "mpi://", 6) == 0) {
            say("MPI_Session_get_nth_pset");
            say("    %s, %d", name, length);
        }
    }
    length = 5;
    CALL(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name));
    say("    %s, %d", name, length);
    CALL(MPI_Session_get_pset_info(session, "mpi://WORLD", &info));
    CALL(MPI_Info_get(info, "mpi_size", MPI_MAX_INFO_VAL, value, &flag));
    say("    flag %d, %s", flag, value);
    CALL(MPI_Info_free(&info));
}

static void communicators(void)
{
    MPI_Group world, self, other;
    MPI_Comm inter;
    int size = -1, remote = -1, is_inter = -1, peer, sum = -1;

    CALL(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    CALL(MPI_Group_size(world, &size));
    CALL(MPI_Group_rank(world, &rank));
    say("    rank %d of %d", rank, size);
    CALL(MPI_Group_from_session_pset(session, "mpi://SELF", &self));
    CALL(MPI_Group_size(self, &size));
    say("    size %d", size);
#if !defined(MPICH_NUMVERSION) || MPICH_NUMVERSION >= 40100000
    /* MPICH 4.0 does not call the session's error handler, and aborts. */
    CALL(MPI_Group_from_session_pset(session, "mpi://nobody", &other));
#endif
    CALL(MPI_Comm_create_from_group(world, "of everyone", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                    &comm));
    CALL(MPI_Comm_size(comm, &size));
    say("    size %d", size);
    CALL(MPI_Allreduce(&size, &sum, 1, MPI_INT, MPI_SUM, comm));
    say("    sum %d", sum);

    /* Rank 0 | rank 1. */
    peer = 1 - rank;
    CALL(MPI_Group_incl(world, 1, &peer, &other));
    CALL(MPI_Intercomm_create_from_groups(self, 0, other, 0, "one and one", MPI_INFO_NULL,
                                          MPI_ERRORS_RETURN, &inter));
    CALL(MPI_Comm_test_inter(inter, &is_inter));
    CALL(MPI_Comm_remote_size(inter, &remote));
    say("    inter %d, remote size %d", is_inter, remote);
    CALL(MPI_Comm_free(&inter));
    CALL(MPI_Group_free(&other));
    CALL(MPI_Group_free(&self));
    CALL(MPI_Group_free(&world));
}

#if HAVE_MPI_4_1
static void buffers(void)
{
    static char room[1 << 16];
    void *address;
    int size = -1, data = 5;
    MPI_Count large = -1;
    MPI_Request request;

    CALL(MPI_Session_attach_buffer(session, room, sizeof room));
    CALL(MPI_Bsend(&data, 1, MPI_INT, 1 - rank, 3, comm));
    CALL(MPI_Recv(&data, 1, MPI_INT, 1 - rank, 3, comm, MPI_STATUS_IGNORE));
    CALL(MPI_Session_flush_buffer(session));
    CALL(MPI_Session_iflush_buffer(session, &request));
    CALL(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CALL(MPI_Session_detach_buffer(session, &address, &size));
    say("    the same: %d, size %d", address == (void *)room, size);
    CALL(MPI_Session_attach_buffer_c(session, room, sizeof room));
    CALL(MPI_Session_detach_buffer_c(session, &address, &large));
    say("    the same: %d, size %lld", address == (void *)room, (long long)large);
}
#endif

int main(void)
{
    int initialized = -1;

    CALL(MPI_Initialized(&initialized));
    say("    initialized %d", initialized);
    begin();
    process_sets();
    communicators();
#if HAVE_MPI_4_1
    buffers();
#endif
    print_lines(comm);
    size_t printed = lines_length;
    CALL(MPI_Comm_free(&comm));
    CALL(MPI_Session_finalize(&session));
    say("    null: %d", session == MPI_SESSION_NULL);
    if (rank == 0)
        fputs(lines_text + printed, stdout);
    return 0;
}

#else

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    say("no sessions");
    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

#endif
