/*
 * The calls of a victim, in the format of `refrain show --full`.
 *
 *     MPI_Send(data, 3, MPI_INT, 1, 7, MPI_COMM_WORLD);
 *     CALLED("MPI_Send(buf=%p, count=3, datatype=MPI_INT, dest=1, tag=7, comm=MPI_COMM_WORLD)", data);
 *
 * A call succeeded unless the text says otherwise: "MPI_Send(…) = ERR_RANK". `_` stands for an
 * unknown value, such as the fields of a send's status. A call during which callbacks make other
 * calls is announced first, so that it precedes them:
 *
 *     int call = CALLING();
 *     MPI_Reduce(…);
 *     CALLED_AT(call, "MPI_Reduce(…)");
 *
 * The last statement of a victim is expect_print(rank). It writes a line for each call to the
 * file that EXPECT_FILE names, or to stdout: `expect RANK.THREAD DEPTH TEXT`, in the order of
 * each thread, each line in one write, so that lines of different ranks never mix. (Launchers may
 * split and mix stdout nevertheless.)
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether MPI has the communication functions of MPI 4.0. Open MPI 5 has them, but calls itself MPI 3.1. */
#if defined(OMPI_MAJOR_VERSION)
#define HAVE_MPI_4 (OMPI_MAJOR_VERSION >= 5)
#elif defined(MPI_VERSION)
#define HAVE_MPI_4 (MPI_VERSION >= 4)
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { EXPECT_THREADS = 16 };

struct expect_call {
    int depth;
    char *text;
};

/* The calls of each thread. */
static struct {
    struct expect_call *calls;
    int length, room;
} expect_of[EXPECT_THREADS];

/* Which thread this is; threads number themselves in the order of their first MPI calls. */
__attribute__((unused)) static __thread int expect_thread;
/* How many announced calls have not returned. */
__attribute__((unused)) static __thread int expect_depth;

__attribute__((unused))
static int expect_add(void)
{
    int n = expect_of[expect_thread].length++;
    if (n == expect_of[expect_thread].room) {
        int room = expect_of[expect_thread].room = 2 * n + 64;
        expect_of[expect_thread].calls = (struct expect_call *)
            realloc(expect_of[expect_thread].calls, room * sizeof(struct expect_call));
    }
    expect_of[expect_thread].calls[n].depth = expect_depth;
    expect_of[expect_thread].calls[n].text = NULL;
    return n;
}

__attribute__((unused, format(printf, 2, 3)))
static void expect_called(int call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = (char *)malloc(length + 1);
    va_start(arguments, format);
    vsnprintf(text, length + 1, format, arguments);
    va_end(arguments);
    expect_depth = expect_of[expect_thread].calls[call].depth;
    expect_of[expect_thread].calls[call].text = text;
}

/* Announces a call; returns its index. */
#define CALLING() expect_enter()
/* Gives the text of an announced call. */
#define CALLED_AT(call, ...) expect_called(call, __VA_ARGS__)
/* Adds a call. */
#define CALLED(...) expect_called(expect_add(), __VA_ARGS__)

__attribute__((unused))
static int expect_enter(void)
{
    int call = expect_add();
    expect_depth++;
    return call;
}

/* A buffer for a text that is used soon: the last eight remain valid. */
__attribute__((unused))
static char *expect_room(size_t bytes)
{
    static __thread char *rooms[8];
    static __thread int next;
    char **room = &rooms[next++ % 8];
    free(*room);
    return *room = (char *)malloc(bytes);
}

/* Ints as a list, "[1, 2, 3]". */
__attribute__((unused))
static const char *expect_ints(const int *all, int n)
{
    char *text = expect_room(13 * (size_t)n + 3), *at = text;
    at += sprintf(at, "[");
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s%d", i > 0 ? ", " : "", all[i]);
    sprintf(at, "]");
    return text;
}

/* A string as it is shown, with its quotes. */
__attribute__((unused))
static const char *expect_string(const char *string)
{
    static const char specials[] = "\"\\\n\t\r";
    char *text = expect_room(2 * strlen(string) + 3), *at = text;
    *at++ = '"';
    for (; *string != '\0'; string++) {
        const char *special = strchr(specials, *string);
        if (special != NULL) {
            *at++ = '\\';
            *at++ = "\"\\ntr"[special - specials];
        } else {
            *at++ = *string;
        }
    }
    *at++ = '"';
    *at = '\0';
    return text;
}

/* Writes all calls. */
__attribute__((unused))
static void expect_print(int rank)
{
    const char *file = getenv("EXPECT_FILE");
    int out = file == NULL ? STDOUT_FILENO : open(file, O_WRONLY | O_CREAT | O_APPEND, 0666);
    for (int thread = 0; thread < EXPECT_THREADS; thread++)
        for (int i = 0; i < expect_of[thread].length; i++) {
            const struct expect_call *call = &expect_of[thread].calls[i];
            const char *text = call->text == NULL ? "(announced, but never stated)" : call->text;
            const char *result = strstr(text, ") = ") == NULL ? " = SUCCESS" : "";
            size_t room = strlen(text) + 64;
            char *line = expect_room(room);
            int length = snprintf(line, room, "expect %d.%d %d %s%s\n", rank, thread,
                                  call->depth, text, result);
            if (write(out, line, length) != length)
                abort();
        }
}

#ifdef __cplusplus
}
#endif

#endif
