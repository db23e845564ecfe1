//! Operations: what a function does.

use super::Collective;

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// MPI starts (`MPI_Init`), or a session does.
    Begin,
    /// MPI ends (`MPI_Finalize`), or a session does.
    End,
    /// The job is aborted.
    Abort,
    /// Sends a message.
    Send(Mode),
    /// Receives a message.
    Receive,
    /// Receives a message that a [matched probe](Op::MatchedProbe) found.
    MatchedReceive,
    /// Sends one message and receives another.
    SendReceive,
    /// Finds a message, which stays where it is.
    Probe,
    /// Finds a message and takes it out of matching, to be received by its handle.
    MatchedProbe,
    /// Completes requests: `MPI_Wait` and `MPI_Test` and their relatives.
    Complete(Choice),
    /// Says whether requests are complete, and leaves them (`MPI_Request_get_status`).
    Inspect(Choice),
    /// Starts persistent requests.
    Start,
    /// Marks a request for cancellation.
    Cancel,
    /// Passes partitions of a partitioned send (`MPI_Pready`).
    Ready,
    /// Says whether a partition of a partitioned receive is there (`MPI_Parrived`).
    Arrived,
    /// Moves data between the members of a communicator.
    Collective(Collective),
    /// Creates an object, which the program owns.
    Make(Object),
    /// Destroys an object, or releases its handle.
    Free(Object),
    /// Changes an object.
    Change(Object),
    /// Reads properties of an object. Handles it returns are borrowed.
    Query(Object),
    /// Converts a handle or status between C, Fortran and numbers.
    Convert(Object),
    /// Makes a communicator with processes of another job: spawn, accept, connect, join.
    Connect,
    /// Accesses memory of another process.
    Rma(Rma),
    /// Synchronizes accesses to a window.
    Sync(Sync),
    /// Reads or writes a file.
    Io(Io, Pointer),
    /// Reads or changes a cached attribute.
    Attribute(Access),
    /// Reads, changes or calls an error handler.
    Errhandler(Access),
    /// Allocates memory.
    Allocate,
    /// Frees memory.
    Deallocate,
    /// Packs data into a buffer of bytes.
    Pack,
    /// Unpacks it.
    Unpack,
    /// Applies a reduction operation to local data.
    Reduce,
    /// Reads the clock.
    Clock,
    /// Reads the resolution of the clock.
    ClockResolution,
    /// Error classes, codes and their texts.
    Error,
    /// Ports and published names.
    Name,
    /// The tool information interface (`MPI_T_…`).
    Tool,
    /// Something else that concerns the calling process alone.
    Local,
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// MPI may buffer it, or wait for the receive.
    Standard,
    /// It is copied to a buffer of the program's.
    Buffered,
    /// It completes only once the receive has started.
    Synchronous,
    /// The program promises that the receive is posted.
    Ready,
}

/// Which of the requests a call completes or inspects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The only one.
    One,
    /// All of them.
    All,
    /// Any one of them.
    Any,
    /// At least one of them.
    Some,
}

/// Kinds of MPI objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Object {
    Comm,
    Group,
    Datatype,
    Window,
    File,
    Request,
    Message,
    Info,
    Op,
    Errhandler,
    Keyval,
    Session,
    Status,
    /// Memory attached for buffered sends.
    Buffering,
}

/// One-sided accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Rma {
    Put,
    Get,
    Accumulate,
    GetAccumulate,
    FetchAndOp,
    CompareAndSwap,
}

impl Rma {
    /// Whether its result depends on the order in which accesses of several origins are applied.
    pub fn depends_on_order(self) -> bool {
        !matches!(self, Rma::Put | Rma::Get)
    }
}

/// Synchronization of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Sync {
    Fence,
    Start,
    Complete,
    Post,
    Wait,
    Lock,
    Unlock,
    LockAll,
    UnlockAll,
    Flush,
    FlushAll,
    FlushLocal,
    FlushLocalAll,
    /// `MPI_Win_sync`: the private and public copy of the window.
    Memory,
}

/// The direction of a file access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Io {
    Read,
    Write,
}

/// Where in the file an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pointer {
    /// At the offset that is passed.
    Explicit,
    /// At the process's own file pointer.
    Individual,
    /// At the pointer that all processes share.
    Shared,
}

/// What is done with an attribute or an error handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Access {
    Get,
    Set,
    Delete,
    Call,
}
