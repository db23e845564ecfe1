/* Queries of MPI as a whole: versions, names, threads, memory; before MPI_Init, in between, and after
 * MPI_Finalize. Runs on 2 ranks. */
#include "coverage.h"
#include <pthread.h>

static int rank;

static void state(const char *when)
{
    int initialized = -1, finalized = -1, version = -1, subversion = -1;

    CALL(MPI_Initialized(&initialized));
    CALL(MPI_Finalized(&finalized));
    CALL(MPI_Get_version(&version, &subversion));
    say("    %s: initialized %d, finalized %d, version %d.%d", when, initialized, finalized,
        version, subversion);
}

static void *in_thread(void *unused)
{
    int is_main = -1;
    (void)unused;
    CALL(MPI_Is_thread_main(&is_main));
    say("    main %d", is_main);
    return NULL;
}

static void threads(void)
{
    pthread_t thread;
    int provided = -1, is_main = -1;

    CALL(MPI_Query_thread(&provided));
    say("    serialized at least: %d", provided >= MPI_THREAD_SERIALIZED);
    CALL(MPI_Is_thread_main(&is_main));
    say("    main %d", is_main);
    if (provided >= MPI_THREAD_SERIALIZED) {
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    }
}

static void names(void)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "", version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = -1;

    CALL(MPI_Get_processor_name(name, &length));
    say("    as long as it says: %d", length > 0 && (size_t)length == strlen(name));
    CALL(MPI_Get_library_version(version, &length));
    say("    as long as it says: %d", length > 0 && (size_t)length == strlen(version));
#if HAVE_MPI_4_1
    MPI_Info info;
    int keys = -1;
    CALL(MPI_Get_hw_resource_info(&info));
    CALL(MPI_Info_get_nkeys(info, &keys));
    say("    some: %d", keys >= 0);
    MPI_Info_free(&info);
#endif
}

static void memory(void)
{
    int *numbers = NULL;

    CALL(MPI_Alloc_mem(100 * sizeof(int), MPI_INFO_NULL, &numbers));
    for (int i = 0; i < 100; i++)
        numbers[i] = i;
    say("    last %d", numbers[99]);
    CALL(MPI_Free_mem(numbers));
}

static void control(void)
{
    CALL(MPI_Pcontrol(0));
    CALL(MPI_Pcontrol(1));
    CALL(MPI_Pcontrol(2, "section", 7, 2.5));
}

#if MPI_VERSION >= 5
static void binary_interface(void)
{
    MPI_Info info = MPI_INFO_NULL;
    int major = -7, minor = -7, is_set = -7, keys = -7;
    int32_t yes = 1, no = 0;

    CALL(MPI_Abi_get_version(&major, &minor));
    say("    %d.%d", major, minor);
    if (CALL(MPI_Abi_get_info(&info)) == MPI_SUCCESS && info != MPI_INFO_NULL) {
        MPI_Info_get_nkeys(info, &keys);
        say("    some: %d", keys >= 0);
        MPI_Info_free(&info);
    }
    CALL(MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &is_set));
    say("    set %d", is_set);
    yes = 1;
    no = 0;
    CALL(MPI_Abi_set_fortran_booleans(sizeof yes, &yes, &no));
    CALL(MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &is_set));
    say("    set %d, %d, %d", is_set, yes, no);
    info = MPI_INFO_NULL;
    if (CALL(MPI_Abi_get_fortran_info(&info)) == MPI_SUCCESS)
        say("    null: %d", info == MPI_INFO_NULL);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_integer_size", "4");
    CALL(MPI_Abi_set_fortran_info(info));
    MPI_Info_free(&info);
}
#endif

int main(int argc, char **argv)
{
    int provided = -1;

    state("before");
    CALL(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    say("    multiple: %d, arguments %d", provided == MPI_THREAD_MULTIPLE, argc);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return_errors(MPI_COMM_WORLD);
    return_errors(MPI_COMM_SELF);
    state("during");
    threads();
    names();
    memory();
    control();
#if MPI_VERSION >= 5
    binary_interface();
#endif
    print_lines(MPI_COMM_WORLD);

    size_t printed = lines_length;
    CALL(MPI_Finalize());
    state("after");
    if (rank == 0)
        fputs(lines_text + printed, stdout);
    return 0;
}
