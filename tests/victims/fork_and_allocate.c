/*
 * A program that forks while its threads allocate, and whose children allocate and free, among
 * other things what was given to MPI by their parent. (The threads do not map memory: some MPIs
 * hold a lock while they do, which the children would never get.)
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "say.h"

static volatile int stop;

static void *allocate(void *unused)
{
    while (!stop) {
        char *block = malloc(1000);
        block[0] = 1;
        char *large = malloc(100000);
        large[0] = 1;
        free(large);
        free(block);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int rank, received[64];
    pthread_t threads[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int *used = calloc(64, sizeof *used), *large = calloc(1 << 16, sizeof *large);
    for (int i = 0; i < 2; i++)
        MPI_Sendrecv(i == 0 ? used : large, 64, MPI_INT, 0, 1, received, 64, MPI_INT, 0, 1,
                     MPI_COMM_SELF, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, allocate, NULL);
    int good = 0;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            free(used);
            large = realloc(large, 1 << 20);
            for (int j = 0; j < 1000; j++)
                free(malloc(j * 100));
            void *map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(map, 8192);
            _exit(large == NULL ? 1 : 42);
        }
        int status = 0;
        waitpid(child, &status, 0);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 42;
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    say("rank %d: %d good children", rank, good);
    MPI_Bcast(used, 64, MPI_INT, 0, MPI_COMM_WORLD);
    free(used);
    free(large);
    MPI_Finalize();
    return 0;
}
