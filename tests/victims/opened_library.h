/*
 * Opens the MPI library with dlopen, for programs that are not linked to it.
 */
#ifndef OPENED_LIBRARY_H
#define OPENED_LIBRARY_H

#include <dlfcn.h>
#include <stddef.h>

static void *open_mpi_library(int flags)
{
#if defined OPEN_MPI
    static const char *const names[] = { "libmpi.so.40", NULL };
#elif defined MPI_ABI
    static const char *const names[] = { "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so", NULL };
#else
    static const char *const names[] = { "libmpich.so.12", "libmpi.so.12", NULL };
#endif
    void *library = NULL;
    for (int i = 0; names[i] != NULL && library == NULL; i++)
        library = dlopen(names[i], flags);
    return library;
}

#endif
