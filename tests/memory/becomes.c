/* Executes another program with the function that the argument names; or exec fails, and the program is
 * killed. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile long cells[64];

int
main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    char *words[] = { "true", NULL }, *missing[] = { "missing", NULL };
    for (long i = 0; i < 1000; i++)
        cells[i % 64] += i;
    if (strcmp(way, "execv") == 0)
        execv("/bin/true", words);
    if (strcmp(way, "execvp") == 0)
        execvp("true", words);
    if (strcmp(way, "execl") == 0)
        execl("/bin/true", "true", "a", "b", "c", "d", "e", (char *)NULL);
    if (strcmp(way, "execlp") == 0)
        execlp("true", "true", (char *)NULL);
    execve("/no/such/program", missing, environ);
    raise(SIGKILL);
    return 1;
}
