/*
 * Very large arguments: a hundred thousand requests in one call, datatypes of as many blocks, strings
 * of a megabyte, and more text in an info object than MPI accepts.
 */
#include <mpi.h>
#include <stdlib.h>
#include "say.h"

#ifndef MANY
#define MANY 100000
#endif
enum { LONG = 1 << 20 };

int main(int argc, char **argv)
{
    static int data[MANY], lengths[MANY], displacements[MANY], ranks[MANY], results[MANY];
    static MPI_Aint addresses[MANY];
    static MPI_Datatype types[MANY];
    static MPI_Request requests[2 * MANY];
    int rank, size, count, flag = -1, length, integers, bytes, combiner, class = 0, wrong = 0;
    char *text = malloc(LONG + 1), name[MPI_MAX_OBJECT_NAME + 1] = "";
    MPI_Datatype type;
    MPI_Group group;
    MPI_Info info;
    MPI_Status *statuses = calloc(2 * MANY, sizeof *statuses);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

    for (int way = 0; way < 2; way++) {
        memset(data, -1, sizeof data);
        for (int i = 0; i < MANY; i++) {
            results[i] = i;
            MPI_Irecv(&data[i], 1, MPI_INT, way ? MPI_ANY_SOURCE : 0, i % 1000, MPI_COMM_SELF, &requests[2 * i]);
            MPI_Isend(&results[i], 1, MPI_INT, 0, i % 1000, MPI_COMM_SELF, &requests[2 * i + 1]);
        }
        MPI_Waitall(2 * MANY, requests, way ? MPI_STATUSES_IGNORE : statuses);
        for (int i = 0; i < MANY; i++)
            wrong += data[i] != i || requests[2 * i] != MPI_REQUEST_NULL || (!way && statuses[2 * i].MPI_TAG != i % 1000);
    }
    MPI_Testall(2 * MANY, requests, &flag, MPI_STATUSES_IGNORE);
    say("rank %d: requests, %d wrong, flag %d", rank, wrong, flag);

    for (int i = 0; i < MANY; i++) {
        lengths[i] = 1 + i % 3;
        displacements[i] = 4 * i;
        addresses[i] = 16 * i;
        types[i] = i % 2 ? MPI_INT : MPI_FLOAT;
        ranks[i] = 0;
    }
    MPI_Type_indexed(MANY, lengths, displacements, MPI_INT, &type);
    MPI_Type_size(type, &bytes);
    MPI_Type_get_envelope(type, &integers, &count, &length, &combiner);
    MPI_Type_free(&type);
    say("rank %d: indexed, %d bytes, %d integers", rank, bytes, integers);
    MPI_Type_create_struct(MANY, lengths, addresses, types, &type);
    MPI_Type_size(type, &bytes);
    MPI_Type_free(&type);
    say("rank %d: struct, %d bytes", rank, bytes);

    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_translate_ranks(group, MANY, ranks, group, results);
    for (int i = wrong = 0; i < MANY; i++)
        wrong += results[i] != 0;
    MPI_Group_free(&group);
    say("rank %d: ranks, %d wrong", rank, wrong);

    memset(text, 'x', LONG);
    text[LONG] = '\0';
    MPI_Info_create(&info);
    MPI_Error_class(MPI_Info_set(info, "key", text), &class);
    MPI_Info_get_valuelen(info, "key", &length, &flag);
    say("rank %d: info value, class %d, flag %d", rank, class, flag);
    MPI_Error_class(MPI_Info_set(info, text, "value"), &class);
    say("rank %d: info key, class %d", rank, class);
    MPI_Info_free(&info);
#ifndef OPEN_MPI /* 5.0 dies of it in MPI_Finalize */
    /* Longer than a name may be: truncated or refused. */
    MPI_Error_class(MPI_Comm_set_name(MPI_COMM_WORLD, text), &class);
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    say("rank %d: name, class %d, %d of %zu characters", rank, class, length, strlen(name));
#endif
    MPI_Finalize();
    free(text);
    free(statuses);
    return 0;
}
