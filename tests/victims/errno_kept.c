/*
 * errno and dlerror belong to the program, and successful calls must not change them. Checked after
 * the first call of a function, the first call of a thread, and after many thousand calls.
 *
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include "say.h"

enum { ODD = 12345 };

static int rank, kept, total, loader_errors;

#define KEEP(call)                    \
    do {                              \
        errno = ODD;                  \
        dlerror();                    \
        call;                         \
        total++;                      \
        kept += errno == ODD;         \
        loader_errors += dlerror() != NULL; \
    } while (0)

static void *work(void *unused)
{
    int value, flag;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Group group;
    KEEP(MPI_Comm_rank(MPI_COMM_WORLD, &value));
    KEEP(MPI_Comm_size(MPI_COMM_WORLD, &value));
    KEEP(MPI_Initialized(&flag));
    KEEP(MPI_Type_size(MPI_DOUBLE, &value));
    KEEP(MPI_Comm_get_name(MPI_COMM_WORLD, name, &value));
    KEEP(MPI_Comm_group(MPI_COMM_WORLD, &group));
    KEEP(MPI_Group_free(&group));
    for (int i = 0; i < 50000; i++)
        KEEP(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    work(NULL);
    say("rank %d: kept %d of %d, %d loader errors", rank, kept, total, loader_errors);
    kept = total = loader_errors = 0;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    say("rank %d: in a thread, kept %d of %d, %d loader errors", rank, kept, total, loader_errors);
    MPI_Finalize();
    return 0;
}
