/*
 * A program that is not linked to MPI and opens a shared object that is (its first argument), with
 * local scope: libmpi is then only in that object's search order. With a second argument "probe", it
 * first looks up MPI_Initialized, as some libraries do, and calls it.
 *
 * A preloaded tool is found although MPI is not loaded yet. It must answer that MPI is not
 * initialised, and still find the MPI that is loaded later.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include "say.h"

int main(int argc, char **argv)
{
    int (*plugin_main)(int, char **);
    void *plugin;
    if (argc > 2 && strcmp(argv[2], "probe") == 0) {
        int (*initialized)(int *) = (int (*)(int *)) dlsym(RTLD_DEFAULT, "MPI_Initialized");
        int flag = 0;
        if (initialized != NULL && initialized(&flag) != 0)
            flag = 0;
        say("MPI is %sinitialised", flag ? "" : "not ");
    }
    plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
        say("no plugin: %s", dlerror());
        return 92;
    }
    plugin_main = (int (*)(int, char **)) dlsym(plugin, "plugin_main");
    return plugin_main(1, argv);
}
