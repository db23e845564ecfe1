/* The interface for tools: control and performance variables, categories, enumerations,
 * events; before its initialisation, when every function must return an error, and after. Variables differ
 * between MPIs, and values between runs: only outcomes are printed, and consistency checks.
 * Runs on 2 ranks, which do the same. */
#include "coverage.h"

#define TEXT_LENGTH 2048

static int rank, number, second, third, fourth, fifth, sixth, seventh;
static int name_length, text_length;
static char name[TEXT_LENGTH], text[TEXT_LENGTH];
static MPI_Datatype datatype;
static MPI_T_enum enumeration;
static MPI_T_pvar_session session;

static void make_room(void)
{
    name_length = text_length = TEXT_LENGTH;
    name[0] = text[0] = 0;
}

/* The value of a variable of any type. */
static void *value_of(int elements)
{
    return calloc((size_t)(elements > 0 ? elements : 1) + 1, 8192);
}

static void before_initialization(void)
{
    MPI_T_cvar_handle cvar = MPI_T_CVAR_HANDLE_NULL;
    MPI_T_pvar_handle pvar = MPI_T_PVAR_HANDLE_NULL;

    say("before");
    make_room();
    CALL(MPI_T_cvar_get_num(&number));
    CALL(MPI_T_cvar_get_info(0, name, &name_length, &second, &datatype, &enumeration, text,
                             &text_length, &third, &fourth));
    CALL(MPI_T_cvar_get_index("none", &number));
    CALL(MPI_T_cvar_handle_alloc(0, NULL, &cvar, &number));
    CALL(MPI_T_cvar_read(cvar, &number));
    CALL(MPI_T_cvar_write(cvar, &number));
    CALL(MPI_T_cvar_handle_free(&cvar));
    CALL(MPI_T_pvar_get_num(&number));
    CALL(MPI_T_pvar_get_info(0, name, &name_length, &second, &third, &datatype, &enumeration,
                             text, &text_length, &fourth, &fifth, &sixth, &seventh));
    CALL(MPI_T_pvar_get_index("none", MPI_T_PVAR_CLASS_COUNTER, &number));
    CALL(MPI_T_pvar_session_create(&session));
    CALL(MPI_T_pvar_handle_alloc(session, 0, NULL, &pvar, &number));
    CALL(MPI_T_pvar_start(session, pvar));
    CALL(MPI_T_pvar_stop(session, pvar));
    CALL(MPI_T_pvar_read(session, pvar, &number));
    CALL(MPI_T_pvar_readreset(session, pvar, &number));
    CALL(MPI_T_pvar_write(session, pvar, &number));
    CALL(MPI_T_pvar_reset(session, pvar));
    CALL(MPI_T_pvar_handle_free(session, &pvar));
    CALL(MPI_T_pvar_session_free(&session));
    CALL(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &number, name, &name_length));
    CALL(MPI_T_enum_get_item(MPI_T_ENUM_NULL, 0, &number, name, &name_length));
    CALL(MPI_T_category_get_num(&number));
    CALL(MPI_T_category_get_info(0, name, &name_length, text, &text_length, &second, &third,
                                 &fourth));
    CALL(MPI_T_category_get_index("none", &number));
    CALL(MPI_T_category_get_cvars(0, 1, &number));
    CALL(MPI_T_category_get_pvars(0, 1, &number));
    CALL(MPI_T_category_get_categories(0, 1, &number));
    CALL(MPI_T_category_changed(&number));
}

#if HAVE_TOOL_EVENTS
static MPI_T_event_registration registration;
static MPI_T_event_instance instance;
static MPI_Info info = MPI_INFO_NULL;
static MPI_Count ticks, most_ticks;
static MPI_T_source_order order;

static void on_event(MPI_T_event_instance event, MPI_T_event_registration of,
                     MPI_T_cb_safety safety, void *data)
{
    (void)event, (void)of, (void)safety, (void)data;
}

static void on_dropped(MPI_Count count, MPI_T_event_registration of, int source,
                       MPI_T_cb_safety safety, void *data)
{
    (void)count, (void)of, (void)source, (void)safety, (void)data;
}

static void on_freed(MPI_T_event_registration of, MPI_T_cb_safety safety, void *data)
{
    (void)of, (void)safety, (void)data;
}

static void describe_event(int index)
{
    MPI_Datatype types[4] = { MPI_INT, MPI_INT, MPI_INT, MPI_INT };
    MPI_Aint places[4] = { 0 };

    make_room();
#ifdef MPI_ABI_VERSION
    number = 0; /* MPICH 5 converts these even if there is no such event */
#else
    number = 4;
#endif
    CALL(MPI_T_event_get_info(index, name, &name_length, &second, types, places, &number,
                              &enumeration, &info, text, &text_length, &third));
}

/* MPICH dereferences a registration or an instance without a check, and no MPI here has any: so
 * these are called only before initialisation. */
static void events_before_initialization(void)
{
    CALL(MPI_T_event_get_num(&number));
    describe_event(0);
    CALL(MPI_T_event_get_index("none", &number));
    CALL(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &registration));
    CALL(MPI_T_event_handle_set_info(registration, MPI_INFO_NULL));
    CALL(MPI_T_event_handle_get_info(registration, &info));
    CALL(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL,
                                       NULL, on_event));
    CALL(MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL));
    CALL(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info));
    CALL(MPI_T_event_set_dropped_handler(registration, on_dropped));
    CALL(MPI_T_event_read(instance, 0, &number));
    CALL(MPI_T_event_copy(instance, name));
    CALL(MPI_T_event_get_timestamp(instance, &ticks));
    CALL(MPI_T_event_get_source(instance, &number));
    CALL(MPI_T_event_handle_free(registration, NULL, on_freed));
    CALL(MPI_T_category_get_num_events(0, &number));
    CALL(MPI_T_category_get_events(0, 1, &number));
    CALL(MPI_T_source_get_num(&number));
    CALL(MPI_T_source_get_info(0, name, &name_length, text, &text_length, &order, &ticks,
                               &most_ticks, &info));
    CALL(MPI_T_source_get_timestamp(0, &ticks));
}

static void events(void)
{
    int n = -1;

    CALL(MPI_T_event_get_num(&n));
    say("    some: %d", n >= 0);
    describe_event(n + 1000000);
    CALL(MPI_T_event_get_index("no such event", &number));
    CALL(MPI_T_source_get_num(&n));
    say("    some: %d", n >= 0);
    make_room();
    CALL(MPI_T_source_get_info(n + 1000000, name, &name_length, text, &text_length, &order,
                               &ticks, &most_ticks, &info));
    CALL(MPI_T_source_get_timestamp(n + 1000000, &ticks));
    CALL(MPI_T_category_get_num_events(0, &n));
    CALL(MPI_T_category_get_events(0, n, NULL));
    say("    some: %d", n >= 0);
}
#endif

static void enumerations(void)
{
    int items = -1;

    make_room();
    CALL(MPI_T_enum_get_info(enumeration, &items, name, &name_length));
    say("    agrees: %d", (size_t)name_length == strlen(name) + 1);
    for (int i = 0; i < items && i < 4; i++) {
        make_room();
        CALL(MPI_T_enum_get_item(enumeration, i, &number, name, &name_length));
        say("    %s, %d", name, number);
    }
    CALL(MPI_T_enum_get_item(enumeration, items + 1000000, &number, name, &name_length));
}

static void control_variables(void)
{
    MPI_T_cvar_handle handle;
    MPI_T_enum one_with_items = MPI_T_ENUM_NULL;
    int n, index, elements, bind, chosen = -1;

    CALL(MPI_T_cvar_get_num(&n));
    say("    some: %d", n > 0);
    for (int i = 0; i < n; i++) {
        make_room();
        /* Open MPI has gaps in its numbers. */
        if (MPI_T_cvar_get_info(i, name, &name_length, &second, &datatype, &enumeration, text,
                                &text_length, &bind, &third))
            continue;
        if (enumeration != MPI_T_ENUM_NULL)
            one_with_items = enumeration;
        if (chosen < 0 && bind == MPI_T_BIND_NO_OBJECT && datatype == MPI_INT)
            chosen = i;
    }
    /* A buffer that is too small for the name, and no other outputs. */
    name_length = 4;
    CALL(MPI_T_cvar_get_info(chosen, name, &name_length, NULL, NULL, NULL, NULL, NULL, NULL,
                             NULL));
    say("    %d characters, more needed: %d", (int)strlen(name), name_length > 4);
    make_room();
    CALL(MPI_T_cvar_get_info(chosen, name, &name_length, &second, &datatype, &enumeration,
                             text, &text_length, &bind, &third));
    say("    agrees: %d", (size_t)name_length == strlen(name) + 1);
    CALL(MPI_T_cvar_get_index(name, &index));
    say("    the same: %d", index == chosen);
    CALL(MPI_T_cvar_get_index("no such variable", &index));
    CALL(MPI_T_cvar_handle_alloc(chosen, NULL, &handle, &elements));
    say("    elements %d", elements);
    void *value = value_of(elements);
    CALL(MPI_T_cvar_read(handle, value));
    CALL(MPI_T_cvar_write(handle, value));
    free(value);
    CALL(MPI_T_cvar_handle_free(&handle));
    say("    null: %d", handle == MPI_T_CVAR_HANDLE_NULL);

    enumeration = one_with_items;
    if (enumeration != MPI_T_ENUM_NULL)
        enumerations();
}

/* Counts and times, with whatever permissions they have. */
static void performance_variable(int index)
{
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int class, bind, elements = 0, found = -1;
    MPI_Comm world = MPI_COMM_WORLD;

    make_room();
    CALL(MPI_T_pvar_get_info(index, name, &name_length, &second, &class, &datatype,
                             &enumeration, text, &text_length, &bind, &third, &fourth,
                             &fifth));
    if (strncmp(name, "mtl_", 4) == 0)
        return; /* Open MPI crashes for variables of networks that the machine does not have */
    CALL(MPI_T_pvar_get_index(name, class, &found));
    say("    the same: %d, communicator %d", found == index, bind == MPI_T_BIND_MPI_COMM);
    if (bind != MPI_T_BIND_NO_OBJECT && bind != MPI_T_BIND_MPI_COMM)
        return;
    if (CALL(MPI_T_pvar_handle_alloc(session, index, bind == MPI_T_BIND_MPI_COMM ? &world : NULL,
                                     &handle, &elements)) != MPI_SUCCESS)
        return;
    say("    elements %d", elements);
    void *value = value_of(elements);
    CALL(MPI_T_pvar_start(session, handle));
    CALL(MPI_T_pvar_read(session, handle, value));
    CALL(MPI_T_pvar_write(session, handle, value));
    CALL(MPI_T_pvar_readreset(session, handle, value));
    CALL(MPI_T_pvar_reset(session, handle));
    CALL(MPI_T_pvar_stop(session, handle));
    free(value);
    CALL(MPI_T_pvar_handle_free(session, &handle));
    say("    null: %d", handle == MPI_T_PVAR_HANDLE_NULL);
}

static void performance_variables(void)
{
    MPI_T_pvar_handle none = MPI_T_PVAR_HANDLE_NULL;
    int n;

    CALL(MPI_T_pvar_get_num(&n));
    CALL(MPI_T_pvar_session_create(&session));
    for (int i = 0; i < n; i++)
        performance_variable(i);
    CALL(MPI_T_pvar_get_index("no such variable", MPI_T_PVAR_CLASS_COUNTER, &number));
#if !ON_OPEN_MPI /* which dereferences the null handle */
    CALL(MPI_T_pvar_start(session, none));
    CALL(MPI_T_pvar_stop(session, none));
    CALL(MPI_T_pvar_read(session, none, &number));
    CALL(MPI_T_pvar_readreset(session, none, &number));
    CALL(MPI_T_pvar_write(session, none, &number));
    CALL(MPI_T_pvar_reset(session, none));
    CALL(MPI_T_pvar_handle_free(session, &none));
#endif
    (void)none;
    CALL(MPI_T_pvar_session_free(&session));
    say("    null: %d", session == MPI_T_PVAR_SESSION_NULL);
}

static void categories(void)
{
    int n, index, cvars, pvars, subcategories, *indices;

    CALL(MPI_T_category_get_num(&n));
    say("    some: %d", n > 0);
    for (int i = 0; i < n && i < 3; i++) {
        make_room();
        CALL(MPI_T_category_get_info(i, name, &name_length, text, &text_length, &cvars, &pvars,
                                     &subcategories));
        CALL(MPI_T_category_get_index(name, &index));
        say("    the same: %d", index == i);
        /* One more than the category has. */
        indices = malloc((size_t)(cvars + pvars + subcategories + 1) * sizeof *indices);
        CALL(MPI_T_category_get_cvars(i, cvars, indices));
        CALL(MPI_T_category_get_pvars(i, pvars, indices));
        CALL(MPI_T_category_get_categories(i, subcategories, indices));
        free(indices);
    }
    CALL(MPI_T_category_get_index("no such category", &index));
    CALL(MPI_T_category_changed(&number));
}

int main(int argc, char **argv)
{
    int provided = -1;

    before_initialization();
#if HAVE_TOOL_EVENTS
    events_before_initialization();
#endif
    CALL(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CALL(MPI_T_cvar_get_num(&number));
    say("    some: %d", number > 0);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return_errors(MPI_COMM_WORLD);
    return_errors(MPI_COMM_SELF);
    control_variables();
    performance_variables();
    categories();
#if HAVE_TOOL_EVENTS
    events();
#endif
    CALL(MPI_T_finalize());
    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
