/* Hides DynamoRIO's variables from the program. They are where the kernel put them, on the first
 * thread's stack: arguments, variables and the auxiliary vector in a row, each ended by a 0.
 * DynamoRIO has read them already, and gives them to the programs that this one becomes. */
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
    /* The auxiliary vector follows without a gap: pairs, up to one of type 0. */
    bool more = true;
    while (more) {
        more = from[0] != 0;
        *to++ = *from++;
        *to++ = *from++;
    }
}
