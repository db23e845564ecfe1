/*
 * MPI from C++: objects that own handles, templates for datatypes, lambdas as callbacks,
 * exceptions that leave an MPI call through an error handler, destructors that call MPI while
 * the stack unwinds, a static object that asks about MPI after MPI_Finalize.
 */
#include <mpi.h>
#include "expect.h"

#include <complex>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int rank_in_world;

/* Prints all calls at the very end. */
struct Printer {
    ~Printer()
    {
        int flag;
        MPI_Finalized(&flag);
        CALLED("MPI_Finalized(flag=true)");
        expect_print(rank_in_world);
    }
} printer;

struct Session {
    Session()
    {
        /* Without threads: with them, MPICH holds a lock while it calls an error handler. */
        MPI_Init(nullptr, nullptr);
        CALLED("MPI_Init(argc=NULL, argv=NULL)");
    }
    ~Session()
    {
        MPI_Finalize();
        CALLED("MPI_Finalize()");
    }
};

/* A copy of a communicator; `name` is its name in traces. */
class Communicator {
public:
    Communicator(MPI_Comm parent, std::string parent_name, std::string name) : name_(std::move(name))
    {
        MPI_Comm_dup(parent, &comm_);
        CALLED("MPI_Comm_dup(comm=%s, newcomm=%s)", parent_name.c_str(), name_.c_str());
    }
    Communicator(const Communicator &) = delete;
    ~Communicator()
    {
        MPI_Comm_free(&comm_);
        CALLED("MPI_Comm_free(comm=%s)", name_.c_str());
    }
    operator MPI_Comm() const { return comm_; }
    const char *name() const { return name_.c_str(); }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
    std::string name_;
};

template <typename T> struct Type;
template <> struct Type<int> {
    static MPI_Datatype get() { return MPI_INT; }
    static constexpr const char *name = "MPI_INT";
};
template <> struct Type<double> {
    static MPI_Datatype get() { return MPI_DOUBLE; }
    static constexpr const char *name = "MPI_DOUBLE";
};
template <> struct Type<std::complex<double>> {
    static MPI_Datatype get() { return MPI_C_DOUBLE_COMPLEX; }
    static constexpr const char *name = "MPI_C_DOUBLE_COMPLEX";
};

template <typename T> void exchange(std::vector<T> data, const Communicator &comm)
{
    const int peer = 1 - rank_in_world;
    std::vector<T> got(data.size());
    MPI_Status status;
    MPI_Sendrecv(data.data(), int(data.size()), Type<T>::get(), peer, 1, got.data(), int(got.size()), Type<T>::get(),
                 peer, 1, comm, &status);
    CALLED("MPI_Sendrecv(sendbuf=%p, sendcount=%zu, sendtype=%s, dest=%d, sendtag=1, recvbuf=%p, recvcount=%zu, recvtype=%s, source=%d, recvtag=1, comm=%s, status={source=%d, tag=1, bytes=%zu})",
           static_cast<void *>(data.data()), data.size(), Type<T>::name, peer, static_cast<void *>(got.data()),
           got.size(), Type<T>::name, peer, comm.name(), peer, data.size() * sizeof(T));
}

void lambdas(const Communicator &comm)
{
    MPI_Op op;
    int in = 3, out = 4;

    MPI_User_function *add = [](void *in, void *inout, int *, MPI_Datatype *type) {
        int size;
        *static_cast<int *>(inout) += *static_cast<int *>(in);
        MPI_Type_size(*type, &size);
        CALLED("MPI_Type_size(datatype=MPI_INT, size=4)");
    };
    MPI_Op_create(add, true, &op);
    CALLED("MPI_Op_create(user_fn=%p, commute=true, op=op1)", reinterpret_cast<void *>(add));
    int call = CALLING();
    MPI_Allreduce(&in, &out, 1, MPI_INT, op, comm);
    CALLED_AT(call, "MPI_Allreduce(sendbuf=%p, recvbuf=%p, count=1, datatype=MPI_INT, op=op1, comm=%s)",
              static_cast<void *>(&in), static_cast<void *>(&out), comm.name());
    MPI_Op_free(&op);
    CALLED("MPI_Op_free(op=op1)");
}

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* The call that fails. */
int failing, data;

void fail(MPI_Comm *, int *code, ...)
{
    int kind;
    MPI_Error_class(*code, &kind);
    CALLED("MPI_Error_class(errorcode=_, errorclass=MPI_ERR_RANK)");
    CALLED_AT(failing, "MPI_Send(buf=%p, count=1, datatype=MPI_INT, dest=1234, tag=5, comm=comm1) = ? (never returned)", static_cast<void *>(&data));
    throw Failure("through MPI");
}

/* Calls that never return, and calls of destructors during unwinding. */
void exceptions(const Communicator &comm)
{
    MPI_Errhandler handler;
    int rank;

    MPI_Comm_create_errhandler(fail, &handler);
    CALLED("MPI_Comm_create_errhandler(comm_errhandler_fn=%p, errhandler=errhandler1)", reinterpret_cast<void *>(fail));
    MPI_Comm_set_errhandler(comm, handler);
    CALLED("MPI_Comm_set_errhandler(comm=%s, errhandler=errhandler1)", comm.name());
    for (int round = 0; round < 3; round++) {
        try {
            Communicator inner(MPI_COMM_SELF, "MPI_COMM_SELF", "comm2");
            failing = CALLING();
            MPI_Send(&data, 1, MPI_INT, 1234, 5, comm);
        } catch (const Failure &) {
            MPI_Comm_rank(comm, &rank);
            CALLED("MPI_Comm_rank(comm=%s, rank=%d)", comm.name(), rank_in_world);
        }
    }
    MPI_Errhandler_free(&handler);
    CALLED("MPI_Errhandler_free(errhandler=errhandler1)");
}

} // namespace

int main()
{
    Session session;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_in_world);
    CALLED("MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=%d)", rank_in_world);
    Communicator comm(MPI_COMM_WORLD, "MPI_COMM_WORLD", "comm1");
    exchange(std::vector<int>{ 1, 2, 3 }, comm);
    exchange(std::vector<double>(17, 1.5), comm);
    exchange(std::vector<std::complex<double>>(2), comm);
    {
        auto owned = std::make_unique<Communicator>(comm, comm.name(), "comm2");
        exchange(std::vector<int>(1), *owned);
    }
    lambdas(comm);
    exceptions(comm);
    return 0;
}
