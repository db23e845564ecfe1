/* Hides DynamoRIO's variables from the program. The kernel has put them on the initial thread's
 * stack: arguments, variables and the auxiliary vector, each terminated by a 0. DynamoRIO has read
 * the variables already, and passes them on when the program calls exec. */
#include "client.h"

#define PREFIX "DYNAMORIO_"

void
environment_clean(uint64_t stack)
{
    uint64_t *words = (uint64_t *)stack;
    uint64_t count;
    size_t read;
    if (stack == 0 || !dr_safe_read(words, sizeof(count), &count, &read) || count > 1 << 20)
        return;
    uint64_t *from = words + 1 + count + 1; /* the first variable */
    uint64_t *to = from;
    while (*from != 0) {
        if (memcmp((const char *)*from, PREFIX, sizeof(PREFIX) - 1) != 0)
            *to++ = *from;
        from++;
    }
    *to++ = *from++;
    if (to == from)
        return;
    /* The auxiliary vector follows immediately: pairs, up to one of type 0. */
    bool more = true;
    while (more) {
        more = from[0] != 0;
        *to++ = *from++;
        *to++ = *from++;
    }
}
