/* Info objects, attributes, error handlers, error classes and codes. Runs on 2 ranks, which
 * do the same. */
#include "coverage.h"

static int rank;

static void infos(int argc, char **argv)
{
    MPI_Info info, copy;
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int n, flag, length;

    CALL(MPI_Info_create(&info));
    CALL(MPI_Info_set(info, "first", "one"));
    CALL(MPI_Info_set(info, "second", "two words"));
    CALL(MPI_Info_set(info, "third", "3"));
    CALL(MPI_Info_set(info, "first", "another"));
    CALL(MPI_Info_dup(info, &copy));
    CALL(MPI_Info_delete(copy, "second"));
    CALL(MPI_Info_delete(copy, "none"));
    CALL(MPI_Info_get_nkeys(info, &n));
    say("    keys %d", n);
    CALL(MPI_Info_get_nkeys(copy, &n));
    say("    keys %d", n);
    for (int i = 0; i < n; i++) {
        CALL(MPI_Info_get_nthkey(copy, i, key));
        CALL(MPI_Info_get_valuelen(copy, key, &length, &flag));
        CALL(MPI_Info_get(copy, key, MPI_MAX_INFO_VAL, value, &flag));
        say("    %s: %s, %d", key, value, length);
    }
    CALL(MPI_Info_get_valuelen(copy, "second", &length, &flag));
    say("    flag %d", flag);
    CALL(MPI_Info_get(info, "second", 3, value, &flag));
    say("    flag %d, %s", flag, value);
    CALL(MPI_Info_get(info, "none", 3, value, &flag));
    say("    flag %d", flag);
#if HAVE_MPI_4
    length = 5;
    CALL(MPI_Info_get_string(info, "second", &length, value, &flag));
    say("    flag %d, %s, %d", flag, value, length);
    length = 0;
    CALL(MPI_Info_get_string(info, "second", &length, NULL, &flag));
    say("    flag %d, %d", flag, length);
    CALL(MPI_Info_get_string(info, "none", &length, value, &flag));
    say("    flag %d", flag);
#endif
    CALL(MPI_Info_free(&copy));
    say("    null: %d", copy == MPI_INFO_NULL);
    MPI_Info_free(&info);
    CALL(MPI_Info_get(MPI_INFO_ENV, "no such key", 3, value, &flag));
    say("    flag %d", flag);
#if HAVE_MPI_4
    CALL(MPI_Info_create_env(argc, argv, &info));
    CALL(MPI_Info_get_nkeys(info, &n));
    say("    some: %d", n >= 0);
    MPI_Info_free(&info);
#endif
    (void)argc, (void)argv;
}

/* The value of a copy is one more than that of its original. */
static int copy_comm(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag)
{
    int size;
    (void)key;
    CALL(MPI_Comm_size(comm, &size));
    say("copy %d, %d, size %d", *(int *)value, *(int *)extra, size);
    *(void **)copy = (int *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_comm(MPI_Comm comm, int key, void *value, void *extra)
{
    int size;
    (void)key;
    CALL(MPI_Comm_size(comm, &size));
    say("delete %d, %d, size %d", *(int *)value, *(int *)extra, size);
    /* Refuses; the call that deletes the attribute returns this error. */
    return *(int *)value == 13 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int copy_type(MPI_Datatype type, int key, void *extra, void *value, void *copy, int *flag)
{
    int size;
    (void)key;
    CALL(MPI_Type_size(type, &size));
    say("copy %d, %d, size %d", *(int *)value, *(int *)extra, size);
    *(void **)copy = (int *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_type(MPI_Datatype type, int key, void *value, void *extra)
{
    int size;
    (void)key;
    CALL(MPI_Type_size(type, &size));
    say("delete %d, %d, size %d", *(int *)value, *(int *)extra, size);
    return MPI_SUCCESS;
}

static int values[] = { 10, 11, 12, 13 }, extra_state = 99;

static void comm_attributes(void)
{
    MPI_Comm comm, copy;
    int key, plain, flag, *value;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    return_errors(comm);
    CALL(MPI_Comm_create_keyval(copy_comm, delete_comm, &key, &extra_state));
    CALL(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL));
    CALL(MPI_Comm_get_attr(comm, key, &value, &flag));
    say("    flag %d", flag);
    CALL(MPI_Comm_set_attr(comm, key, &values[0]));
    CALL(MPI_Comm_set_attr(comm, key, &values[1]));
    CALL(MPI_Comm_set_attr(comm, plain, &values[2]));
    CALL(MPI_Comm_get_attr(comm, key, &value, &flag));
    say("    flag %d, value %d", flag, *value);
    CALL(MPI_Comm_dup(comm, &copy));
    CALL(MPI_Comm_get_attr(copy, key, &value, &flag));
    say("    flag %d, value %d", flag, *value);
    CALL(MPI_Comm_get_attr(copy, plain, &value, &flag));
    say("    flag %d, value %d", flag, *value);
    CALL(MPI_Comm_delete_attr(comm, key));
    CALL(MPI_Comm_get_attr(comm, key, &value, &flag));
    say("    flag %d", flag);
    CALL(MPI_Comm_set_attr(comm, key, &values[3]));
    CALL(MPI_Comm_delete_attr(comm, key));
    CALL(MPI_Comm_set_attr(comm, key, &values[0]));
    CALL(MPI_Comm_free_keyval(&key));
    CALL(MPI_Comm_free_keyval(&plain));
    say("    invalid: %d", key == MPI_KEYVAL_INVALID);
    CALL(MPI_Comm_free(&copy));
}

static void predefined_attributes(void)
{
    int flag, *value;

    CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    say("    flag %d, enough: %d", flag, flag && *value >= 32767);
    CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag));
    say("    flag %d, value %d", flag, flag ? *value : -1);
    CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag));
    say("    flag %d, value %d", flag, flag ? *value : -1);
    CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag));
    say("    flag %d", flag);
    CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag));
    say("    flag %d, anyone: %d", flag, flag && *value == MPI_ANY_SOURCE);
}

static void type_attributes(void)
{
    MPI_Datatype type, copy;
    int key, flag, *value;

    MPI_Type_contiguous(3, MPI_INT, &type);
    CALL(MPI_Type_create_keyval(copy_type, delete_type, &key, &extra_state));
    CALL(MPI_Type_get_attr(type, key, &value, &flag));
    say("    flag %d", flag);
    CALL(MPI_Type_set_attr(type, key, &values[0]));
    CALL(MPI_Type_get_attr(type, key, &value, &flag));
    say("    flag %d, value %d", flag, *value);
    CALL(MPI_Type_dup(type, &copy));
    CALL(MPI_Type_get_attr(copy, key, &value, &flag));
    say("    flag %d, value %d", flag, *value);
    CALL(MPI_Type_delete_attr(type, key));
    CALL(MPI_Type_free_keyval(&key));
    say("    invalid: %d", key == MPI_KEYVAL_INVALID);
    CALL(MPI_Type_free(&copy));
    CALL(MPI_Type_free(&type));
}

static void show_error(int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = -1, class = -1;

    CALL(MPI_Error_string(code, text, &length));
    CALL(MPI_Error_class(code, &class));
    say("    '%s', %d, %s", text, length, class_of(class));
}

static void error_codes(void)
{
    int class, code, second, found, *last, flag;

    show_error(MPI_SUCCESS);
    show_error(MPI_ERR_TRUNCATE);
    CALL(MPI_Add_error_class(&class));
    CALL(MPI_Add_error_code(class, &code));
    CALL(MPI_Add_error_code(MPI_ERR_OTHER, &second));
    CALL(MPI_Add_error_string(class, "a class of errors"));
    CALL(MPI_Add_error_string(code, "an error of that class"));
    CALL(MPI_Add_error_string(second, "an error of another class"));
    CALL(MPI_Error_class(code, &found));
    say("    the same: %d", found == class);
    CALL(MPI_Error_class(second, &found));
    say("    %s", class_of(found));
    show_error(class);
    show_error(code);
    show_error(second);
    CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    say("    flag %d, beyond: %d", flag, *last >= MPI_ERR_LASTCODE);
#if HAVE_MPI_4_1
    CALL(MPI_Remove_error_string(second));
    CALL(MPI_Remove_error_string(code));
    CALL(MPI_Remove_error_string(class));
    CALL(MPI_Remove_error_code(second));
    CALL(MPI_Remove_error_code(code));
    CALL(MPI_Remove_error_class(class));
#endif
}

static void handle_error(MPI_Comm *comm, int *code, ...)
{
    int result;
    MPI_Comm_compare(*comm, MPI_COMM_SELF, &result);
    say("handled %s, self %d", class_of(*code), result == MPI_IDENT);
}

static void error_handlers(void)
{
    MPI_Errhandler handler, found;
    int value = 0;

    CALL(MPI_Comm_create_errhandler(handle_error, &handler));
    CALL(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found));
    say("    returns: %d", found == MPI_ERRORS_RETURN);
    CALL(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    CALL(MPI_Comm_get_errhandler(MPI_COMM_SELF, &found));
    say("    the same: %d", found == handler);
    CALL(MPI_Errhandler_free(&found));
    CALL(MPI_Errhandler_free(&handler));
    say("    null: %d", handler == MPI_ERRHANDLER_NULL);
    CALL(MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_TAG));
    CALL(MPI_Send(&value, 1, MPI_INT, 5, 0, MPI_COMM_SELF));
    CALL(MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_SELF));
    CALL(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_SELF));
    CALL(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CALL(MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_TAG));
    CALL(MPI_Send(&value, 1, MPI_INT, 5, 0, MPI_COMM_SELF));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return_errors(MPI_COMM_WORLD);
    /* In some MPIs, errors without a communicator are raised here. */
    return_errors(MPI_COMM_SELF);

    infos(argc, argv);
    comm_attributes();
    predefined_attributes();
    type_attributes();
    error_codes();
    error_handlers();

    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
