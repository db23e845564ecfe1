/* Every constructor of datatypes, every query of a datatype, and packing. Runs on 2 ranks, which do the
 * same except for the distributed array. */
#ifndef F
#include "coverage.h"

static int rank;

static void show_name(MPI_Datatype datatype)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = -1;
    CALL(MPI_Type_get_name(datatype, name, &length));
    say("    name '%s', %d", name, length);
}

/* The rest of the file, once for each size of counts. */
#define F(name) name
#define OF(name) name##_small
#define COUNT int
#define BYTES MPI_Aint
#define IS_LARGE 0
#include "coverage_datatypes.c"
#undef F
#undef OF
#undef COUNT
#undef BYTES
#undef IS_LARGE
#if HAVE_LARGE_COUNTS
#define F(name) name##_c
#define OF(name) name##_large
#define COUNT MPI_Count
#define BYTES MPI_Count
#define IS_LARGE 1
#include "coverage_datatypes.c"
#endif

static void names(void)
{
    MPI_Datatype copy;

    show_name(MPI_INT);
    show_name(MPI_DOUBLE_INT);
    CALL(MPI_Type_dup(MPI_DOUBLE, &copy));
    show_name(copy);
    CALL(MPI_Type_set_name(copy, "a copy of double"));
    show_name(copy);
    MPI_Type_free(&copy);
}

/* Types for Fortran's selected kinds are predefined: they need no commit and no free. An MPI
 * without Fortran has none, and says so with an error or a null handle. */
static void show_fortran_type(MPI_Datatype datatype)
{
    if (datatype == MPI_DATATYPE_NULL)
        say("    null");
    else
        describe_small(datatype);
}

static void fortran_types(void)
{
    MPI_Datatype datatype = MPI_DATATYPE_NULL;

    CALL(MPI_Type_create_f90_real(6, 30, &datatype));
    show_fortran_type(datatype);
    datatype = MPI_DATATYPE_NULL;
    CALL(MPI_Type_create_f90_complex(15, MPI_UNDEFINED, &datatype));
    show_fortran_type(datatype);
    datatype = MPI_DATATYPE_NULL;
    CALL(MPI_Type_create_f90_integer(9, &datatype));
    show_fortran_type(datatype);
    datatype = MPI_DATATYPE_NULL;
    if (CALL(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &datatype)) == MPI_SUCCESS
        && datatype != MPI_DATATYPE_NULL)
        show_name(datatype);
    datatype = MPI_DATATYPE_NULL;
    if (CALL(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 4, &datatype)) == MPI_SUCCESS
        && datatype != MPI_DATATYPE_NULL)
        show_name(datatype);
#if HAVE_MPI_4_1
    CALL(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &datatype));
    say("    the predefined one: %d", datatype == MPI_DOUBLE_INT);
#endif
}

static void addresses(void)
{
    static int here[10];
    MPI_Aint first, second;

    CALL(MPI_Get_address(&here[2], &first));
    CALL(MPI_Get_address(&here[9], &second));
    say("MPI_Aint_diff");
    say("    difference %lld", (long long)MPI_Aint_diff(second, first));
    say("MPI_Aint_add");
    say("    the same: %d", MPI_Aint_add(first, 7 * (MPI_Aint)sizeof(int)) == second);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return_errors(MPI_COMM_WORLD);

    constructors_small();
#if HAVE_LARGE_COUNTS
    constructors_large();
#endif
    names();
    fortran_types();
    addresses();

    print_lines(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

#else /* once for each size of counts */

static int OF(combiner)(MPI_Datatype datatype)
{
    COUNT counts[4];
    int combiner;
#if IS_LARGE
    MPI_Type_get_envelope_c(datatype, &counts[0], &counts[1], &counts[2], &counts[3],
                            &combiner);
#else
    MPI_Type_get_envelope(datatype, &counts[0], &counts[1], &counts[2], &combiner);
#endif
    return combiner;
}

/* Envelope and contents of a datatype. */
static void OF(contents)(MPI_Datatype datatype)
{
    COUNT integers = -1, addresses = -1, datatypes = -1, large_counts = 0;
    int combiner = -1, named;
    int integer[20];
    MPI_Aint address[20];
    MPI_Count large_count[20] = { 0 };
    MPI_Datatype part[20];

#if IS_LARGE
    CALL(MPI_Type_get_envelope_c(datatype, &integers, &addresses, &large_counts, &datatypes,
                                 &combiner));
#else
    CALL(MPI_Type_get_envelope(datatype, &integers, &addresses, &datatypes, &combiner));
#endif
    named = combiner == MPI_COMBINER_NAMED;
    say("    %lld integers, %lld addresses, %lld large counts, %lld datatypes, named %d",
        (long long)integers, (long long)addresses, (long long)large_counts,
        (long long)datatypes, named);
    if (named || combiner == -1)
        return;
    /* Arrays larger than needed, except that of datatypes: Open MPI would fill all of it. */
#if IS_LARGE
    CALL(MPI_Type_get_contents_c(datatype, 20, 20, 20, datatypes, integer, address,
                                 large_count, part));
#else
    CALL(MPI_Type_get_contents(datatype, 20, 20, datatypes, integer, address, part));
#endif
    show_ints("integers", integer, (int)integers);
    show_longs("addresses", address, (int)addresses);
    show_longs("large counts", large_count, (int)large_counts);
    for (int i = 0; i < datatypes; i++) {
        show_name(part[i]);
        if (OF(combiner)(part[i]) != MPI_COMBINER_NAMED)
            CALL(MPI_Type_free(&part[i]));
    }
}

static void OF(describe)(MPI_Datatype datatype)
{
    COUNT size;
    BYTES lb, extent;
    MPI_Count size_x, lb_x, extent_x;

    CALL(F(MPI_Type_size)(datatype, &size));
    say("    size %lld", (long long)size);
    CALL(F(MPI_Type_get_extent)(datatype, &lb, &extent));
    say("    from %lld, extent %lld", (long long)lb, (long long)extent);
    CALL(F(MPI_Type_get_true_extent)(datatype, &lb, &extent));
    say("    from %lld, extent %lld", (long long)lb, (long long)extent);
    CALL(MPI_Type_size_x(datatype, &size_x));
    say("    size %lld", (long long)size_x);
    CALL(MPI_Type_get_extent_x(datatype, &lb_x, &extent_x));
    say("    from %lld, extent %lld", (long long)lb_x, (long long)extent_x);
    CALL(MPI_Type_get_true_extent_x(datatype, &lb_x, &extent_x));
    say("    from %lld, extent %lld", (long long)lb_x, (long long)extent_x);
    OF(contents)(datatype);
}

static void OF(pack)(MPI_Datatype datatype)
{
    char from[512], to[512] = "", packed[512] = "";
    COUNT position = 0, most;

    for (int i = 0; i < LENGTH(from); i++)
        from[i] = (char)(1 + i % 100);
    /* Data may precede the address that is passed. */
    CALL(F(MPI_Pack_size)(2, datatype, MPI_COMM_WORLD, &most));
    say("    at most %lld", (long long)most);
    CALL(F(MPI_Pack)(from + 64, 2, datatype, packed, sizeof packed, &position,
                     MPI_COMM_WORLD));
    say("    position %lld", (long long)position);
    show_bytes("packed", packed, (int)position);
    most = position;
    position = 0;
    CALL(F(MPI_Unpack)(packed, most, &position, to + 64, 2, datatype, MPI_COMM_WORLD));
    say("    position %lld", (long long)position);
    show_bytes("unpacked", to + 48, 128);
}

static void OF(pack_external)(MPI_Datatype datatype)
{
    char from[512], to[512] = "", packed[512] = "";
    BYTES place = 0, most_external;

    for (int i = 0; i < LENGTH(from); i++)
        from[i] = (char)(1 + i % 100);
    CALL(F(MPI_Pack_external_size)("external32", 2, datatype, &most_external));
    say("    at most %lld", (long long)most_external);
    CALL(F(MPI_Pack_external)("external32", from + 64, 2, datatype, packed, sizeof packed,
                              &place));
    say("    position %lld", (long long)place);
    show_bytes("packed", packed, (int)place);
    most_external = place;
    place = 0;
    CALL(F(MPI_Unpack_external)("external32", packed, most_external, &place, to + 64, 2,
                                datatype));
    say("    position %lld", (long long)place);
    show_bytes("unpacked", to + 48, 128);
}

static void OF(use)(MPI_Datatype *datatype, int converts)
{
    CALL(MPI_Type_commit(datatype));
    OF(describe)(*datatype);
    OF(pack)(*datatype);
    if (converts)
        OF(pack_external)(*datatype);
    CALL(MPI_Type_free(datatype));
    say("    null: %d", *datatype == MPI_DATATYPE_NULL);
}

static void OF(constructors)(void)
{
    MPI_Datatype made, inner;
    COUNT lengths[] = { 1, 2, 1 }, places[] = { 0, 3, 7 };
    BYTES bytes[] = { 0, 8, 24 };
    MPI_Datatype types[] = { MPI_INT, MPI_SHORT, MPI_DOUBLE };
    COUNT sizes[] = { 4, 4 }, subsizes[] = { 2, 3 }, starts[] = { 1, 0 };
    int distributions[] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC };
    int arguments[] = { MPI_DISTRIBUTE_DFLT_DARG, 1 }, grid[] = { 2, 1 };

    OF(describe)(MPI_INT);
    CALL(F(MPI_Type_contiguous)(3, MPI_INT, &made));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_vector)(2, 2, 3, MPI_SHORT, &made));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_create_hvector)(2, 1, 10, MPI_INT, &made));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_indexed)(3, lengths, places, MPI_SHORT, &made));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_create_hindexed)(3, lengths, bytes, MPI_INT, &made));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_create_indexed_block)(3, 1, places, MPI_INT, &made));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_create_hindexed_block)(3, 1, bytes, MPI_INT, &made));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_create_struct)(3, lengths, bytes, types, &made));
    OF(use)(&made, 0); /* MPICH crashes when it converts a structure of different types */
    CALL(F(MPI_Type_create_subarray)(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_SHORT,
                                     &made));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_create_darray)(2, rank, 2, sizes, distributions, arguments, grid,
                                   MPI_ORDER_FORTRAN, MPI_SHORT, &made));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_create_resized)(MPI_INT, -4, 12, &made));
    OF(use)(&made, 1);
    /* Of derived datatypes. */
    CALL(F(MPI_Type_vector)(2, 1, 2, MPI_INT, &inner));
    CALL(MPI_Type_dup(inner, &made));
    CALL(MPI_Type_free(&inner));
    OF(use)(&made, 1);
    CALL(F(MPI_Type_vector)(2, 1, 2, MPI_INT, &inner));
    CALL(F(MPI_Type_contiguous)(2, inner, &made));
    CALL(MPI_Type_free(&inner));
    OF(use)(&made, 1);
    /* Of no elements. */
    CALL(F(MPI_Type_contiguous)(0, MPI_INT, &made));
    OF(use)(&made, 0); /* or nothing */
}

#endif
