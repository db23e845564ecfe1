/*
 * Buffers in memory of a real GPU. Counts are 0, so that an MPI without GPU support does not access
 * them. The tags identify the buffers.
 */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}

static void sends(int tag, void *buffer)
{
    int received;
    MPI_Sendrecv(buffer, 0, MPI_BYTE, 0, tag, &received, 0, MPI_BYTE, 0, tag, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    char *first, *second, *managed, *pinned, *ordered, *pitched;
    size_t pitch;
    must(cudaMalloc((void **)&first, 1 << 20), "cudaMalloc");
    must(cudaMalloc((void **)&second, 1 << 20), "cudaMalloc");
    must(cudaMallocManaged((void **)&managed, 1 << 16, cudaMemAttachGlobal), "cudaMallocManaged");
    must(cudaHostAlloc((void **)&pinned, 1 << 16, cudaHostAllocDefault), "cudaHostAlloc");
    must(cudaMallocAsync((void **)&ordered, 1 << 16, 0), "cudaMallocAsync");
    must(cudaMallocPitch((void **)&pitched, &pitch, 1000, 100), "cudaMallocPitch");
    sends(1, first + 0x40);
    sends(2, second + 0x80);
    sends(3, managed + 0x10);
    sends(4, pinned + 0x20);
    sends(5, ordered + 0x30);
    sends(6, pitched + 0x50);
    must(cudaFree(first), "cudaFree");
    must(cudaMalloc((void **)&first, 1 << 20), "cudaMalloc");
    sends(7, first);
    must(cudaFree(first), "cudaFree");
    must(cudaFree(second), "cudaFree");
    must(cudaFree(managed), "cudaFree");
    must(cudaFree(pitched), "cudaFree");
    must(cudaFreeHost(pinned), "cudaFreeHost");
    must(cudaFreeAsync(ordered, 0), "cudaFreeAsync");
    MPI_Finalize();
    return 0;
}
