/* Like Monte-Carlo transport: particles leave a rank for one of its neighbours at random; a rank tests its receives
 * one after the other, computes what has arrived, and posts the receive again.
 *
 * usage: montecarlo [particles]: messages that each rank sends. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NEIGHBOURS = 4 };

static uint64_t state;

static uint32_t next_random(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}

int main(int argc, char **argv)
{
    int rank, size, particles = argc > 1 ? atoi(argv[1]) : 1000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    state = 88172645463325252ull + rank;
    int peers[NEIGHBOURS], n = 0, ended = 0;
    static const int steps[NEIGHBOURS] = { 1, -1, 2, -2 };
    for (int i = 0; i < NEIGHBOURS; i++) {
        int peer = ((rank + steps[i]) % size + size) % size, is_new = peer != rank;
        for (int j = 0; j < n; j++)
            is_new &= peers[j] != peer;
        if (is_new)
            peers[n++] = peer;
    }
    double in[NEIGHBOURS][8], out[8] = { 0 };
    MPI_Request requests[NEIGHBOURS];
    for (int i = 0; i < n; i++)
        MPI_Irecv(in[i], 8, MPI_DOUBLE, peers[i], MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
    while (ended < n || particles >= 0) {
        for (int i = 0; i < n; i++) {
            int flag;
            MPI_Status status;
            if (requests[i] == MPI_REQUEST_NULL)
                continue;
            MPI_Test(&requests[i], &flag, &status);
            if (!flag)
                continue;
            if (status.MPI_TAG == 2) {
                ended++;
                continue;
            }
            MPI_Irecv(in[i], 8, MPI_DOUBLE, peers[i], MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
        }
        if (particles > 0)
            MPI_Send(out, 8, MPI_DOUBLE, peers[next_random() % n], 1, MPI_COMM_WORLD);
        if (particles == 0)
            for (int i = 0; i < n; i++)
                MPI_Send(out, 8, MPI_DOUBLE, peers[i], 2, MPI_COMM_WORLD);
        if (particles >= 0)
            particles--;
    }
    MPI_Finalize();
    return 0;
}
