/*
 * MPI's tools interface, which works before MPI_Init and after MPI_Finalize. Its error codes must
 * not be passed to MPI_Error_class at such times.
 */
#include <mpi.h>
#include "say.h"

static void use(const char *when)
{
    int count = -1, code, index = -1, name_length, description_length, verbosity, bind, scope;
    char name[256] = "", description[4096] = "";
    MPI_Datatype type;
    MPI_T_enum enumeration;

    code = MPI_T_cvar_get_num(&count);
    say("%s: cvars %d, code %d", when, count > 0, code);
    name_length = sizeof name;
    description_length = sizeof description;
    code = MPI_T_cvar_get_info(0, name, &name_length, &verbosity, &type, &enumeration, description,
                               &description_length, &bind, &scope);
    say("%s: cvar 0 is %s, %zu characters, code %d", when, name, strlen(description), code);
    code = MPI_T_cvar_get_index("no such variable", &index);
    say("%s: no such name, error %d, index %d", when, code != MPI_SUCCESS, index);
    code = MPI_T_pvar_get_index("no such variable", MPI_T_PVAR_CLASS_COUNTER, &index);
    say("%s: no such pvar, error %d", when, code != MPI_SUCCESS);
    code = MPI_T_category_get_index("no such category", &index);
    say("%s: no such category, error %d", when, code != MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    int provided = -1, code;
    code = MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    say("init %d, provided %d", code, provided);
    use("before");
    MPI_Init(&argc, &argv);
    use("between");
    MPI_Finalize();
    use("after");
#if !defined OMPI_MAJOR_VERSION || OMPI_MAJOR_VERSION >= 5 /* 4.1 crashes here by itself */
    say("finalize %d", MPI_T_finalize());
#endif
    return 0;
}
