/* Functions of MPI-1 that were deprecated or removed since, and that libraries still export.
 * Runs on 2 ranks, which do the same. */
#include "coverage.h"

/* Headers do not declare these, or define macros that make the compiler fail. */
#undef MPI_Address
#undef MPI_Errhandler_create
#undef MPI_Errhandler_get
#undef MPI_Errhandler_set
#undef MPI_Type_extent
#undef MPI_Type_hindexed
#undef MPI_Type_hvector
#undef MPI_Type_lb
#undef MPI_Type_struct
#undef MPI_Type_ub
typedef void Handler(MPI_Comm *comm, int *code, ...);
int MPI_Address(void *location, MPI_Aint *address);
int MPI_Errhandler_create(Handler *function, MPI_Errhandler *handler);
int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *handler);
int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler handler);
int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent);
int MPI_Type_hindexed(int count, int lengths[], MPI_Aint displacements[], MPI_Datatype oldtype,
                      MPI_Datatype *newtype);
int MPI_Type_hvector(int count, int length, MPI_Aint stride, MPI_Datatype oldtype,
                     MPI_Datatype *newtype);
int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement);
int MPI_Type_struct(int count, int lengths[], MPI_Aint displacements[], MPI_Datatype types[],
                    MPI_Datatype *newtype);
int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement);

static void use(MPI_Datatype *datatype)
{
    char from[128], to[256] = "";
    MPI_Aint lb, ub, extent;

    CALL(MPI_Type_commit(datatype));
    CALL(MPI_Type_lb(*datatype, &lb));
    CALL(MPI_Type_ub(*datatype, &ub));
    CALL(MPI_Type_extent(*datatype, &extent));
    say("    from %lld to %lld, extent %lld", (long long)lb, (long long)ub, (long long)extent);
    int position = 0;
    for (int i = 0; i < LENGTH(from); i++)
        from[i] = (char)i;
    MPI_Pack(from, 1, *datatype, to, sizeof to, &position, MPI_COMM_WORLD);
    show_bytes("packed", to, position);
    MPI_Type_free(datatype);
}

static void datatypes(void)
{
    static int here[4];
    MPI_Aint first, second, displacements[] = { 4, 16 };
    int lengths[] = { 2, 1 };
    MPI_Datatype types[] = { MPI_SHORT, MPI_DOUBLE }, made;

    CALL(MPI_Address(&here[0], &first));
    CALL(MPI_Address(&here[3], &second));
    say("    difference %lld", (long long)(second - first));
    CALL(MPI_Type_hvector(2, 2, 12, MPI_SHORT, &made));
    use(&made);
    CALL(MPI_Type_hindexed(2, lengths, displacements, MPI_INT, &made));
    use(&made);
    CALL(MPI_Type_struct(2, lengths, displacements, types, &made));
    use(&made);
}

static void handle_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    say("handled %s", class_of(*code));
}

static void error_handlers(void)
{
    MPI_Errhandler handler, found;

    CALL(MPI_Errhandler_create(handle_error, &handler));
    CALL(MPI_Errhandler_set(MPI_COMM_SELF, handler));
    CALL(MPI_Errhandler_get(MPI_COMM_SELF, &found));
    say("    the same: %d", found == handler);
    CALL(MPI_Send(NULL, 0, MPI_INT, 7, 0, MPI_COMM_SELF));
    CALL(MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&handler);
    MPI_Errhandler_free(&found);
}

static int copy_attribute(MPI_Comm comm, int key, void *extra, void *value, void *copy,
                          int *flag)
{
    (void)comm, (void)key;
    say("copy %d, %d", *(int *)value, *(int *)extra);
    *(void **)copy = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_attribute(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key;
    say("delete %d, %d", *(int *)value, *(int *)extra);
    return MPI_SUCCESS;
}

static void attributes(void)
{
    static int one = 1, extra = 5;
    MPI_Comm comm;
    int key, plain, flag, *value;

    CALL(MPI_Keyval_create(copy_attribute, delete_attribute, &key, &extra));
    CALL(MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &plain, NULL));
    CALL(MPI_Attr_put(MPI_COMM_WORLD, key, &one));
    CALL(MPI_Attr_put(MPI_COMM_WORLD, plain, &one));
    CALL(MPI_Attr_get(MPI_COMM_WORLD, key, &value, &flag));
    say("    flag %d, value %d", flag, *value);
    CALL(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CALL(MPI_Attr_get(comm, key, &value, &flag));
    say("    flag %d, value %d", flag, *value);
    CALL(MPI_Attr_get(comm, plain, &value, &flag));
    say("    flag %d", flag);
    CALL(MPI_Attr_delete(MPI_COMM_WORLD, key));
    CALL(MPI_Attr_delete(MPI_COMM_WORLD, plain));
    CALL(MPI_Comm_free(&comm));
    CALL(MPI_Keyval_free(&key));
    CALL(MPI_Keyval_free(&plain));
    say("    invalid: %d", key == MPI_KEYVAL_INVALID);
    CALL(MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    say("    flag %d, enough: %d", flag, flag && *value >= 32767);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    return_errors(MPI_COMM_WORLD);

    datatypes();
    error_handlers();
    attributes();

    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
