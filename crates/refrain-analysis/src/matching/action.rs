//! How a function takes part in matching, read from the table of MPI's semantics.

use refrain_mpi::interface::Function;
use refrain_mpi::semantics::{Argument, Collective, Form, Op, Over, Root};

/// How a function takes part in matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Not at all.
    None,
    /// It sends a message.
    Send,
    /// It receives a message.
    Receive,
    /// It does both.
    SendReceive,
    /// It waits for a message without matching it.
    Probe,
    /// It probes for a message and matches it.
    MatchedProbe,
    /// It starts persistent requests.
    Start,
    /// It completes requests.
    Complete,
    /// It tries to cancel a request.
    Cancel,
    /// All members of a communicator, window or file call it.
    Collective,
    /// All processes call it.
    Runtime,
    /// It synchronizes with one rank of a window.
    Target,
    /// It synchronizes with unnamed ranks of a window.
    AnyMember,
}

impl Action {
    /// The action of a function.
    ///
    /// Calls that are collective over a group have none: other members of the communicator do not make them, so they
    /// have no position among its collectives.
    pub fn of(function: &Function) -> Action {
        let is_local = function.is_local();
        match function.op() {
            Op::Send(_) => Action::Send,
            Op::Receive => Action::Receive,
            Op::SendReceive => Action::SendReceive,
            Op::Probe if is_local => Action::None,
            Op::Probe => Action::Probe,
            Op::MatchedProbe => Action::MatchedProbe,
            Op::Start => Action::Start,
            Op::Complete(_) => Action::Complete,
            Op::Cancel => Action::Cancel,
            Op::Sync(_) if function.over().is_none() => {
                match (is_local, function.position(Argument::Target)) {
                    (true, _) => Action::None,
                    (false, Some(_)) => Action::Target,
                    (false, None) => Action::AnyMember,
                }
            }
            _ => match function.over() {
                Some(Over::World) => Action::Runtime,
                Some(Over::Comm | Over::CommAndRemote | Over::Window | Over::File) => {
                    Action::Collective
                }
                Some(Over::Group | Over::Session) | None => Action::None,
            },
        }
    }
}

/// Whether a call returns a request for its operation.
pub(super) fn makes_request(function: &Function) -> bool {
    let has_request = function.position(Argument::Request).is_some();
    has_request && !matches!(function.form(), Form::Blocking)
}

/// Whether a request must be started.
pub(super) fn is_persistent(function: &Function) -> bool {
    matches!(function.form(), Form::Persistent | Form::Partitioned)
}

/// Whether a process that is not the root waits for the root alone.
pub(super) fn comes_from_root(function: &Function) -> bool {
    let root = |collective: Collective| collective.root() == Some(Root::Source);
    matches!(function.op(), Op::Collective(collective) if root(collective))
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_mpi::interface::{function, functions};

    fn action(name: &str) -> Action {
        Action::of(function(name).expect(name))
    }

    #[test]
    fn forms_of_one_operation_have_one_action() {
        for (names, expected) in [
            ("MPI_Recv MPI_Recv_c MPI_Irecv MPI_Recv_init MPI_Precv_init", Action::Receive),
            ("MPI_Send MPI_Ibsend MPI_Rsend_init MPI_Psend_init", Action::Send),
            ("MPI_Sendrecv MPI_Isendrecv_replace", Action::SendReceive),
            ("MPI_Mprobe MPI_Improbe", Action::MatchedProbe),
            ("MPI_Barrier MPI_Ibarrier MPI_Barrier_init", Action::Collective),
            ("MPI_Ineighbor_alltoallv_c MPI_File_write_at_all", Action::Collective),
            ("MPI_Comm_dup MPI_Comm_idup MPI_Win_create MPI_Win_fence", Action::Collective),
            ("MPI_Comm_spawn MPI_Intercomm_create MPI_File_open", Action::Collective),
            ("MPI_Wait MPI_Testsome", Action::Complete),
            ("MPI_Init MPI_Init_thread MPI_Finalize", Action::Runtime),
            ("MPI_Win_lock MPI_Win_unlock MPI_Win_flush", Action::Target),
            ("MPI_Win_lock_all MPI_Win_start MPI_Win_complete MPI_Win_wait", Action::AnyMember),
            ("MPI_Iprobe MPI_Info_set MPI_Comm_rank MPI_Win_post MPI_Win_test", Action::None),
            ("MPI_Comm_create_group MPI_Session_finalize MPI_Mrecv", Action::None),
        ] {
            for name in names.split(' ') {
                assert_eq!(action(name), expected, "{name}");
            }
        }
    }

    #[test]
    fn every_collective_but_those_over_groups_and_sessions_is_followed() {
        for function in functions().iter().filter(|f| f.is_collective()) {
            let is_followed = Action::of(function) != Action::None;
            let has_position = !matches!(function.over(), Some(Over::Group | Over::Session));
            assert_eq!(is_followed, has_position, "{}", function.name);
        }
    }

    #[test]
    fn only_collectives_that_distribute_from_the_root_wait_for_the_root_alone() {
        let from_root = |name: &str| comes_from_root(function(name).expect(name));
        assert!(from_root("MPI_Bcast"));
        assert!(from_root("MPI_Iscatterv"));
        assert!(!from_root("MPI_Gather"));
        assert!(!from_root("MPI_Reduce_scatter"));
        assert!(!from_root("MPI_Comm_split"));
    }

    #[test]
    fn requests_come_from_nonblocking_and_persistent_calls_only() {
        let requests = |name: &str| makes_request(function(name).expect(name));
        assert!(requests("MPI_Isend") && requests("MPI_Comm_idup") && requests("MPI_Recv_init"));
        assert!(!requests("MPI_Send") && !requests("MPI_Wait") && !requests("MPI_Improbe"));
    }
}
