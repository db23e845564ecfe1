/* Linked lists: one in the order of allocation, one shuffled; nodes are freed and made again. */
#include <stdio.h>
#include <stdlib.h>

typedef struct node {
    struct node *next;
    long value;
} node_t;

int
main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 1000, sum = 0;
    node_t *list = NULL, **nodes = malloc(n * sizeof(*nodes));
    for (long i = 0; i < n; i++) {
        nodes[i] = malloc(sizeof(node_t));
        *nodes[i] = (node_t){ list, i };
        list = nodes[i];
    }
    for (int turn = 0; turn < 5; turn++) {
        for (node_t *node = list; node != NULL; node = node->next)
            sum += node->value;
    }
    unsigned random = 3;
    for (long i = n - 1; i > 0; i--) {
        long j = (random = random * 1664525 + 1013904223) % (i + 1);
        node_t *swap = nodes[i];
        nodes[i] = nodes[j];
        nodes[j] = swap;
    }
    for (long i = 0; i < n; i++)
        nodes[i]->next = i + 1 < n ? nodes[i + 1] : NULL;
    for (int turn = 0; turn < 5; turn++) {
        for (node_t *node = nodes[0]; node != NULL; node = node->next)
            sum += node->value;
    }
    for (long i = 0; i < n; i += 2) {
        free(nodes[i]);
        nodes[i] = malloc(48);
        nodes[i]->value = i;
        sum += nodes[i]->value;
    }
    printf("%ld\n", sum);
    return 0;
}
