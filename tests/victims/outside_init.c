/*
 * Calls that are allowed before MPI_Init and after MPI_Finalize, repeatedly, also from a thread that
 * makes no other calls.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include "say.h"

static void ask(const char *when)
{
    int initialized = -1, finalized = -1, version = -1, subversion = -1, length = -1;
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    MPI_Get_version(&version, &subversion);
    MPI_Get_library_version(text, &length);
    say("%s: initialized %d, finalized %d, version %d.%d, %zu of %d characters, %.20s", when,
        initialized, finalized, version, subversion, strlen(text), length, text);
#if MPI_VERSION >= 4
    MPI_Info info;
    char value[16] = "";
    int size = sizeof value, flag = -1;
    MPI_Info_create(&info);
    MPI_Info_set(info, "a key", "a value");
    MPI_Info_get_string(info, "a key", &size, value, &flag);
    MPI_Info_free(&info);
    say("%s: info '%s' %d %d", when, value, size, flag);
#endif
}

static void *ask_in_thread(void *when)
{
    ask(when);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    ask("before");
    pthread_create(&thread, NULL, ask_in_thread, "before, in a thread");
    pthread_join(thread, NULL);
    MPI_Init(&argc, &argv);
    ask("between");
    MPI_Finalize();
    ask("after");
    pthread_create(&thread, NULL, ask_in_thread, "after, in a thread");
    pthread_join(thread, NULL);
    for (int i = 0; i < 50000; i++) {
        int flag = 0;
        MPI_Finalized(&flag);
        if (!flag)
            abort();
    }
    ask("much later");
    return 0;
}
