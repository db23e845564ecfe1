/* Ports, published names, and connections between processes through a port or a socket. Runs on 2 ranks. */
#include "coverage.h"
#include <sys/socket.h>
#include <sys/un.h>

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank;

/* Exchanges a word, then disconnects. */
static void use(MPI_Comm *inter)
{
    int mine = 40 + rank, theirs = -1, size = -1, is_inter = -1;
    MPI_Comm merged;

    return_errors(*inter);
    CALL(MPI_Comm_test_inter(*inter, &is_inter));
    CALL(MPI_Comm_remote_size(*inter, &size));
    say("    inter %d, remote size %d", is_inter, size);
    CALL(MPI_Sendrecv(&mine, 1, MPI_INT, 0, 1, &theirs, 1, MPI_INT, 0, 1, *inter,
                      MPI_STATUS_IGNORE));
    say("    theirs %d", theirs);
    CALL(MPI_Intercomm_merge(*inter, rank, &merged));
    CALL(MPI_Allreduce(&mine, &theirs, 1, MPI_INT, MPI_SUM, merged));
    say("    sum %d", theirs);
    CALL(MPI_Comm_free(&merged));
    CALL(MPI_Comm_disconnect(inter));
    say("    null: %d", *inter == MPI_COMM_NULL);
}

/* MPICH 4.0 with UCX has no ports; the port names of MPICH 5 are longer than its own MPI_MAX_PORT_NAME.
 * If no port can be opened, this name is used, with which calls fail: */
static const char no_port[] = "tag#3$";

/* If the network does not support connections, accepting one fails at once. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
#define ACCEPT_RETURNS 1
#else
#define ACCEPT_RETURNS 0
#endif

static void by_port(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int is_open = 0;
    MPI_Comm inter;

    if (rank == 0) {
        is_open = CALL(MPI_Open_port(MPI_INFO_NULL, port)) == MPI_SUCCESS;
        if (!is_open)
            strcpy(port, no_port);
    }
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, world);
    if (rank == 0) {
        if ((is_open || ACCEPT_RETURNS)
            && CALL(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter))
                   == MPI_SUCCESS)
            use(&inter);
        CALL(MPI_Close_port(port));
    } else {
        if (CALL(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter))
            == MPI_SUCCESS)
            use(&inter);
    }
}

/* Without a name server, the outcome may be an error. */
static void by_name(void)
{
    char found[MPI_MAX_PORT_NAME] = "";

    if (rank == 0) {
        CALL(MPI_Publish_name("refrain", MPI_INFO_NULL, "the port of rank 0"));
        CALL(MPI_Lookup_name("refrain", MPI_INFO_NULL, found));
        say("    found '%s'", found);
    }
    MPI_Barrier(world);
    if (rank == 1) {
        CALL(MPI_Lookup_name("refrain", MPI_INFO_NULL, found));
        say("    found '%s'", found);
    }
    MPI_Barrier(world);
    if (rank == 0) {
        CALL(MPI_Unpublish_name("refrain", MPI_INFO_NULL, "the port of rank 0"));
        CALL(MPI_Lookup_name("refrain", MPI_INFO_NULL, found));
    }
}

static void by_socket(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    MPI_Comm inter;
    int listener = -1, connection;

    if (rank == 0) {
        /* An abstract name, so that no file remains. */
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "refrain-%d",
                 (int)getpid());
        listener = socket(AF_UNIX, SOCK_STREAM, 0);
        bind(listener, (struct sockaddr *)&address, sizeof address);
        listen(listener, 1);
    }
    MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, world);
    if (rank == 0) {
        connection = accept(listener, NULL, NULL);
    } else {
        connection = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(connection, (struct sockaddr *)&address, sizeof address))
            perror("connect");
    }
    if (CALL(MPI_Comm_join(connection, &inter)) == MPI_SUCCESS && inter != MPI_COMM_NULL)
        use(&inter);
    close(connection);
    if (rank == 0)
        close(listener);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    return_errors(world);
    return_errors(MPI_COMM_SELF);

    by_port();
    by_name();
    by_socket();

    print_lines(world);
    MPI_Finalize();
    return 0;
}
