# What an mpi4py wheel finds in its MPI: each rank prints the same lines.
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
neighbour, other = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def say(*words):
    """Prints a line in one piece, which print does not."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def attempt(name, call):
    """Prints what came of a call that this MPI may not have."""
    try:
        call()
        outcome = "works"
    except (NotImplementedError, MPI.Exception) as error:
        outcome = type(error).__name__
    say(name, outcome)


received = comm.sendrecv({"from": comm.rank}, dest=neighbour, source=other)
say("received from", "the neighbour" if received == {"from": other} else received)
say("sum", comm.allreduce(1))
attempt("Flush_buffer", comm.Flush_buffer)
attempt("Info.Create_env", lambda: MPI.Info.Create_env().Free())
attempt("Get_hw_resource_info", lambda: MPI.Get_hw_resource_info().Free())
attempt("Remove_error_class", lambda: MPI.Remove_error_class(MPI.Add_error_class()))
attempt("Session", lambda: MPI.Session.Init().Finalize())
attempt("Isendrecv", lambda: comm.Isendrecv(bytearray(8), neighbour, 0, bytearray(8), other).Wait())
attempt("Get_status_all", lambda: MPI.Request.Get_status_all([]))
