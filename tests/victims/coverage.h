/* Common code of the coverage victims.
 *
 * Together they call every function of MPI, and print the outcome of every call: a victim must
 * print the same with and without the agent, line by line. So a line has nothing that changes
 * from run to run, such as an address, a time, a port or a process id.
 *
 * Lines are collected until the end, when rank 0 prints those of all ranks, in order: launchers
 * mix the output of several ranks, sometimes within a line. COVERAGE_LOUD=1 also writes each line to
 * stderr at once, to see how far a victim got. */
#ifndef COVERAGE_H
#define COVERAGE_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The features of an MPI. Open MPI 5.0 calls itself version 3.1 but has most of MPI 4. */
#if MPI_VERSION >= 4
#define HAVE_MPI_4 1
#elif defined(OPEN_MPI)
#define HAVE_MPI_4 (OMPI_MAJOR_VERSION >= 5)
#else
#define HAVE_MPI_4 0
#endif
#define HAVE_MPI_4_1 (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1))
#define HAVE_LARGE_COUNTS (MPI_VERSION >= 4)
#define HAVE_TOOL_EVENTS (MPI_VERSION >= 4)
#ifdef OPEN_MPI
#define ON_OPEN_MPI 1
#else
#define ON_OPEN_MPI 0
#endif

/* How often a persistent collective operation is started. MPICH 4.0 frees its scratch buffers
 * when the first run ends, and fails, hangs or crashes in the next. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
#define STARTS 1
#else
#define STARTS 2
#endif

/* Constants such as MPI_STATUSES_IGNORE are addresses at which there cannot be an array. */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"
/* Deprecated functions are called on purpose. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* An address that must not be dereferenced: for arguments that are not significant. Volatile, so
 * that the compiler does not complain. */
__attribute__((unused)) static void *volatile NOWHERE = (void *)64;

static FILE *lines;
static char *lines_text;
static size_t lines_length;

/* One line. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list arguments;
    if (!lines)
        lines = open_memstream(&lines_text, &lines_length);
    size_t start = (fflush(lines), lines_length);
    va_start(arguments, format);
    vfprintf(lines, format, arguments);
    va_end(arguments);
    fputc('\n', lines);
    fflush(lines);
    if (getenv("COVERAGE_LOUD"))
        fprintf(stderr, "[%d] %s", (int)getpid(), lines_text + start);
}

/* Codes differ between MPIs and runs, classes have names. */
static const char *class_of(int code)
{
    static const struct { int value; const char *name; } names[] = {
#define CLASS(name) { name, #name }
        CLASS(MPI_SUCCESS), CLASS(MPI_ERR_BUFFER), CLASS(MPI_ERR_COUNT), CLASS(MPI_ERR_TYPE),
        CLASS(MPI_ERR_TAG), CLASS(MPI_ERR_COMM), CLASS(MPI_ERR_RANK), CLASS(MPI_ERR_REQUEST),
        CLASS(MPI_ERR_ROOT), CLASS(MPI_ERR_GROUP), CLASS(MPI_ERR_OP), CLASS(MPI_ERR_TOPOLOGY),
        CLASS(MPI_ERR_DIMS), CLASS(MPI_ERR_ARG), CLASS(MPI_ERR_UNKNOWN),
        CLASS(MPI_ERR_TRUNCATE), CLASS(MPI_ERR_OTHER), CLASS(MPI_ERR_INTERN),
        CLASS(MPI_ERR_PENDING), CLASS(MPI_ERR_IN_STATUS), CLASS(MPI_ERR_ACCESS),
        CLASS(MPI_ERR_AMODE), CLASS(MPI_ERR_BAD_FILE), CLASS(MPI_ERR_CONVERSION),
        CLASS(MPI_ERR_DUP_DATAREP), CLASS(MPI_ERR_FILE_EXISTS), CLASS(MPI_ERR_FILE_IN_USE),
        CLASS(MPI_ERR_FILE), CLASS(MPI_ERR_IO), CLASS(MPI_ERR_NO_SPACE),
        CLASS(MPI_ERR_NO_SUCH_FILE), CLASS(MPI_ERR_READ_ONLY),
        CLASS(MPI_ERR_UNSUPPORTED_DATAREP), CLASS(MPI_ERR_UNSUPPORTED_OPERATION),
        CLASS(MPI_ERR_QUOTA), CLASS(MPI_ERR_NOT_SAME), CLASS(MPI_ERR_NO_MEM),
        CLASS(MPI_ERR_BASE), CLASS(MPI_ERR_KEYVAL), CLASS(MPI_ERR_SPAWN), CLASS(MPI_ERR_PORT),
        CLASS(MPI_ERR_SERVICE), CLASS(MPI_ERR_NAME), CLASS(MPI_ERR_INFO_KEY),
        CLASS(MPI_ERR_INFO_VALUE), CLASS(MPI_ERR_INFO_NOKEY), CLASS(MPI_ERR_INFO),
        CLASS(MPI_ERR_WIN), CLASS(MPI_ERR_SIZE), CLASS(MPI_ERR_DISP),
        CLASS(MPI_ERR_LOCKTYPE), CLASS(MPI_ERR_ASSERT), CLASS(MPI_ERR_RMA_CONFLICT),
        CLASS(MPI_ERR_RMA_SYNC), CLASS(MPI_ERR_RMA_RANGE), CLASS(MPI_ERR_RMA_ATTACH),
        CLASS(MPI_ERR_RMA_SHARED), CLASS(MPI_ERR_RMA_FLAVOR), CLASS(MPI_T_ERR_MEMORY),
        CLASS(MPI_T_ERR_NOT_INITIALIZED), CLASS(MPI_T_ERR_CANNOT_INIT),
        CLASS(MPI_T_ERR_INVALID_INDEX), CLASS(MPI_T_ERR_INVALID_ITEM),
        CLASS(MPI_T_ERR_INVALID_HANDLE), CLASS(MPI_T_ERR_OUT_OF_HANDLES),
        CLASS(MPI_T_ERR_OUT_OF_SESSIONS), CLASS(MPI_T_ERR_INVALID_SESSION),
        CLASS(MPI_T_ERR_CVAR_SET_NOT_NOW), CLASS(MPI_T_ERR_CVAR_SET_NEVER),
        CLASS(MPI_T_ERR_PVAR_NO_STARTSTOP), CLASS(MPI_T_ERR_PVAR_NO_WRITE),
        CLASS(MPI_T_ERR_PVAR_NO_ATOMIC), CLASS(MPI_T_ERR_INVALID_NAME),
        CLASS(MPI_T_ERR_INVALID),
#if MPI_VERSION >= 4
        CLASS(MPI_ERR_PROC_ABORTED), CLASS(MPI_ERR_SESSION), CLASS(MPI_ERR_VALUE_TOO_LARGE),
        CLASS(MPI_T_ERR_NOT_SUPPORTED),
#endif
#if MPI_VERSION >= 5
        CLASS(MPI_ERR_ABI),
#endif
#undef CLASS
    };
    int class = code;
    /* The codes of the tools interface are classes, and may be returned when MPI is not initialised. */
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < LENGTH(names); i++)
            if (names[i].value == class)
                return names[i].name;
        MPI_Error_class(code, &class);
    }
    return "a class of its own";
}

/* Prints that a function was called, and its result. */
static int called(const char *text, int code)
{
    int name = (int)strcspn(text, "(");
    if (code == MPI_SUCCESS)
        say("%.*s", name, text);
    else
        say("%.*s -> %s", name, text, class_of(code));
    return code;
}

/* Only if it failed: for calls repeated until something has happened. */
static inline int called_again(const char *text, int code)
{
    return code == MPI_SUCCESS ? code : called(text, code);
}

/* Two steps, so that the text is the name that F(…) expands to. */
#define TEXT(...) #__VA_ARGS__
#define CALL(...) called(TEXT(__VA_ARGS__), (__VA_ARGS__))
#define POLL(...) called_again(TEXT(__VA_ARGS__), (__VA_ARGS__))

static inline void show_ints(const char *what, const int *values, int n)
{
    char text[512] = "";
    int used = 0;
    for (int i = 0; i < n && used < LENGTH(text) - 12; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %d", values[i]);
    say("    %s:%s", what, text);
}

static inline void show_longs(const char *what, const void *values, int n)
{
    char text[512] = "";
    int used = 0;
    for (int i = 0; i < n && used < LENGTH(text) - 24; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %lld",
                         (long long)((const int64_t *)values)[i]);
    say("    %s:%s", what, text);
}

static inline void show_bytes(const char *what, const void *bytes, int n)
{
    char text[512] = "";
    int used = 0;
    for (int i = 0; i < n && used < LENGTH(text) - 4; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %02x",
                         ((const unsigned char *)bytes)[i]);
    say("    %s:%s", what, text);
}

/* Counts may be MPI_UNDEFINED, a different number in each MPI. */
static inline const char *count_text(long long n)
{
    static char text[4][32];
    static int turn;
    turn = (turn + 1) % 4;
    if (n == MPI_UNDEFINED)
        return "undefined";
    snprintf(text[turn], sizeof text[turn], "%lld", n);
    return text[turn];
}

static inline const char *rank_text(int rank)
{
    static char text[8][16];
    static int turn;
    turn = (turn + 1) % 8;
    if (rank == MPI_PROC_NULL)
        return "no process";
    if (rank == MPI_ANY_SOURCE)
        return "any source";
    if (rank == MPI_UNDEFINED)
        return "undefined";
    snprintf(text[turn], sizeof text[turn], "%d", rank);
    return text[turn];
}

/* What a receive matched. */
static inline void show_status(const MPI_Status *status, MPI_Datatype datatype)
{
    int count = -1, cancelled = -1;
    MPI_Get_count(status, datatype, &count);
    MPI_Test_cancelled(status, &cancelled);
    if (cancelled)
        say("    cancelled");
    else
        say("    from %s, tag %s, %s elements", rank_text(status->MPI_SOURCE),
            status->MPI_TAG == MPI_ANY_TAG ? "any" : count_text(status->MPI_TAG),
            count_text(count));
}

/* Errors are returned, and do not end the program. */
static inline void return_errors(MPI_Comm comm)
{
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

/* Rank 0 prints the lines of all ranks. */
static inline void print_lines(MPI_Comm comm)
{
    const int tag = 4711;
    int rank, size;
    say("end");
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (rank != 0) {
        MPI_Send(lines_text, (int)lines_length + 1, MPI_CHAR, 0, tag, comm);
        return;
    }
    for (int from = 0; from < size; from++) {
        char *text = lines_text;
        if (from != 0) {
            MPI_Status status;
            int length;
            MPI_Probe(from, tag, comm, &status);
            MPI_Get_count(&status, MPI_CHAR, &length);
            text = malloc((size_t)length);
            MPI_Recv(text, length, MPI_CHAR, from, tag, comm, MPI_STATUS_IGNORE);
        }
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            printf("%d: %s\n", from, line);
    }
    fflush(stdout);
}

#endif
