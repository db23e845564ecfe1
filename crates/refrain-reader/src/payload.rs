//! The payload of a call: the elements in the buffer that it names.
//!
//! It is determined by the call alone, from the first count and datatype among its arguments:
//!
//! * sends, and receives as they are posted: the message received may be shorter;
//! * `MPI_Sendrecv` and its like: what is sent;
//! * one-sided communication and files: the buffer of this process;
//! * collectives: the buffer of this process, as given; where that is a block for each process
//!   (`MPI_Alltoall`), one block; with an array of counts, their sum. `MPI_Scatter` and its like
//!   are the exception: a rank's own block is the one received. With `MPI_IN_PLACE` it is the
//!   receive buffer, if its count and datatype determine the block; a block that stays at the root does not count;
//! * persistent and partitioned requests: once, where the request is made.
//!
//! Nothing goes to or comes from `MPI_PROC_NULL`.

use crate::datatypes::{DATATYPE, Elements, counts, handles};
use crate::event::{Event, Value};
use refrain_format::define::{FunctionDef, ParamDef};
use refrain_mpi::abi::{Family, Layout, Source};
use refrain_mpi::interface::{self, Direction};
use refrain_mpi::kind::Class;
use refrain_mpi::names::{HandleTable, constant_value};
use refrain_mpi::semantics::{Collective, Op};

/// The positions of a buffer, a count and a datatype among the parameters of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    address: usize,
    count: usize,
    datatype: usize,
}

/// Whether calls of a function have a payload. Packing, and reducing without communication, move nothing.
pub fn has_payload(function: &FunctionDef) -> bool {
    let is_local = matches!(op(function), Some(Op::Pack | Op::Unpack | Op::Reduce));
    !is_local && !buffers(function).is_empty()
}

/// What the function does, by its name: a trace of another version may have other parameters.
fn op(function: &FunctionDef) -> Option<Op> {
    interface::function(&function.name).map(|function| function.op())
}

fn buffers(function: &FunctionDef) -> Vec<Buffer> {
    let params = &function.params;
    let last =
        |before: usize, is: &dyn Fn(&ParamDef) -> bool| params[..before].iter().rposition(is);
    let buffer = |(datatype, p): (usize, &ParamDef)| {
        if p.class != Class::Handle || p.reads_as != DATATYPE || p.direction != Direction::In {
            return None;
        }
        let is_count = |p: &ParamDef| p.name.ends_with("count") || p.name.ends_with("counts");
        let address = last(datatype, &|p| p.class == Class::Memory)?;
        Some(Buffer { address, count: last(datatype, &is_count)?, datatype })
    };
    params.iter().enumerate().filter_map(buffer).collect()
}

/// The payload of a call; `None` if the arguments do not determine it.
pub fn payload(event: &Event, names: &HandleTable, family: Family) -> Option<Elements> {
    let function = &*event.function;
    let input = |param: usize| event.inputs.get(param).and_then(Option::as_ref);
    let named = |name: &str| function.params.iter().position(|p| p.name == name).and_then(input);
    // The first rank is the peer, or the root of an operation between two groups.
    let peer = function.params.iter().position(|p| p.reads_as == "rank").and_then(input);
    if let (Some(Value::Int(peer)), Some(proc_null)) =
        (peer, constant_value(family, "MPI_PROC_NULL"))
        && *peer == proc_null
    {
        return Some(Elements::new());
    }
    let buffers = buffers(function);
    let is_scattered =
        matches!(op(function), Some(Op::Collective(Collective::Scatter | Collective::Scatterv)));
    let (mut buffer, other) = match (buffers.as_slice(), is_scattered) {
        ([sent, received, ..], true) => (*received, Some(*sent)),
        ([first, rest @ ..], _) => (*first, rest.first().copied()),
        ([], _) => return None,
    };
    let in_place = Layout::of(family).in_place;
    if let (Some(Value::Word(address)), Source::Value(in_place)) = (input(buffer.address), in_place)
        && *address == in_place as u64
    {
        if named("root").is_some() {
            return Some(Elements::new());
        }
        let is_array = |buffer: Buffer| function.params[buffer.count].array;
        buffer = other.filter(|other| is_array(*other) == is_array(buffer))?;
    }
    let mut counts = counts(input(buffer.count)?)?;
    if let Some(Value::Int(partitions)) = named("partitions") {
        let partitions = u64::try_from(*partitions).ok()?;
        counts.iter_mut().for_each(|count| *count = count.saturating_mul(partitions));
    }
    let datatypes = handles(input(buffer.datatype)?, names)?;
    match datatypes.as_slice() {
        [one] => Some(counts.into_iter().map(|count| (count, *one)).collect()),
        all if all.len() == counts.len() => Some(counts.into_iter().zip(datatypes).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer_of(name: &str) -> Option<String> {
        let function = FunctionDef::from(interface::function(name).unwrap());
        let buffer = buffers(&function).first().copied().filter(|_| has_payload(&function))?;
        let name = |param: usize| function.params[param].name.clone();
        Some([buffer.address, buffer.count, buffer.datatype].map(name).join(" "))
    }

    #[test]
    fn the_first_buffer_of_a_function_is_found_by_its_parameters() {
        for (function, expected) in [
            ("MPI_Isend", "buf count datatype"),
            ("MPI_Sendrecv", "sendbuf sendcount sendtype"),
            ("MPI_Alltoallw", "sendbuf sendcounts sendtypes"),
            ("MPI_Reduce_scatter", "recvbuf recvcounts datatype"),
            ("MPI_Put", "origin_addr origin_count origin_datatype"),
            ("MPI_File_write_at", "buf count datatype"),
            ("MPI_Mrecv", "buf count datatype"),
        ] {
            assert_eq!(buffer_of(function).as_deref(), Some(expected), "{function}");
        }
        for none in ["MPI_Barrier", "MPI_Get_count", "MPI_Pack", "MPI_Type_vector", "MPI_Start"] {
            assert_eq!(buffer_of(none), None, "{none}");
        }
    }
}
