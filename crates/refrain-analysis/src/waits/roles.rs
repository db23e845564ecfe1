//! What a function may wait for, by its name.

/// What a call has to do with other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing that is known here.
    None,
    /// Sends (`dest`).
    Send(Manner),
    /// Receives (`source`).
    Receive(Manner),
    /// Both.
    Exchange(Manner),
    /// Waits for a message, and leaves it.
    Probe,
    /// Waits for a message and takes it, to be received later.
    TakeMessage,
    /// The same, without waiting.
    TryToTakeMessage,
    /// Starts persistent requests.
    Start,
    /// Completes requests.
    Complete(Completion),
    /// All members of a communicator, window or file call it.
    Collective(Manner),
    /// All processes call it.
    Runtime,
    /// Waits for a rank of a window (`rank`).
    Target,
    /// Waits for ranks of a window that it does not name.
    Partners,
}

/// When a call comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// When it is done.
    Blocking,
    /// At once: what it does does not depend on others.
    Local,
    /// At once, with a request for it.
    Requested,
    /// At once, with a request that is to be started.
    Persistent,
}

/// Which requests a call completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// `MPI_Wait`, `MPI_Waitall`.
    All,
    /// `MPI_Waitany`, `MPI_Waitsome`.
    Any,
    /// `MPI_Test` and its kin: those that it says are complete.
    Test,
}

/// Collectives on communicators, in their blocking form.
const COLLECTIVES: &[&str] = &[
    "Allgather",
    "Allgatherv",
    "Allreduce",
    "Alltoall",
    "Alltoallv",
    "Alltoallw",
    "Barrier",
    "Bcast",
    "Exscan",
    "Gather",
    "Gatherv",
    "Neighbor_allgather",
    "Neighbor_allgatherv",
    "Neighbor_alltoall",
    "Neighbor_alltoallv",
    "Neighbor_alltoallw",
    "Reduce",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Scan",
    "Scatter",
    "Scatterv",
];

/// Calls that make or free communicators, windows and files, or change them, all members together.
const MAKERS: &[&str] = &[
    "Cart_create",
    "Cart_sub",
    "Comm_accept",
    "Comm_connect",
    "Comm_create",
    "Comm_disconnect",
    "Comm_dup",
    "Comm_dup_with_info",
    "Comm_free",
    "Comm_spawn",
    "Comm_spawn_multiple",
    "Comm_split",
    "Comm_split_type",
    "Dist_graph_create",
    "Dist_graph_create_adjacent",
    "File_close",
    "File_open",
    "File_preallocate",
    "File_set_atomicity",
    "File_set_info",
    "File_set_size",
    "File_set_view",
    "File_sync",
    "Graph_create",
    "Intercomm_create",
    "Intercomm_merge",
    "Win_allocate",
    "Win_allocate_shared",
    "Win_create",
    "Win_create_dynamic",
    "Win_fence",
    "Win_free",
];

/// The role of a function.
pub fn role(function: &str) -> Role {
    use Manner::{Blocking, Local, Persistent, Requested};
    let name = function.strip_prefix("MPI_").unwrap_or(function);
    let name = name.strip_suffix("_c").unwrap_or(name);
    match name {
        "Send" | "Ssend" | "Rsend" => Role::Send(Blocking),
        "Bsend" => Role::Send(Local),
        "Isend" | "Issend" | "Irsend" | "Ibsend" => Role::Send(Requested),
        "Send_init" | "Ssend_init" | "Rsend_init" | "Bsend_init" | "Psend_init" => {
            Role::Send(Persistent)
        }
        "Recv" => Role::Receive(Blocking),
        "Irecv" => Role::Receive(Requested),
        "Recv_init" | "Precv_init" => Role::Receive(Persistent),
        "Sendrecv" | "Sendrecv_replace" => Role::Exchange(Blocking),
        "Isendrecv" | "Isendrecv_replace" => Role::Exchange(Requested),
        "Probe" => Role::Probe,
        "Mprobe" => Role::TakeMessage,
        "Improbe" => Role::TryToTakeMessage,
        "Start" | "Startall" => Role::Start,
        "Wait" | "Waitall" => Role::Complete(Completion::All),
        "Waitany" | "Waitsome" => Role::Complete(Completion::Any),
        "Test" | "Testall" | "Testany" | "Testsome" => Role::Complete(Completion::Test),
        "Init" | "Init_thread" | "Finalize" => Role::Runtime,
        "Win_lock" | "Win_unlock" | "Win_flush" => Role::Target,
        "Win_lock_all" | "Win_unlock_all" | "Win_flush_all" | "Win_start" | "Win_complete"
        | "Win_wait" => Role::Partners,
        _ => collective(name),
    }
}

fn collective(name: &str) -> Role {
    if COLLECTIVES.contains(&name) || MAKERS.contains(&name) {
        return Role::Collective(Manner::Blocking);
    }
    let of_file =
        name.strip_prefix("File_").filter(|n| n.contains("_all") || n.contains("_ordered"));
    if let Some(action) = of_file {
        let requested = action.starts_with("iread") || action.starts_with("iwrite");
        let manner = if requested { Manner::Requested } else { Manner::Blocking };
        return Role::Collective(manner);
    }
    if matches!(name, "Comm_idup" | "Comm_idup_with_info") {
        return Role::Collective(Manner::Requested);
    }
    let is_of = |name: &str| COLLECTIVES.iter().any(|c| c.eq_ignore_ascii_case(name));
    match (name.strip_prefix('I'), name.strip_suffix("_init")) {
        (Some(blocking), _) if is_of(blocking) => Role::Collective(Manner::Requested),
        (_, Some(blocking)) if is_of(blocking) => Role::Collective(Manner::Persistent),
        _ => Role::None,
    }
}

/// Whether a process that is not the root waits for nobody but the root.
pub fn comes_from_root(function: &str) -> bool {
    let name = function.strip_prefix("MPI_").unwrap_or(function);
    let name = name.strip_prefix('I').unwrap_or(name).to_ascii_lowercase();
    ["bcast", "scatter"].iter().any(|from_root| name.starts_with(from_root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_that_is_named_here_is_one_of_mpi() {
        for name in COLLECTIVES.iter().chain(MAKERS) {
            let name = format!("MPI_{name}");
            assert!(refrain_mpi::interface::function(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn forms_of_one_operation_differ_in_manner_only() {
        assert_eq!(role("MPI_Recv_c"), Role::Receive(Manner::Blocking));
        assert_eq!(role("MPI_Irecv"), Role::Receive(Manner::Requested));
        assert_eq!(role("MPI_Ibarrier"), Role::Collective(Manner::Requested));
        assert_eq!(role("MPI_Neighbor_alltoallw_init"), Role::Collective(Manner::Persistent));
        assert_eq!(role("MPI_Ineighbor_alltoallv_c"), Role::Collective(Manner::Requested));
        assert_eq!(role("MPI_File_write_at_all"), Role::Collective(Manner::Blocking));
        assert_eq!(role("MPI_File_iread_all"), Role::Collective(Manner::Requested));
        assert_eq!(role("MPI_Info_set"), Role::None);
        assert_eq!(role("MPI_Comm_rank"), Role::None);
    }

    #[test]
    fn only_what_comes_from_the_root_waits_for_the_root_alone() {
        assert!(comes_from_root("MPI_Bcast"));
        assert!(comes_from_root("MPI_Iscatterv"));
        assert!(!comes_from_root("MPI_Gather"));
        assert!(!comes_from_root("MPI_Reduce_scatter"));
    }
}
