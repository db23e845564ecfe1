/* The C library does all of its work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
main(void)
{
    char *text = malloc(100000);
    memset(text, 'x', 99999);
    text[99999] = '\0';
    printf("%zu\n", strlen(text));
    return 0;
}
