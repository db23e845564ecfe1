/* Receives from any source, in a program that uses sessions and never calls MPI_Init. The second session
 * outlives the first. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void fatal(const char *what) {
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

static MPI_Comm all(MPI_Session session, const char *name) {
    MPI_Group group;
    MPI_Comm comm;
    if (MPI_Group_from_session_pset(session, "mpi://WORLD", &group)) fatal("the group");
    if (MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm))
        fatal("the communicator");
    MPI_Group_free(&group);
    return comm;
}

static unsigned long gather(MPI_Comm comm, int messages, unsigned long hash) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < messages * (rank ? 1 : size - 1); i++) {
        int value = rank * 1000 + i;
        if (rank) {
            usleep(rand() % 100);
            MPI_Send(&value, 1, MPI_INT, 0, 3, comm);
        } else {
            MPI_Status status;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
            hash = hash * 31 + value + status.MPI_SOURCE;
        }
    }
    return hash;
}

int main(int argc, char **argv) {
    int messages = argc > 1 ? atoi(argv[1]) : 50, rank;
    srand(getpid());
    MPI_Session first, second;
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &first)) fatal("the session");
    MPI_Comm comm = all(first, "first");
    unsigned long hash = gather(comm, messages, 17);
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second)) fatal("the session");
    MPI_Comm other = all(second, "second");
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&first);
    hash = gather(other, messages, hash);
    MPI_Comm_rank(other, &rank);
    if (rank == 0) printf("%lx\n", hash);
    MPI_Comm_free(&other);
    MPI_Session_finalize(&second);
    return 0;
}
