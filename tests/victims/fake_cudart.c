/*
 * Stands in for CUDA's runtime library: device memory is memory of the host, on device 3.
 */
#include <stdlib.h>

int cudaGetDevice(int *device)
{
    *device = 3;
    return 0;
}

int cudaMalloc(void **place, size_t bytes)
{
    *place = malloc(bytes);
    return *place == NULL ? 2 : 0;
}

int cudaMallocManaged(void **place, size_t bytes, unsigned flags)
{
    return flags == 1 ? cudaMalloc(place, bytes) : 1;
}

int cudaHostAlloc(void **place, size_t bytes, unsigned flags)
{
    return flags == 0 ? cudaMalloc(place, bytes) : 1;
}

int cudaFree(void *at)
{
    free(at);
    return 0;
}

int cudaFreeHost(void *at)
{
    free(at);
    return 7;
}
