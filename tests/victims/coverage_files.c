/* Files: every way to read and write, with explicit offsets, individual and shared pointers,
 * blocking, nonblocking, collective and split, and what belongs to a file as an object. Where
 * the order of the ranks would matter they take turns. Runs on 2 ranks. */
#ifndef F
#include "coverage.h"

#define PART 4

static int rank;
static MPI_File file;
static MPI_Status status;
static MPI_Request request;
static int out[PART], in[PART];
/* Distinguishes what one operation writes from what the last one wrote. */
static int generation;

static void prepare(void)
{
    generation++;
    for (int i = 0; i < PART; i++) {
        out[i] = 1000 * generation + 100 * rank + i;
        in[i] = -1;
    }
}

static void show_count(void)
{
    int count = -1;
    MPI_Get_count(&status, MPI_INT, &count);
    say("    %s elements", count_text(count));
}

static void show_data(void)
{
    show_count();
    show_ints("data", in, PART);
}

static void seek_to(MPI_Offset offset)
{
    MPI_Offset found = -1;
    CALL(MPI_File_seek(file, offset, MPI_SEEK_SET));
    CALL(MPI_File_get_position(file, &found));
    say("    position %lld", (long long)found);
}

static void seek_shared_to(MPI_Offset offset)
{
    MPI_Offset found = -1;
    CALL(MPI_File_seek_shared(file, offset, MPI_SEEK_SET));
    CALL(MPI_File_get_position_shared(file, &found));
    say("    position %lld", (long long)found);
    /* No rank continues before all ranks have read it. */
    MPI_Barrier(MPI_COMM_WORLD);
}

static void wait(void)
{
    CALL(MPI_Wait(&request, &status));
}

/* First rank 0, then rank 1. */
#define IN_TURN(...)                        \
    do {                                    \
        if (rank == 1)                      \
            MPI_Barrier(MPI_COMM_WORLD);    \
        __VA_ARGS__;                        \
        if (rank == 0)                      \
            MPI_Barrier(MPI_COMM_WORLD);    \
        MPI_Barrier(MPI_COMM_WORLD);        \
    } while (0)

/* The rest of the file, once for each size of counts. */
#define F(name) name
#define OF(name) name##_small
#include "coverage_files.c"
#undef F
#undef OF
#if HAVE_LARGE_COUNTS
#define F(name) name##_c
#define OF(name) name##_large
#include "coverage_files.c"
#endif

static void sizes(void)
{
    MPI_Offset size = -1;

    CALL(MPI_File_set_size(file, 100));
    CALL(MPI_File_get_size(file, &size));
    say("    size %lld", (long long)size);
    CALL(MPI_File_preallocate(file, 200));
    CALL(MPI_File_get_size(file, &size));
    say("    size %lld", (long long)size);
}

static void views(void)
{
    MPI_Offset displacement = -1, offset = -1;
    MPI_Datatype elementary, filetype, mine, pair;
    char representation[MPI_MAX_DATAREP_STRING + 1];
    MPI_Aint extent = -1;
    int size = -1;

    /* Every other pair of ints is this rank's. */
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, 4 * sizeof(int), &mine);
    MPI_Type_commit(&mine);
    CALL(MPI_File_set_view(file, 2 * rank * (int)sizeof(int), MPI_INT, mine, "native",
                           MPI_INFO_NULL));
    CALL(MPI_File_get_view(file, &displacement, &elementary, &filetype, representation));
    MPI_Type_size(filetype, &size);
    say("    displacement %lld, elementary %d, filetype of %d, %s", (long long)displacement,
        elementary == MPI_INT, size, representation);
    MPI_Type_free(&filetype);
    CALL(MPI_File_get_byte_offset(file, 3, &offset));
    say("    offset %lld", (long long)offset);
    CALL(MPI_File_get_type_extent(file, mine, &extent));
    say("    extent %lld", (long long)extent);
#if HAVE_LARGE_COUNTS
    MPI_Count large = -1;
    CALL(MPI_File_get_type_extent_c(file, mine, &large));
    say("    extent %lld", (long long)large);
#endif
    prepare();
    CALL(MPI_File_write_at_all(file, 0, out, PART, MPI_INT, &status));
    show_count();
    CALL(MPI_File_read_at_all(file, 0, in, PART, MPI_INT, &status));
    show_data();
    CALL(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CALL(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(MPI_File_read_at(file, 2, in, PART, MPI_INT, &status));
    show_data();
    MPI_Type_free(&mine);
    MPI_Type_free(&pair);
}

static void handle_error(MPI_File *handle, int *code, ...)
{
    say("handled %s, null %d", class_of(*code), *handle == MPI_FILE_NULL);
}

static void properties(void)
{
    MPI_Info info;
    MPI_Group group;
    MPI_Errhandler handler, found;
    char value[MPI_MAX_INFO_VAL + 1];
    int amode = -1, flag = -1, size = -1;

    CALL(MPI_File_get_amode(file, &amode));
    say("    read and write %d, create %d", (amode & MPI_MODE_RDWR) != 0,
        (amode & MPI_MODE_CREATE) != 0);
    CALL(MPI_File_get_group(file, &group));
    MPI_Group_size(group, &size);
    say("    size %d", size);
    MPI_Group_free(&group);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "131072");
    CALL(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
    CALL(MPI_File_get_info(file, &info));
    MPI_Info_get(info, "cb_buffer_size", MPI_MAX_INFO_VAL, value, &flag);
    say("    flag %d, value %s", flag, flag ? value : "none");
    MPI_Info_free(&info);

    CALL(MPI_File_get_atomicity(file, &flag));
    say("    atomic %d", flag);
#if ON_OPEN_MPI
    MPI_File_set_atomicity(file, 1); /* fails in some runs, on some ranks */
    MPI_File_set_atomicity(file, 0);
#else
    CALL(MPI_File_set_atomicity(file, 1));
    CALL(MPI_File_get_atomicity(file, &flag));
    say("    atomic %d", flag);
    CALL(MPI_File_set_atomicity(file, 0));
#endif

    CALL(MPI_File_get_errhandler(file, &found));
    say("    returns errors: %d", found == MPI_ERRORS_RETURN);
    CALL(MPI_File_create_errhandler(handle_error, &handler));
    CALL(MPI_File_set_errhandler(file, handler));
    CALL(MPI_File_get_errhandler(file, &found));
    say("    the same: %d", found == handler);
    MPI_Errhandler_free(&found);
    CALL(MPI_File_call_errhandler(file, MPI_ERR_QUOTA));
    CALL(MPI_File_read_at(file, -5, in, 1, MPI_INT, &status));
    CALL(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&handler);
}

static int file_extent(MPI_Datatype datatype, MPI_Aint *extent, void *extra)
{
    (void)extra;
    MPI_Aint lb;
    return MPI_Type_get_extent(datatype, &lb, extent);
}

static void representations(void)
{
    CALL(MPI_Register_datarep("mine", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL,
                              file_extent, NULL));
    CALL(MPI_Register_datarep("mine", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL,
                              file_extent, NULL));
#if HAVE_LARGE_COUNTS
    CALL(MPI_Register_datarep_c("large", MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C,
                                file_extent, NULL));
#endif
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/refrain-coverage-XXXXXX", name[64] = "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return_errors(MPI_COMM_WORLD);
    if (rank == 0)
        snprintf(name, sizeof name, "%s/file", mkdtemp(folder));
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);

    CALL(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    CALL(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                       &file));
    sizes();
    CALL(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    explicit_offsets_small();
    individual_pointers_small();
    shared_pointer_small();
#if HAVE_LARGE_COUNTS
    explicit_offsets_large();
    individual_pointers_large();
    shared_pointer_large();
#endif
    views();
    properties();
    representations();
    CALL(MPI_File_close(&file));
    say("    null: %d", file == MPI_FILE_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CALL(MPI_File_delete(name, MPI_INFO_NULL));
        CALL(MPI_File_delete(name, MPI_INFO_NULL));
        rmdir(folder);
    }

    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

#else /* once for each size of counts */

static void OF(explicit_offsets)(void)
{
    MPI_Offset mine = PART * rank;

    prepare();
    CALL(F(MPI_File_write_at)(file, mine, out, PART, MPI_INT, &status));
    show_count();
    CALL(F(MPI_File_read_at)(file, mine, in, PART, MPI_INT, &status));
    show_data();
    prepare();
    CALL(F(MPI_File_write_at_all)(file, mine, out, PART, MPI_INT, &status));
    show_count();
    CALL(F(MPI_File_read_at_all)(file, mine, in, PART - 1, MPI_INT, &status));
    show_data();
    prepare();
    CALL(F(MPI_File_iwrite_at)(file, mine, out, PART, MPI_INT, &request));
    wait();
    show_count();
    CALL(F(MPI_File_iread_at)(file, mine, in, PART, MPI_INT, &request));
    wait();
    show_data();
    prepare();
    CALL(F(MPI_File_iwrite_at_all)(file, mine, out, PART, MPI_INT, &request));
    wait();
    show_count();
    CALL(F(MPI_File_iread_at_all)(file, mine, in, PART, MPI_INT, &request));
    wait();
    show_data();
    prepare();
    CALL(F(MPI_File_write_at_all_begin)(file, mine, out, PART, MPI_INT));
    CALL(MPI_File_write_at_all_end(file, out, &status));
    show_count();
    CALL(F(MPI_File_read_at_all_begin)(file, mine, in, PART, MPI_INT));
    CALL(MPI_File_read_at_all_end(file, in, &status));
    show_data();
    /* Beyond the end. */
    CALL(F(MPI_File_read_at)(file, 100000, in, PART, MPI_INT, &status));
    show_data();
    MPI_Barrier(MPI_COMM_WORLD);
}

static void OF(individual_pointers)(void)
{
    MPI_Offset mine = PART * rank;

    prepare();
    seek_to(mine);
    CALL(F(MPI_File_write)(file, out, PART, MPI_INT, &status));
    show_count();
    seek_to(mine);
    CALL(F(MPI_File_read)(file, in, PART, MPI_INT, &status));
    show_data();
    prepare();
    seek_to(mine);
    CALL(F(MPI_File_write_all)(file, out, PART, MPI_INT, &status));
    show_count();
    seek_to(mine);
    CALL(F(MPI_File_read_all)(file, in, PART, MPI_INT, &status));
    show_data();
    prepare();
    seek_to(mine);
    CALL(F(MPI_File_iwrite)(file, out, PART, MPI_INT, &request));
    wait();
    show_count();
    seek_to(mine);
    CALL(F(MPI_File_iread)(file, in, PART, MPI_INT, &request));
    wait();
    show_data();
    prepare();
    seek_to(mine);
    CALL(F(MPI_File_iwrite_all)(file, out, PART, MPI_INT, &request));
    wait();
    show_count();
    seek_to(mine);
    CALL(F(MPI_File_iread_all)(file, in, PART, MPI_INT, &request));
    wait();
    show_data();
    prepare();
    seek_to(mine);
    CALL(F(MPI_File_write_all_begin)(file, out, PART, MPI_INT));
    CALL(MPI_File_write_all_end(file, out, &status));
    show_count();
    seek_to(mine);
    CALL(F(MPI_File_read_all_begin)(file, in, PART, MPI_INT));
    CALL(MPI_File_read_all_end(file, in, &status));
    show_data();
    MPI_Barrier(MPI_COMM_WORLD);
}

static void OF(shared_pointer)(void)
{
    prepare();
    seek_shared_to(0);
    IN_TURN(CALL(F(MPI_File_write_shared)(file, out, PART, MPI_INT, &status)));
    show_count();
    seek_shared_to(0);
    IN_TURN(CALL(F(MPI_File_read_shared)(file, in, PART, MPI_INT, &status)));
    show_data();
    prepare();
    seek_shared_to(0);
    IN_TURN(CALL(F(MPI_File_iwrite_shared)(file, out, PART, MPI_INT, &request)); wait());
    show_count();
    seek_shared_to(0);
    IN_TURN(CALL(F(MPI_File_iread_shared)(file, in, PART, MPI_INT, &request)); wait());
    show_data();
    prepare();
    seek_shared_to(0);
    CALL(F(MPI_File_write_ordered)(file, out, PART, MPI_INT, &status));
    show_count();
    seek_shared_to(0);
    CALL(F(MPI_File_read_ordered)(file, in, PART, MPI_INT, &status));
    show_data();
    prepare();
    seek_shared_to(0);
    CALL(F(MPI_File_write_ordered_begin)(file, out, PART, MPI_INT));
    CALL(MPI_File_write_ordered_end(file, out, &status));
    show_count();
    seek_shared_to(0);
    CALL(F(MPI_File_read_ordered_begin)(file, in, PART, MPI_INT));
    CALL(MPI_File_read_ordered_end(file, in, &status));
    show_data();
    MPI_Barrier(MPI_COMM_WORLD);
}

#endif
