/*
 * A program that after MPI_Init limits its own resources to the minimum that it needs:
 *
 *   files       no further file can be opened
 *   file size   files may not grow past a few kilobytes; a write past that raises SIGXFSZ
 *   memory      nothing more can be mapped
 *
 * A tool must cope with these limits, and above all must not cause the signal.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include "say.h"

enum {
    MANY = 20000,
#ifdef OPEN_MPI
    MARGIN = 16 << 10,
#else
    MARGIN = 8 << 20, /* MPICH needs memory in every Waitall, and gives up if there is none */
#endif
};

static int rank, size;
static volatile sig_atomic_t too_large;

static void on_too_large(int number)
{
    (void) number;
    too_large++;
}

static void *call(void *unused)
{
    static MPI_Request requests[MANY];
    int value = -1, in = -1, wrong = 0;
    for (int i = 0; i < 200000; i++) {
        MPI_Comm_rank(MPI_COMM_WORLD, &value);
        wrong += value != rank;
    }
    for (int i = 0; i < 100; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, i, &in, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        wrong += in != i;
    }
    /* Many ignored statuses, and more arguments than fit into any preallocated buffer. */
    for (int i = 0; i < MANY; i++)
        requests[i] = MPI_REQUEST_NULL;
    MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &requests[MANY / 2]);
    MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    wrong += in != rank;
    if (wrong)
        say("rank %d: %d wrong", rank, wrong);
    return unused;
}

static long mapped(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld", &pages) != 1)
        say("rank %d: no statm", rank);
    if (file != NULL)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    char name[] = "/tmp/limits.XXXXXX", block[8192] = "";
    pthread_t thread;
    int provided, file, error;
    struct rlimit limit, old;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* MPI has executed all its code once. */
    call(NULL);
    pthread_create(&thread, NULL, call, NULL);
    pthread_join(thread, NULL);
    MPI_Barrier(MPI_COMM_WORLD);

    if (strcmp(which, "files") == 0) {
        file = open("/dev/null", O_RDONLY);
        getrlimit(RLIMIT_NOFILE, &old);
        limit = (struct rlimit) { (rlim_t) file, old.rlim_max };
        close(file);
        setrlimit(RLIMIT_NOFILE, &limit);
        call(NULL);
        pthread_create(&thread, NULL, call, NULL);
        pthread_join(thread, NULL);
        file = open("/dev/null", O_RDONLY);
        say("rank %d: files: %s", rank, file < 0 ? strerror(errno) : "opened");
        setrlimit(RLIMIT_NOFILE, &old);
    } else if (strcmp(which, "file size") == 0 || strcmp(which, "file size, unhandled") == 0) {
        if (strcmp(which, "file size") == 0)
            signal(SIGXFSZ, on_too_large);
        getrlimit(RLIMIT_FSIZE, &old);
        limit = (struct rlimit) { sizeof block / 2, old.rlim_max };
        setrlimit(RLIMIT_FSIZE, &limit);
        call(NULL);
        pthread_create(&thread, NULL, call, NULL);
        pthread_join(thread, NULL);
        say("rank %d: file size: %d signals", rank, too_large);
        if (strcmp(which, "file size") == 0) {
            file = mkstemp(name);
            say("rank %d: file size: wrote %zd", rank, write(file, block, sizeof block));
            say("rank %d: file size: then %zd", rank, write(file, block, sizeof block));
            say("rank %d: file size: %d signals", rank, too_large);
            close(file);
            unlink(name);
        }
        setrlimit(RLIMIT_FSIZE, &old);
    } else if (strcmp(which, "memory") == 0) {
        pthread_attr_t attributes;
        void *stack = malloc(1 << 20);
        getrlimit(RLIMIT_AS, &old);
        limit = (struct rlimit) { (rlim_t) mapped() + MARGIN, old.rlim_max };
        setrlimit(RLIMIT_AS, &limit);
        call(NULL);
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stack, 1 << 20);
        error = pthread_create(&thread, &attributes, call, NULL);
        if (error == 0)
            pthread_join(thread, NULL);
        say("rank %d: memory: thread %d", rank, error);
        setrlimit(RLIMIT_AS, &old);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    say("rank %d: finalized", rank);
    return 0;
}
