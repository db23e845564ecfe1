/*
 * Buffers in memory of a GPU. The program is linked to `fake_cudart.c`, which has only some of CUDA's
 * functions. The tags of messages identify the buffers. Compiled with -DABSENT there is no such
 * library, and the program must find that there is none.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include "say.h"

#pragma weak cudaMalloc
#pragma weak cudaMallocManaged
#pragma weak cudaHostAlloc
#pragma weak cudaMallocAsync
#pragma weak cudaFree
#pragma weak cudaFreeHost
#pragma weak hipMalloc
#pragma weak cuMemAlloc_v2
int cudaMalloc(void **, size_t);
int cudaMallocManaged(void **, size_t, unsigned);
int cudaHostAlloc(void **, size_t, unsigned);
int cudaMallocAsync(void **, size_t, void *);
int cudaFree(void *);
int cudaFreeHost(void *);
int hipMalloc(void **, size_t);
int cuMemAlloc_v2(void **, size_t);

#ifndef ABSENT
static void sends(int tag, void *buffer)
{
    int received[64];
    MPI_Sendrecv(buffer, 64, MPI_INT, 0, tag, received, 64, MPI_INT, 0, tag, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
}
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    say("weakly: %d %d %d %d %d", cudaMalloc != NULL, cudaFree != NULL, cudaMallocAsync != NULL,
        hipMalloc != NULL, cuMemAlloc_v2 != NULL);
    static const char *const names[] = { "cudaMalloc", "cudaFree", "cudaMallocAsync", "hipMalloc" };
    for (int i = 0; i < 4; i++)
        say("%s: %d", names[i], dlsym(RTLD_DEFAULT, names[i]) != NULL);
#ifndef ABSENT
    char *on_device, *managed, *pinned;
    say("%d", cudaMalloc((void **)&on_device, 100000));
    say("%d %d", cudaMallocManaged((void **)&managed, 4096, 1),
        cudaMallocManaged((void **)&managed, 4096, 1));
    say("%d %d", cudaHostAlloc((void **)&pinned, 8192, 1), cudaHostAlloc((void **)&pinned, 8192, 0));
    sends(0, on_device + 40);
    sends(1, managed);
    sends(2, pinned + 80);
    say("%d %d %d", cudaFree(on_device), cudaFree(managed), cudaFreeHost(pinned));
#endif
    MPI_Finalize();
    return 0;
}
