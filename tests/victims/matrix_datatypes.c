/*
 * Datatypes: every constructor, contents, extents, names, attributes, packing.
 */
#include <mpi.h>
#include <stddef.h>
#include "expect.h"

static void commit_and_free(MPI_Datatype *type)
{
    MPI_Type_commit(type);
    CALLED("MPI_Type_commit(datatype=type1)");
    MPI_Type_free(type);
    CALLED("MPI_Type_free(datatype=type1)");
}

static void simple(void)
{
    MPI_Datatype type;
    int places[3] = { 0, 4, 9 }, lengths[3] = { 1, 0, 2 };
    MPI_Aint offsets[3] = { -8, 0, 16 };

    MPI_Type_contiguous(5, MPI_DOUBLE, &type);
    CALLED("MPI_Type_contiguous(count=5, oldtype=MPI_DOUBLE, newtype=type1)");
    commit_and_free(&type);
    MPI_Type_vector(3, 2, -4, MPI_CHAR, &type);
    CALLED("MPI_Type_vector(count=3, blocklength=2, stride=-4, oldtype=MPI_CHAR, newtype=type1)");
    commit_and_free(&type);
    MPI_Type_create_hvector(3, 2, (MPI_Aint)1 << 40, MPI_SHORT, &type);
    CALLED("MPI_Type_create_hvector(count=3, blocklength=2, stride=1099511627776, oldtype=MPI_SHORT, newtype=type1)");
    commit_and_free(&type);
    MPI_Type_indexed(3, lengths, places, MPI_INT, &type);
    CALLED("MPI_Type_indexed(count=3, array_of_blocklengths=[1, 0, 2], array_of_displacements=[0, 4, 9], oldtype=MPI_INT, newtype=type1)");
    commit_and_free(&type);
    MPI_Type_create_hindexed(3, lengths, offsets, MPI_INT, &type);
    CALLED("MPI_Type_create_hindexed(count=3, array_of_blocklengths=[1, 0, 2], array_of_displacements=[-8, 0, 16], oldtype=MPI_INT, newtype=type1)");
    commit_and_free(&type);
    MPI_Type_create_indexed_block(3, 2, places, MPI_LONG_LONG, &type);
    CALLED("MPI_Type_create_indexed_block(count=3, blocklength=2, array_of_displacements=[0, 4, 9], oldtype=MPI_LONG_LONG_INT, newtype=type1)");
    commit_and_free(&type);
    MPI_Type_create_hindexed_block(3, 2, offsets, MPI_UINT8_T, &type);
    CALLED("MPI_Type_create_hindexed_block(count=3, blocklength=2, array_of_displacements=[-8, 0, 16], oldtype=MPI_UINT8_T, newtype=type1)");
    commit_and_free(&type);
    MPI_Type_create_resized(MPI_FLOAT, -4, 64, &type);
    CALLED("MPI_Type_create_resized(oldtype=MPI_FLOAT, lb=-4, extent=64, newtype=type1)");
    commit_and_free(&type);
    MPI_Type_contiguous(0, MPI_BYTE, &type);
    CALLED("MPI_Type_contiguous(count=0, oldtype=MPI_BYTE, newtype=type1)");
    commit_and_free(&type);
}

struct particle {
    char kind;
    double at[3];
    int links;
};

static void structs(void)
{
    MPI_Datatype particle, inner, contents[3], got[3];
    int lengths[3] = { 1, 1, 1 }, n, m, k, combiner, integers[8], size;
    MPI_Aint offsets[3] = { offsetof(struct particle, kind), offsetof(struct particle, at), offsetof(struct particle, links) };
    MPI_Aint addresses[8], lb, extent;
    MPI_Count large;
    char name[MPI_MAX_OBJECT_NAME];

    MPI_Type_contiguous(3, MPI_DOUBLE, &inner);
    CALLED("MPI_Type_contiguous(count=3, oldtype=MPI_DOUBLE, newtype=type1)");
    MPI_Type_commit(&inner);
    CALLED("MPI_Type_commit(datatype=type1)");
    MPI_Datatype types[3] = { MPI_CHAR, inner, MPI_INT };
    MPI_Type_create_struct(3, lengths, offsets, types, &particle);
    CALLED("MPI_Type_create_struct(count=3, array_of_blocklengths=[1, 1, 1], array_of_displacements=[0, 8, 32], array_of_types=[MPI_CHAR, type1, MPI_INT], newtype=type2)");
    MPI_Type_commit(&particle);
    CALLED("MPI_Type_commit(datatype=type2)");
    MPI_Type_set_name(particle, "particle");
    CALLED("MPI_Type_set_name(datatype=type2, type_name=\"particle\")");
    MPI_Type_get_name(particle, name, &n);
    CALLED("MPI_Type_get_name(datatype=type2, type_name=\"particle\", resultlen=8)");
    MPI_Type_get_name(MPI_INT, name, &n);
    CALLED("MPI_Type_get_name(datatype=MPI_INT, type_name=\"MPI_INT\", resultlen=7)");
    MPI_Type_get_envelope(particle, &n, &m, &k, &combiner);
    CALLED("MPI_Type_get_envelope(datatype=type2, num_integers=4, num_addresses=3, num_datatypes=3, combiner=MPI_COMBINER_STRUCT)");
    MPI_Type_get_contents(particle, n, m, k, integers, addresses, contents);
    /* Handles that the program already has, or copies. */
    const char *again = contents[1] == inner ? "type1" : "type3";
    CALLED("MPI_Type_get_contents(datatype=type2, max_integers=4, max_addresses=3, max_datatypes=3, array_of_integers=[3, 1, 1, 1], array_of_addresses=[0, 8, 32], array_of_datatypes=[MPI_CHAR, %s, MPI_INT])", again);
    /* Arrays larger than needed (but Open MPI reads every datatype). */
    MPI_Type_get_contents(inner, 8, 8, 1, integers, addresses, got);
    CALLED("MPI_Type_get_contents(datatype=type1, max_integers=8, max_addresses=8, max_datatypes=1, array_of_integers=[3], array_of_addresses=[], array_of_datatypes=[MPI_DOUBLE])");
    MPI_Type_get_envelope(MPI_INT, &n, &m, &k, &combiner);
    CALLED("MPI_Type_get_envelope(datatype=MPI_INT, num_integers=0, num_addresses=0, num_datatypes=0, combiner=MPI_COMBINER_NAMED)");
    MPI_Type_size(particle, &size);
    CALLED("MPI_Type_size(datatype=type2, size=29)");
    MPI_Type_size_x(particle, &large);
    CALLED("MPI_Type_size_x(datatype=type2, size=29)");
    MPI_Type_get_extent(particle, &lb, &extent);
    CALLED("MPI_Type_get_extent(datatype=type2, lb=0, extent=40)");
    MPI_Type_get_true_extent(particle, &lb, &extent);
    CALLED("MPI_Type_get_true_extent(datatype=type2, true_lb=0, true_extent=36)");
    /* Whether or not they are the same handle, both must be freed. */
    MPI_Type_free(&inner);
    CALLED("MPI_Type_free(datatype=type1)");
    MPI_Type_size(contents[1], &size);
    CALLED("MPI_Type_size(datatype=%s, size=24)", again);
    MPI_Type_free(&contents[1]);
    CALLED("MPI_Type_free(datatype=%s)", again);
    MPI_Type_dup(particle, &got[2]);
    CALLED("MPI_Type_dup(oldtype=type2, newtype=type1)");
    MPI_Type_get_envelope(got[2], &n, &m, &k, &combiner);
    CALLED("MPI_Type_get_envelope(datatype=type1, num_integers=0, num_addresses=0, num_datatypes=1, combiner=MPI_COMBINER_DUP)");
    MPI_Type_free(&got[2]);
    CALLED("MPI_Type_free(datatype=type1)");
    MPI_Type_free(&particle);
    CALLED("MPI_Type_free(datatype=type2)");
}

static void arrays(void)
{
    MPI_Datatype type;
    int sizes[2] = { 8, 6 }, parts[2] = { 4, 3 }, starts[2] = { 2, 0 }, n, m, k, combiner;
    int spread[2] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC }, by[2] = { MPI_DISTRIBUTE_DFLT_DARG, 2 }, grid[2] = { 2, 2 };
    int integers[16];

    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    CALLED("MPI_Type_create_subarray(ndims=2, array_of_sizes=[8, 6], array_of_subsizes=[4, 3], array_of_starts=[2, 0], order=MPI_ORDER_C, oldtype=MPI_INT, newtype=type1)");
    MPI_Type_get_envelope(type, &n, &m, &k, &combiner);
    CALLED("MPI_Type_get_envelope(datatype=type1, num_integers=8, num_addresses=0, num_datatypes=1, combiner=MPI_COMBINER_SUBARRAY)");
    MPI_Datatype got[1];
    MPI_Type_get_contents(type, 8, 0, 1, integers, NULL, got);
    CALLED("MPI_Type_get_contents(datatype=type1, max_integers=8, max_addresses=0, max_datatypes=1, array_of_integers=[2, 8, 6, 4, 3, 2, 0, %d], array_of_addresses=NULL, array_of_datatypes=[MPI_INT])", MPI_ORDER_C);
    MPI_Type_free(&type);
    CALLED("MPI_Type_free(datatype=type1)");
    MPI_Type_create_darray(4, 3, 2, sizes, spread, by, grid, MPI_ORDER_FORTRAN, MPI_FLOAT, &type);
    CALLED("MPI_Type_create_darray(size=4, rank=3, ndims=2, array_of_gsizes=[8, 6], array_of_distribs=[MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC], array_of_dargs=[MPI_DISTRIBUTE_DFLT_DARG, 2], array_of_psizes=[2, 2], order=MPI_ORDER_FORTRAN, oldtype=MPI_FLOAT, newtype=type1)");
    MPI_Type_get_envelope(type, &n, &m, &k, &combiner);
    CALLED("MPI_Type_get_envelope(datatype=type1, num_integers=12, num_addresses=0, num_datatypes=1, combiner=MPI_COMBINER_DARRAY)");
    MPI_Type_free(&type);
    CALLED("MPI_Type_free(datatype=type1)");
}

/* Arrays longer than any preallocated buffer. */
static void long_arrays(void)
{
    enum { LONG = 60000 };
    static int places[LONG], lengths[LONG];
    MPI_Datatype type;

    for (int i = 0; i < LONG; i++) {
        places[i] = i * i % 1000003 - 500000;
        lengths[i] = i % 3;
    }
    for (int i = 0; i < 3; i++) {
        MPI_Type_indexed(LONG - i, lengths, places, MPI_CHAR, &type);
        CALLED("MPI_Type_indexed(count=%d, array_of_blocklengths=%s, array_of_displacements=%s, oldtype=MPI_CHAR, newtype=type1)",
               LONG - i, expect_ints(lengths, LONG - i), expect_ints(places, LONG - i));
        MPI_Type_free(&type);
        CALLED("MPI_Type_free(datatype=type1)");
    }
}

static void packing(void)
{
    int data[4] = { 1, 2, 3, 4 }, got[4], position = 0, size;
    MPI_Aint place = 0, bytes;
    char packed[256];

    MPI_Pack_size(4, MPI_INT, MPI_COMM_WORLD, &size);
    CALLED("MPI_Pack_size(incount=4, datatype=MPI_INT, comm=MPI_COMM_WORLD, size=%d)", size);
    MPI_Pack(data, 3, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD);
    CALLED("MPI_Pack(inbuf=%p, incount=3, datatype=MPI_INT, outbuf=%p, outsize=256, position=0→12, comm=MPI_COMM_WORLD)", (void *)data, (void *)packed);
    position = 4;
    MPI_Unpack(packed, sizeof packed, &position, got, 1, MPI_INT, MPI_COMM_WORLD);
    CALLED("MPI_Unpack(inbuf=%p, insize=256, position=4→8, outbuf=%p, outcount=1, datatype=MPI_INT, comm=MPI_COMM_WORLD)", (void *)packed, (void *)got);
    MPI_Pack_external_size("external32", 4, MPI_INT, &bytes);
    CALLED("MPI_Pack_external_size(datarep=\"external32\", incount=4, datatype=MPI_INT, size=16)");
    MPI_Pack_external("external32", data, 4, MPI_INT, packed, sizeof packed, &place);
    CALLED("MPI_Pack_external(datarep=\"external32\", inbuf=%p, incount=4, datatype=MPI_INT, outbuf=%p, outsize=256, position=0→16)", (void *)data, (void *)packed);
    place = 0;
    MPI_Unpack_external("external32", packed, sizeof packed, &place, got, 4, MPI_INT);
    CALLED("MPI_Unpack_external(datarep=\"external32\", inbuf=%p, insize=256, position=0→16, outbuf=%p, outcount=4, datatype=MPI_INT)", (void *)packed, (void *)got);
}

static void attributes(void)
{
    static int state, value;
    int key, flag, *got;

    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &key, &state);
    CALLED("MPI_Type_create_keyval(type_copy_attr_fn=MPI_TYPE_DUP_FN, type_delete_attr_fn=MPI_TYPE_NULL_DELETE_FN, type_keyval=%d, extra_state=%p)", key, (void *)&state);
    MPI_Type_set_attr(MPI_INT, key, &value);
    CALLED("MPI_Type_set_attr(datatype=MPI_INT, type_keyval=%d, attribute_val=%p)", key, (void *)&value);
    MPI_Type_get_attr(MPI_INT, key, &got, &flag);
    CALLED("MPI_Type_get_attr(datatype=MPI_INT, type_keyval=%d, attribute_val=%p, flag=true)", key, (void *)&value);
    MPI_Type_delete_attr(MPI_INT, key);
    CALLED("MPI_Type_delete_attr(datatype=MPI_INT, type_keyval=%d)", key);
    const int was = key;
    MPI_Type_free_keyval(&key);
    CALLED("MPI_Type_free_keyval(type_keyval=%d→MPI_KEYVAL_INVALID)", was);
}

static void addresses(void)
{
    double row[4];
    MPI_Aint first, last, sum;

    MPI_Get_address(&row[0], &first);
    CALLED("MPI_Get_address(location=%p, address=%ld)", (void *)&row[0], (long)first);
    MPI_Get_address(&row[3], &last);
    CALLED("MPI_Get_address(location=%p, address=%ld)", (void *)&row[3], (long)last);
#ifndef OPEN_MPI /* where these are macros */
    sum = (MPI_Aint_diff)(last, first);
    CALLED("MPI_Aint_diff(addr1=%p, addr2=%p) = 24", (void *)last, (void *)first);
    sum = (MPI_Aint_add)(first, sum);
    CALLED("MPI_Aint_add(base=%p, disp=24) = %ld", (void *)first, (long)sum);
#else
    sum = MPI_Aint_add(first, MPI_Aint_diff(last, first));
#endif
    if (sum != last)
        abort();
}

static void matched(void)
{
    MPI_Datatype type;

    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
    CALLED("MPI_Type_match_size(typeclass=MPI_TYPECLASS_REAL, size=8, datatype=_)");
}

int main(void)
{
    MPI_Init(NULL, NULL);
    CALLED("MPI_Init(argc=NULL, argv=NULL)");

    simple();
    arrays();
    structs();
    long_arrays();
    packing();
    attributes();
    addresses();
    matched();

    MPI_Finalize();
    CALLED("MPI_Finalize()");
    expect_print(0);
    return 0;
}
