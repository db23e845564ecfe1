//! Array lengths that depend on MPI objects: the number of neighbours of a communicator, the number
//! of integers that describe a datatype.
//!
//! The agent asks MPI by local functions, on handles that the program is using, and never on null
//! handles, because MPI would call the program's error handler. If MPI has no answer, the array
//! counts as empty, and the log only says that an address was passed.

use crate::inside::library::abi;
use crate::inside::memory::count;
use crate::inside::next;
use crate::table;
use crate::trace::call::INSIGNIFICANT;
use std::ffi::{c_int, c_void};

/// Asks a function that takes a handle and fills in `N` ints.
pub fn ask<const N: usize>(function: usize, handle: usize) -> Option<[c_int; N]> {
    let f = next::mpi(function)?;
    let mut out = [0 as c_int; 5];
    let [a, b, c, d, e] = &mut out;
    // SAFETY: the functions asked here take a handle and then N addresses of ints; further
    // arguments are ignored by the calling convention.
    let error = unsafe {
        type Ask = unsafe extern "C" fn(
            usize,
            *mut c_int,
            *mut c_int,
            *mut c_int,
            *mut c_int,
            *mut c_int,
        ) -> c_int;
        std::mem::transmute::<*const (), Ask>(f)(handle, a, b, c, d, e)
    };
    out.first_chunk().copied().filter(|_| error == 0)
}

/// Whether a handle is not a communicator.
pub fn is_null_comm(comm: usize) -> bool {
    let comm = abi().handle(comm);
    comm == abi().comm_null || comm == 0
}

fn comm_int(function: usize, comm: usize) -> Option<c_int> {
    if is_null_comm(comm) {
        return None;
    }
    ask::<1>(function, comm).map(|[n]| n)
}

/// Whether a communicator has a remote group.
pub fn is_inter(comm: usize) -> bool {
    comm_int(table::MPI_Comm_test_inter, comm) == Some(1)
}

/// Number of processes in the local group.
#[cold]
pub fn size(comm: usize) -> usize {
    comm_int(table::MPI_Comm_size, comm).map_or(0, count)
}

/// Number of processes that this one exchanges data with in a collective operation.
#[cold]
pub fn peers(comm: usize) -> usize {
    match is_inter(comm) {
        true => comm_int(table::MPI_Comm_remote_size, comm).map_or(0, count),
        false => size(comm),
    }
}

/// The length at the root, [`INSIGNIFICANT`] elsewhere.
#[cold]
pub fn at_root(root: c_int, comm: usize, length: impl FnOnce() -> usize) -> usize {
    let is_root = match is_inter(comm) {
        true => root == abi().root,
        false => comm_int(table::MPI_Comm_rank, comm) == Some(root),
    };
    if is_root { length() } else { INSIGNIFICANT }
}

/// The length, or [`INSIGNIFICANT`] for an in-place operation.
#[cold]
pub fn unless_in_place(sendbuf: *const c_void, length: impl FnOnce() -> usize) -> usize {
    if sendbuf as usize == abi().in_place { INSIGNIFICANT } else { length() }
}

/// The numbers of neighbours in a communicator's topology: sources and destinations.
fn neighbourhood(comm: usize) -> Option<(usize, usize)> {
    if is_null_comm(comm) {
        return None;
    }
    let [topology] = ask::<1>(table::MPI_Topo_test, comm)?;
    let family = abi().family;
    let is = |name| refrain_mpi::names::constant_value(family, name) == Some(topology.into());
    if is("MPI_DIST_GRAPH") {
        let [sources, destinations, _] = ask::<3>(table::MPI_Dist_graph_neighbors_count, comm)?;
        Some((count(sources), count(destinations)))
    } else if is("MPI_CART") {
        let [dims] = ask::<1>(table::MPI_Cartdim_get, comm)?;
        Some((2 * count(dims), 2 * count(dims)))
    } else if is("MPI_GRAPH") {
        let [rank] = ask::<1>(table::MPI_Comm_rank, comm)?;
        let n = neighbors(comm, rank);
        Some((n, n))
    } else {
        None
    }
}

/// Number of neighbours that send to this process.
#[cold]
pub fn sources(comm: usize) -> usize {
    neighbourhood(comm).map_or(0, |(sources, _)| sources)
}

/// Number of neighbours that this process sends to.
#[cold]
pub fn destinations(comm: usize) -> usize {
    neighbourhood(comm).map_or(0, |(_, destinations)| destinations)
}

/// Number of dimensions of a Cartesian topology.
#[cold]
pub fn dims(comm: usize) -> usize {
    has_topology(comm, "MPI_CART")
        .and_then(|()| comm_int(table::MPI_Cartdim_get, comm))
        .map_or(0, count)
}

/// Number of nodes of a graph topology.
#[cold]
pub fn nodes(comm: usize) -> usize {
    has_topology(comm, "MPI_GRAPH")
        .and_then(|()| ask::<2>(table::MPI_Graphdims_get, comm))
        .map_or(0, |[nodes, _]| count(nodes))
}

/// Number of edges of a graph topology.
#[cold]
pub fn edges(comm: usize) -> usize {
    has_topology(comm, "MPI_GRAPH")
        .and_then(|()| ask::<2>(table::MPI_Graphdims_get, comm))
        .map_or(0, |[_, edges]| count(edges))
}

/// Checks the kind of topology first: a query for another kind would call the program's error
/// handler.
fn has_topology(comm: usize, name: &str) -> Option<()> {
    let topology = comm_int(table::MPI_Topo_test, comm)?;
    let wanted = refrain_mpi::names::constant_value(abi().family, name)?;
    (wanted == i64::from(topology)).then_some(())
}

/// Number of neighbours of a rank in a graph topology.
#[cold]
pub fn neighbors(comm: usize, rank: c_int) -> usize {
    let in_range = rank >= 0 && count(rank) < size(comm);
    if has_topology(comm, "MPI_GRAPH").is_none() || !in_range {
        return 0;
    }
    let Some(f) = next::mpi(table::MPI_Graph_neighbors_count) else {
        return 0;
    };
    let mut n = 0;
    // SAFETY: a local function of this form in every MPI, on a valid communicator.
    let error = unsafe {
        let f: unsafe extern "C" fn(usize, c_int, *mut c_int) -> c_int = std::mem::transmute(f);
        f(comm, rank, &mut n)
    };
    if error == 0 { count(n) } else { 0 }
}

/// The numbers of values that `MPI_Type_get_envelope` reports for a datatype: integers, addresses,
/// large counts, datatypes. The query with large counts is preferred, because the other one is an
/// error for datatypes that were created with large counts.
fn envelope(datatype: usize) -> [usize; 4] {
    if datatype == abi().datatype_null || datatype == 0 {
        return [0; 4];
    }
    let Some(f) = next::mpi(table::MPI_Type_get_envelope_c) else {
        let counts = ask::<4>(table::MPI_Type_get_envelope, datatype).unwrap_or_default();
        let [integers, addresses, datatypes, _] = counts.map(count);
        return [integers, addresses, 0, datatypes];
    };
    let (mut counts, mut combiner) = ([0i64; 4], 0);
    let [integers, addresses, large, datatypes] = &mut counts;
    // SAFETY: a local function of this form in every MPI that has it, on a valid datatype.
    let error = unsafe {
        type Envelope = unsafe extern "C" fn(
            usize,
            *mut i64,
            *mut i64,
            *mut i64,
            *mut i64,
            *mut c_int,
        ) -> c_int;
        let f: Envelope = std::mem::transmute(f);
        f(datatype, integers, addresses, large, datatypes, &mut combiner)
    };
    if error == 0 { counts.map(count) } else { [0; 4] }
}

/// Number of integers that describe a datatype.
#[cold]
pub fn integers(datatype: usize) -> usize {
    envelope(datatype)[0]
}

/// Number of addresses that describe a datatype.
#[cold]
pub fn addresses(datatype: usize) -> usize {
    envelope(datatype)[1]
}

/// Number of large counts that describe a datatype.
#[cold]
pub fn large_counts(datatype: usize) -> usize {
    envelope(datatype)[2]
}

/// Number of datatypes that describe a datatype.
#[cold]
pub fn datatypes(datatype: usize) -> usize {
    envelope(datatype)[3]
}
