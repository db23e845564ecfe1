/* Processes started by the program: it starts itself, once and as several programs at once.
 * The children print nothing; the parents print what the children reported. Runs on
 * 2 ranks, which start 6 more. */
#include "coverage.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank;

/* For arguments that are significant only at the root. MPICH 4.0 with UCX cannot start processes, and
 * reads the arguments for its error message. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
#define AT_ROOT(value) (value)
#else
#define AT_ROOT(value) (rank == 0 ? (value) : NOWHERE)
#endif

/* The report of a child: its rank, and its arguments. */
struct report {
    int rank, size, arguments, app_number;
    char last[16];
};

static int child(MPI_Comm parent, int argc, char **argv)
{
    struct report report = { .arguments = argc };
    int *number, flag;
    MPI_Comm merged;

    MPI_Comm_rank(world, &report.rank);
    MPI_Comm_size(world, &report.size);
    MPI_Comm_get_attr(world, MPI_APPNUM, &number, &flag);
    report.app_number = flag ? *number : -1;
    snprintf(report.last, sizeof report.last, "%s", argc > 1 ? argv[argc - 1] : "none");
    MPI_Send(&report, sizeof report, MPI_BYTE, 0, 1, parent);
    MPI_Intercomm_merge(parent, 1, &merged);
    MPI_Barrier(merged);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

static void use(MPI_Comm children, const int *codes, int n)
{
    MPI_Comm merged;
    int size = -1;

    return_errors(children);
    for (int i = 0; i < n; i++)
        say("    %s", class_of(codes[i]));
    CALL(MPI_Comm_remote_size(children, &size));
    say("    remote size %d", size);
    for (int i = 0; i < size && rank == 0; i++) {
        struct report report;
        CALL(MPI_Recv(&report, sizeof report, MPI_BYTE, i, 1, children, MPI_STATUS_IGNORE));
        say("    rank %d of %d, %d arguments, the last is %s, program %d", report.rank,
            report.size, report.arguments, report.last, report.app_number);
    }
    CALL(MPI_Intercomm_merge(children, 0, &merged));
    MPI_Comm_size(merged, &size);
    say("    together %d", size);
    MPI_Barrier(merged);
    CALL(MPI_Comm_free(&merged));
}

/* All of them at the end: Open MPI 4.1 sometimes hangs when it starts processes while others end. */
static MPI_Comm families[3] = { MPI_COMM_NULL, MPI_COMM_NULL, MPI_COMM_NULL };

static void part(void)
{
    for (int i = 0; i < LENGTH(families); i++) {
        if (families[i] == MPI_COMM_NULL)
            continue;
        CALL(MPI_Comm_disconnect(&families[i]));
        say("    null: %d", families[i] == MPI_COMM_NULL);
    }
}

static void one_program(char *program)
{
    char *arguments[] = { "child", "one", NULL };
    int codes[2] = { -1, -1 };

    if (CALL(MPI_Comm_spawn(AT_ROOT(program), AT_ROOT(arguments), 2, MPI_INFO_NULL, 0, world,
                            &families[0], codes)) == MPI_SUCCESS)
        use(families[0], codes, 2);
    if (CALL(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, world, &families[1],
                            MPI_ERRCODES_IGNORE)) == MPI_SUCCESS)
        use(families[1], NULL, 0);
}

static void several_programs(char *program)
{
    char *programs[] = { program, program };
    char *first[] = { "child", "first", NULL }, *second[] = { "child", "of", "second", NULL };
    char **arguments[] = { first, second };
    int numbers[] = { 1, 2 }, codes[3] = { -1, -1, -1 };
    MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };

    if (CALL(MPI_Comm_spawn_multiple(2, AT_ROOT(programs), AT_ROOT(arguments),
                                     AT_ROOT(numbers), AT_ROOT(infos), 0, world,
                                     &families[2], codes)) == MPI_SUCCESS)
        use(families[2], codes, 3);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    MPI_Comm_rank(world, &rank);
    return_errors(world);
    CALL(MPI_Comm_get_parent(&parent));
    say("    null: %d", parent == MPI_COMM_NULL);

    one_program(argv[0]);
    several_programs(argv[0]);
    part();

    print_lines(world);
    MPI_Finalize();
    return 0;
}
