/*
 * Threads make communicators with the same members concurrently, and ranks do it in different orders.
 * Rank 0 makes them one after the other; on rank 1 a thread makes each, and the threads start in the
 * opposite order. Then messages are sent on them, one after the other. For two ranks.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include "say.h"

/* Not MPI_Comm_create_group under MPICH 4.0, which crashes in concurrent calls of it. */
#ifdef MPICH
enum { WAYS = 2 };
#else
enum { WAYS = 3 };
#endif
enum { PARENTS = 3, TAG = 7 };

static int rank;
static MPI_Comm parents[PARENTS], made[WAYS][PARENTS];

static void make(int way, int i)
{
    MPI_Group both;
    switch (way) {
    case 0:
        MPI_Comm_dup(parents[i], &made[way][i]);
        break;
    case 1:
        MPI_Comm_split(parents[i], 0, -rank, &made[way][i]);
        break;
    default:
        MPI_Comm_group(MPI_COMM_WORLD, &both);
        MPI_Comm_create_group(parents[i], both, i, &made[way][i]);
        MPI_Group_free(&both);
    }
}

struct step {
    int way, i;
};

static void *make_in_thread(void *step)
{
    make(((struct step *)step)->way, ((struct step *)step)->i);
    return NULL;
}

static void talk(MPI_Comm comm, int i)
{
    int word = i, me;
    MPI_Comm_rank(comm, &me);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send(&word, 1, MPI_INT, 1 - me, TAG, comm);
        MPI_Recv(&word, 1, MPI_INT, 1 - me, TAG, comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 1 - me, TAG, comm, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, 1 - me, TAG, comm);
    }
    if (word != i)
        say("%d got %d instead of %d", rank, word, i);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < PARENTS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &parents[i]);
    for (int way = 0; way < WAYS; way++) {
        pthread_t threads[PARENTS];
        struct step steps[PARENTS];
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            /* By now the other rank has begun all of them, the last first. */
            usleep(200000);
            for (int i = 0; i < PARENTS; i++)
                make(way, i);
        } else {
            for (int i = PARENTS - 1; i >= 0; i--) {
                steps[i] = (struct step){ way, i };
                pthread_create(&threads[i], NULL, make_in_thread, &steps[i]);
                usleep(50000);
            }
            for (int i = 0; i < PARENTS; i++)
                pthread_join(threads[i], NULL);
        }
        for (int i = 0; i < PARENTS; i++)
            talk(made[way][i], i);
    }
    for (int i = 0; i < PARENTS; i++) {
        for (int way = 0; way < WAYS; way++)
            MPI_Comm_free(&made[way][i]);
        MPI_Comm_free(&parents[i]);
    }
    say("%d ok", rank);
    MPI_Finalize();
    return 0;
}
