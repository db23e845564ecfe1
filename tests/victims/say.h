/*
 * The output of a victim.
 *
 * Every line starts with "> ", to distinguish it from the output of launchers, and is written with
 * one write: lines of different ranks never mix, and none is lost when the process dies. A victim
 * prints only what is the same in every run.
 */
#ifndef SAY_H
#define SAY_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((unused, format(printf, 1, 2)))
static void say(const char *format, ...)
{
    int saved = errno;
    char line[2048] = "> ";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + 2, sizeof line - 3, format, arguments);
    va_end(arguments);
    size_t length = strlen(line);
    line[length++] = '\n';
    if (write(STDOUT_FILENO, line, length) < 0)
        _exit(99);
    errno = saved;
}

#ifdef MPI_VERSION
/* Prints the text of an error code without addresses, which differ from run to run. */
__attribute__((unused))
static void say_error(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "", plain[sizeof text];
    int length = 0, class = 0, n = 0;
    if (code == MPI_SUCCESS) {
        say("%s: success", what);
        return;
    }
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    for (char *c = text; *c != '\0'; c++) {
        if (strncmp(c, "0x", 2) == 0) {
            c += 1 + strspn(c + 2, "0123456789abcdef");
            plain[n++] = '#';
        } else if (strncmp(c, "(nil)", 5) == 0) {
            c += 4;
            plain[n++] = '#';
        } else {
            plain[n++] = *c == '\n' ? '|' : *c;
        }
    }
    plain[n] = '\0';
    say("%s: class %d, %s", what, class, plain);
}
#endif

#endif
