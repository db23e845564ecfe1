/*
 * MPI-IO of two ranks on a file in the working directory, infos, and strings of every sort.
 *
 * The libraries that implement it (ROMIO, OMPIO) call MPI themselves: these are not the
 * program's calls.
 */
#include <mpi.h>
#include "expect.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank, data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, got[8];

static void infos(void)
{
    MPI_Info info, copy;
    int n, flag, length;
    char key[MPI_MAX_INFO_KEY], value[64];

    MPI_Info_create(&info);
    CALLED("MPI_Info_create(info=info1)");
    MPI_Info_set(info, "a key", "a \"value\"\twith\\all");
    CALLED("MPI_Info_set(info=info1, key=\"a key\", value=\"a \\\"value\\\"\\twith\\\\all\")");
    MPI_Info_set(info, "ключ", "значение");
    CALLED("MPI_Info_set(info=info1, key=\"ключ\", value=\"значение\")");
    MPI_Info_get_nkeys(info, &n);
    CALLED("MPI_Info_get_nkeys(info=info1, nkeys=2)");
    MPI_Info_get_nthkey(info, 0, key);
    CALLED("MPI_Info_get_nthkey(info=info1, n=0, key=\"a key\")");
    MPI_Info_get_valuelen(info, "ключ", &length, &flag);
    CALLED("MPI_Info_get_valuelen(info=info1, key=\"ключ\", valuelen=16, flag=true)");
    MPI_Info_get_valuelen(info, "nothing", &length, &flag);
    CALLED("MPI_Info_get_valuelen(info=info1, key=\"nothing\", valuelen=unset, flag=false)");
    MPI_Info_get(info, "ключ", 63, value, &flag);
    CALLED("MPI_Info_get(info=info1, key=\"ключ\", valuelen=63, value=\"значение\", flag=true)");
    MPI_Info_get(info, "nothing", 63, value, &flag);
    CALLED("MPI_Info_get(info=info1, key=\"nothing\", valuelen=63, value=unset, flag=false)");
#if HAVE_MPI_4
    length = 4;
    MPI_Info_get_string(info, "ключ", &length, value, &flag);
    CALLED("MPI_Info_get_string(info=info1, key=\"ключ\", buflen=4→17, value=_, flag=true)");
    length = sizeof value;
    MPI_Info_get_string(info, "ключ", &length, value, &flag);
    CALLED("MPI_Info_get_string(info=info1, key=\"ключ\", buflen=64→17, value=\"значение\", flag=true)");
#endif
    MPI_Info_dup(info, &copy);
    CALLED("MPI_Info_dup(info=info1, newinfo=info2)");
    MPI_Info_delete(info, "a key");
    CALLED("MPI_Info_delete(info=info1, key=\"a key\")");
    MPI_Info_free(&info);
    CALLED("MPI_Info_free(info=info1)");
    MPI_Info_free(&copy);
    CALLED("MPI_Info_free(info=info2)");
}

static void writes(void)
{
    MPI_File file;
    MPI_Info used;
    MPI_Group group;
    MPI_Status status;
    MPI_Request request;
    MPI_Offset size;
    int mode, flag;

    /* I/O sets the number of bytes, and nothing else. */
    memset(&status, 0, sizeof status);
    MPI_File_open(world, "matrix_files.data", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CALLED("MPI_File_open(comm=MPI_COMM_WORLD, filename=\"matrix_files.data\", amode=MPI_MODE_CREATE|MPI_MODE_RDWR, info=MPI_INFO_NULL, fh=file1)");
    MPI_File_get_amode(file, &mode);
    CALLED("MPI_File_get_amode(fh=file1, amode=MPI_MODE_CREATE|MPI_MODE_RDWR)");
    MPI_File_get_group(file, &group);
    CALLED("MPI_File_get_group(fh=file1, group=group1)");
    MPI_Group_free(&group);
    CALLED("MPI_Group_free(group=group1)");
    MPI_File_get_info(file, &used);
    CALLED("MPI_File_get_info(fh=file1, info_used=info1)");
    MPI_Info_free(&used);
    CALLED("MPI_Info_free(info=info1)");
    MPI_File_set_size(file, 64);
    CALLED("MPI_File_set_size(fh=file1, size=64)");
    MPI_File_get_size(file, &size);
    CALLED("MPI_File_get_size(fh=file1, size=64)");
    MPI_File_write_at(file, 16 * rank, data, 4, MPI_INT, &status);
    CALLED("MPI_File_write_at(fh=file1, offset=%d, buf=%p, count=4, datatype=MPI_INT, status={bytes=16})", 16 * rank, (void *)data);
    MPI_File_write_at_all(file, 16 * rank, data, 4, MPI_INT, MPI_STATUS_IGNORE);
    CALLED("MPI_File_write_at_all(fh=file1, offset=%d, buf=%p, count=4, datatype=MPI_INT, status=MPI_STATUS_IGNORE)", 16 * rank, (void *)data);
    MPI_File_sync(file);
    CALLED("MPI_File_sync(fh=file1)");
    MPI_File_seek(file, 8, MPI_SEEK_SET);
    CALLED("MPI_File_seek(fh=file1, offset=8, whence=MPI_SEEK_SET)");
    MPI_File_seek(file, -4, MPI_SEEK_CUR);
    CALLED("MPI_File_seek(fh=file1, offset=-4, whence=MPI_SEEK_CUR)");
    MPI_File_get_position(file, &size);
    CALLED("MPI_File_get_position(fh=file1, offset=4)");
    MPI_File_read(file, got, 2, MPI_INT, &status);
    CALLED("MPI_File_read(fh=file1, buf=%p, count=2, datatype=MPI_INT, status={bytes=8})", (void *)got);
    MPI_File_read_all(file, got, 1, MPI_INT, MPI_STATUS_IGNORE);
    CALLED("MPI_File_read_all(fh=file1, buf=%p, count=1, datatype=MPI_INT, status=MPI_STATUS_IGNORE)", (void *)got);
    MPI_File_iread_at(file, 0, got, 4, MPI_INT, &request);
    CALLED("MPI_File_iread_at(fh=file1, offset=0, buf=%p, count=4, datatype=MPI_INT, request=r1)", (void *)got);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    MPI_File_write_all_begin(file, data, 1, MPI_INT);
    CALLED("MPI_File_write_all_begin(fh=file1, buf=%p, count=1, datatype=MPI_INT)", (void *)data);
    MPI_File_write_all_end(file, data, &status);
    /* Open MPI 4.1 writes all of a status that it has not set itself. */
    CALLED("MPI_File_write_all_end(fh=file1, buf=%p, status=_)", (void *)data);
    MPI_File_set_atomicity(file, 1);
    CALLED("MPI_File_set_atomicity(fh=file1, flag=true)");
    MPI_File_get_atomicity(file, &flag);
    CALLED("MPI_File_get_atomicity(fh=file1, flag=true)");
    MPI_File_close(&file);
    CALLED("MPI_File_close(fh=file1)");
}

/* Each rank sees every other block of two ints. */
static void views(void)
{
    MPI_File file;
    MPI_Datatype blocks, etype, filetype;
    MPI_Offset disp, position;
    MPI_Status status;
    char datarep[MPI_MAX_DATAREP_STRING];
    int sizes[1] = { 4 }, parts[1] = { 2 }, starts[1] = { 2 * rank };

    memset(&status, 0, sizeof status);
    MPI_Type_create_subarray(1, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &blocks);
    CALLED("MPI_Type_create_subarray(ndims=1, array_of_sizes=[4], array_of_subsizes=[2], array_of_starts=[%d], order=MPI_ORDER_C, oldtype=MPI_INT, newtype=type1)", 2 * rank);
    MPI_Type_commit(&blocks);
    CALLED("MPI_Type_commit(datatype=type1)");
    MPI_File_open(world, "matrix_files.data", MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    CALLED("MPI_File_open(comm=MPI_COMM_WORLD, filename=\"matrix_files.data\", amode=MPI_MODE_DELETE_ON_CLOSE|MPI_MODE_RDWR, info=MPI_INFO_NULL, fh=file1)");
    MPI_File_set_view(file, 16, MPI_INT, blocks, "native", MPI_INFO_NULL);
    CALLED("MPI_File_set_view(fh=file1, disp=16, etype=MPI_INT, filetype=type1, datarep=\"native\", info=MPI_INFO_NULL)");
    MPI_File_get_view(file, &disp, &etype, &filetype, datarep);
    CALLED("MPI_File_get_view(fh=file1, disp=16, etype=MPI_INT, filetype=_, datarep=\"native\")");
    MPI_Type_free(&filetype);
    CALLED("MPI_Type_free(datatype=_)");
    MPI_Type_free(&blocks);
    CALLED("MPI_Type_free(datatype=type1)");
    MPI_File_write_all(file, data, 4, MPI_INT, &status);
    CALLED("MPI_File_write_all(fh=file1, buf=%p, count=4, datatype=MPI_INT, status={bytes=16})", (void *)data);
    MPI_File_get_byte_offset(file, 2, &position);
    CALLED("MPI_File_get_byte_offset(fh=file1, offset=2, disp=%d)", 16 + 16 + 8 * rank);
    MPI_File_close(&file);
    CALLED("MPI_File_close(fh=file1)");
}

/* Shared file pointers, and split collectives. */
static void shared(void)
{
    MPI_File file;
    MPI_Request request;
    MPI_Offset position;

    MPI_File_open(world, "matrix_files.data", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    CALLED("MPI_File_open(comm=MPI_COMM_WORLD, filename=\"matrix_files.data\", amode=MPI_MODE_CREATE|MPI_MODE_DELETE_ON_CLOSE|MPI_MODE_RDWR, info=MPI_INFO_NULL, fh=file1)");
    MPI_File_preallocate(file, 256);
    CALLED("MPI_File_preallocate(fh=file1, size=256)");
    MPI_File_write_ordered(file, data, 2 + rank, MPI_INT, MPI_STATUS_IGNORE);
    CALLED("MPI_File_write_ordered(fh=file1, buf=%p, count=%d, datatype=MPI_INT, status=MPI_STATUS_IGNORE)", (void *)data, 2 + rank);
    MPI_File_get_position_shared(file, &position);
    CALLED("MPI_File_get_position_shared(fh=file1, offset=20)");
    MPI_Barrier(world);
    CALLED("MPI_Barrier(comm=MPI_COMM_WORLD)");
    MPI_File_write_shared(file, data, 1, MPI_INT, MPI_STATUS_IGNORE);
    CALLED("MPI_File_write_shared(fh=file1, buf=%p, count=1, datatype=MPI_INT, status=MPI_STATUS_IGNORE)", (void *)data);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    CALLED("MPI_File_seek_shared(fh=file1, offset=0, whence=MPI_SEEK_SET)");
    MPI_File_read_ordered_begin(file, got, 2 + rank, MPI_INT);
    CALLED("MPI_File_read_ordered_begin(fh=file1, buf=%p, count=%d, datatype=MPI_INT)", (void *)got, 2 + rank);
    MPI_File_read_ordered_end(file, got, MPI_STATUS_IGNORE);
    CALLED("MPI_File_read_ordered_end(fh=file1, buf=%p, status=MPI_STATUS_IGNORE)", (void *)got);
    MPI_File_iwrite_at(file, 8 * rank, data, 2, MPI_INT, &request);
    CALLED("MPI_File_iwrite_at(fh=file1, offset=%d, buf=%p, count=2, datatype=MPI_INT, request=r1)", 8 * rank, (void *)data);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    MPI_File_iread_at_all(file, 8 * rank, got, 2, MPI_INT, &request);
    CALLED("MPI_File_iread_at_all(fh=file1, offset=%d, buf=%p, count=2, datatype=MPI_INT, request=r1)", 8 * rank, (void *)got);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CALLED("MPI_Wait(request=r1, status=MPI_STATUS_IGNORE)");
    MPI_File_close(&file);
    CALLED("MPI_File_close(fh=file1)");
}

static int extent(MPI_Datatype type, MPI_Aint *bytes, void *state)
{
    (void)type;
    (void)state;
    *bytes = 8;
    return MPI_SUCCESS;
}

static void handle(MPI_File *file, int *code, ...)
{
    int class;

    (void)file;
    MPI_Error_class(*code, &class);
    CALLED("MPI_Error_class(errorcode=MPI_ERR_IO, errorclass=MPI_ERR_IO)");
}

static void callbacks(void)
{
    MPI_Errhandler handler;
    MPI_File file;
    int call, code;

    /* Open MPI's own I/O does not support this. */
    code = MPI_Register_datarep("matrix", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent, &rank);
    CALLED("MPI_Register_datarep(datarep=\"matrix\", read_conversion_fn=MPI_CONVERSION_FN_NULL, write_conversion_fn=MPI_CONVERSION_FN_NULL, dtype_file_extent_fn=%p, extra_state=%p) = %s", (void *)extent, (void *)&rank, code == MPI_SUCCESS ? "SUCCESS" : "ERR_OTHER");
    MPI_File_create_errhandler(handle, &handler);
    CALLED("MPI_File_create_errhandler(file_errhandler_fn=%p, errhandler=errhandler1)", (void *)handle);
    MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CALLED("MPI_File_open(comm=MPI_COMM_SELF, filename=\"/dev/null\", amode=MPI_MODE_RDONLY, info=MPI_INFO_NULL, fh=file1)");
    MPI_File_set_errhandler(file, handler);
    CALLED("MPI_File_set_errhandler(file=file1, errhandler=errhandler1)");
    call = CALLING();
    MPI_File_call_errhandler(file, MPI_ERR_IO);
    CALLED_AT(call, "MPI_File_call_errhandler(fh=file1, errorcode=MPI_ERR_IO)");
    MPI_Errhandler_free(&handler);
    CALLED("MPI_Errhandler_free(errhandler=errhandler1)");
    MPI_File_close(&file);
    CALLED("MPI_File_close(fh=file1)");
}

static void failures(void)
{
    MPI_File file;
    char text[MPI_MAX_ERROR_STRING];
    int code, class, n;

    code = MPI_File_open(world, "no such folder/matrix_files.data", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_Error_class(code, &class);
    /* When ranks agree on an error, MPICH may lose its class. */
    const char *name = class == MPI_ERR_NO_SUCH_FILE ? "ERR_NO_SUCH_FILE" : "ERR_OTHER";
    CALLED("MPI_File_open(comm=MPI_COMM_WORLD, filename=\"no such folder/matrix_files.data\", amode=MPI_MODE_RDONLY, info=MPI_INFO_NULL, fh=unset) = %s", name);
    CALLED("MPI_Error_class(errorcode=_, errorclass=MPI_%s)", name);
    MPI_Error_string(MPI_ERR_NO_SUCH_FILE, text, &n);
    CALLED("MPI_Error_string(errorcode=MPI_ERR_NO_SUCH_FILE, string=_, resultlen=%d)", n);
    MPI_File_delete("no such file", MPI_INFO_NULL);
    CALLED("MPI_File_delete(filename=\"no such file\", info=MPI_INFO_NULL) = ERR_NO_SUCH_FILE");
}

int main(void)
{
    MPI_Init(NULL, NULL);
    CALLED("MPI_Init(argc=NULL, argv=NULL)");
    MPI_Comm_rank(world, &rank);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank);

    infos();
    writes();
    views();
    shared();
    failures();
    callbacks();

    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(rank);
    return 0;
}
