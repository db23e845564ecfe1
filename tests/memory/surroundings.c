/* Prints what a program can observe of its environment. Recording must not change any of it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
print_variables(void)
{
    long count = 0;
    while (environ[count] != NULL)
        count++;
    qsort(environ, count, sizeof(*environ), compare);
    for (long i = 0; i < count; i++)
        printf("variable %s\n", environ[i]);
}

static void
print_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int descriptor = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && descriptor != dirfd(folder))
            printf("descriptor %d\n", descriptor);
    }
    closedir(folder);
}

int
main(int argc, char **argv)
{
    char path[4096] = "";
    for (int i = 0; i < argc; i++)
        printf("argument %s\n", argv[i]);
    print_variables();
    print_descriptors();
    if (readlink("/proc/self/exe", path, sizeof(path) - 1) > 0)
        printf("executable %s\n", path);
    for (int which = 1; which < 32; which++) {
        struct sigaction action;
        if (sigaction(which, NULL, &action) == 0)
            printf("signal %d %s\n", which, action.sa_handler == SIG_DFL ? "default"
                       : action.sa_handler == SIG_IGN                    ? "ignored"
                                                                         : "handled");
    }
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int which = 1; which < 65; which++) {
        if (sigismember(&blocked, which))
            printf("blocked %d\n", which);
    }
    for (int which = 0; which < RLIM_NLIMITS; which++) {
        struct rlimit limit;
        if (getrlimit(which, &limit) == 0)
            printf("limit %d %lu %lu\n", which, limit.rlim_cur, limit.rlim_max);
    }
    void *heap = malloc(100);
    printf("heap %d\n", heap != NULL && malloc(1 << 20) != NULL);
    return argc + 40;
}
