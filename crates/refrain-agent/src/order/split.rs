//! Blocking calls split in two steps: the post, which takes a turn, and the wait.

use crate::inside::library::predefined;
use crate::table;
use refrain_order::Kind;
use std::ffi::c_int;

use super::mpi;
use super::role::{Hooked, Mode, Role};

/// Posts a receive; `words` are the arguments of `MPI_Irecv` without the request.
pub fn irecv(words: &[usize], large: bool, request: &mut usize) -> c_int {
    let function = if large { table::MPI_Irecv_c } else { table::MPI_Irecv };
    with_request(function, words, request)
}

/// Sends without waiting; `words` are the arguments of `MPI_Isend` without the request.
pub fn isend(words: &[usize], large: bool, mode: Mode, request: &mut usize) -> c_int {
    let function = match (mode, large) {
        (Mode::Standard, false) => table::MPI_Isend,
        (Mode::Standard, true) => table::MPI_Isend_c,
        (Mode::Buffered, false) => table::MPI_Ibsend,
        (Mode::Buffered, true) => table::MPI_Ibsend_c,
        (Mode::Synchronous, false) => table::MPI_Issend,
        (Mode::Synchronous, true) => table::MPI_Issend_c,
        (Mode::Ready, false) => table::MPI_Irsend,
        (Mode::Ready, true) => table::MPI_Irsend_c,
    };
    with_request(function, words, request)
}

/// Calls a function with the first six of these arguments and the address of a request.
fn with_request(function: usize, words: &[usize], request: &mut usize) -> c_int {
    let Some([a, b, c, d, e, f]) = words.first_chunk() else { return mpi::layout().err_other };
    let words = [*a, *b, *c, *d, *e, *f, &raw mut *request as usize];
    // SAFETY: the program's arguments, and room for a handle.
    unsafe { mpi::call(function, &words) }
}

/// Waits for an operation that was posted.
pub fn wait(request: &mut usize, status: usize) -> c_int {
    // SAFETY: the agent's request, and a status or none.
    unsafe { mpi::call(table::MPI_Wait, &[&raw mut *request as usize, status]) }
}

/// Source, tag and communicator of a receive.
pub fn envelope(call: &Hooked<'_>) -> [usize; 3] {
    let Role { source, tag, comm, .. } = *call.role;
    [source, tag, comm].map(|index| call.word(index))
}

/// The receive that a call makes, as arguments of `MPI_Irecv`.
pub fn received(call: &Hooked<'_>) -> [usize; 6] {
    let [buffer, count, datatype] = match *call.words {
        [_, _, _, _, _, buffer, count, datatype, _, _, _, _] => [buffer, count, datatype],
        [buffer, count, datatype, ..] => [buffer, count, datatype],
        _ => [0; 3],
    };
    let [source, tag, comm] = envelope(call);
    [buffer, count, datatype, source, tag, comm]
}

/// The send of `MPI_Sendrecv` or `MPI_Sendrecv_replace`, as arguments of `MPI_Isend`. The data of
/// `MPI_Sendrecv_replace` is packed first, since the receive overwrites the buffer.
pub fn sent(call: &Hooked<'_>, packed: &mut Vec<u8>) -> Result<[usize; 6], c_int> {
    let comm = call.comm();
    let [buffer, count, datatype, dest, tag, ..] = *call.words else {
        return Err(mpi::layout().err_other);
    };
    match call.words.len() {
        12 => Ok([buffer, count, datatype, dest, tag, comm]),
        _ => pack(call, packed),
    }
}

fn pack(call: &Hooked<'_>, packed: &mut Vec<u8>) -> Result<[usize; 6], c_int> {
    let [buffer, count, datatype, dest, tag, ..] = *call.words else {
        return Err(mpi::layout().err_other);
    };
    let comm = call.comm();
    let (size, pack) = match call.role.large {
        true => (table::MPI_Pack_size_c, table::MPI_Pack_c),
        false => (table::MPI_Pack_size, table::MPI_Pack),
    };
    // Large counts have eight bytes, others four: an eight-byte zero is right for both.
    let (mut bytes, mut position) = (0usize, 0usize);
    let as_packed = predefined("MPI_PACKED").unwrap_or(0);
    // SAFETY: the program's arguments, and room for the outputs.
    unsafe {
        let result = mpi::call(size, &[count, datatype, comm, &raw mut bytes as usize]);
        if result != 0 {
            return Err(result);
        }
        packed.resize(bytes.max(1), 0);
        let (address, at) = (packed.as_mut_ptr() as usize, &raw mut position as usize);
        match mpi::call(pack, &[buffer, count, datatype, address, bytes, at, comm]) {
            0 => Ok([address, position, as_packed, dest, tag, comm]),
            error => Err(error),
        }
    }
}

/// Probes once. Returns the result, and whether a message was found; an error counts as found.
pub fn look(call: &mut Hooked<'_>, kind: Kind, status: usize) -> (c_int, bool) {
    if kind.polls() {
        let result = call.forward_with_status(status as *mut u8);
        return (result, result != 0 || call.output(call.role.flag) != Some(0));
    }
    let [source, tag, comm] = envelope(call);
    let mut flag: c_int = 0;
    let flag_at = &raw mut flag as usize;
    // SAFETY: the program's arguments, an int, and a status of the program or the agent.
    let result = unsafe {
        match (kind, call.words.get(3)) {
            (Kind::Mprobe, Some(message)) => {
                mpi::call(table::MPI_Improbe, &[source, tag, comm, flag_at, *message, status])
            }
            _ => mpi::call(table::MPI_Iprobe, &[source, tag, comm, flag_at, status]),
        }
    };
    (result, result != 0 || flag != 0)
}

/// Makes a completing call without blocking; a blocking call is replaced by the corresponding test. Returns the
/// result, and whether anything completed.
pub fn poll(call: &Hooked<'_>, kind: Kind) -> (c_int, bool) {
    if kind.polls() {
        let result = call.forward();
        let found = call.output(call.role.flag).is_none_or(|flag| flag != 0);
        return (result, result != 0 || found);
    }
    let mut flag: c_int = 0;
    let flag_at = &raw mut flag as usize;
    // SAFETY: the program's arguments, and an int.
    unsafe {
        match (kind, &*call.words) {
            (Kind::Wait, &[request, status]) => {
                let result = mpi::call(table::MPI_Test, &[request, flag_at, status]);
                (result, result != 0 || flag != 0)
            }
            (Kind::Waitall, &[n, requests, statuses]) => {
                let words = [n, requests, flag_at, statuses];
                let result = mpi::call(table::MPI_Testall, &words);
                (result, result != 0 || flag != 0)
            }
            (Kind::Waitany, &[n, requests, index, status]) => {
                let words = [n, requests, index, flag_at, status];
                let result = mpi::call(table::MPI_Testany, &words);
                (result, result != 0 || flag != 0)
            }
            (Kind::Waitsome, &[n, requests, outcount, indices, statuses]) => {
                let words = [n, requests, outcount, indices, statuses];
                let result = mpi::call(table::MPI_Testsome, &words);
                (result, result != 0 || call.output(call.role.outcount) != Some(0))
            }
            _ => (call.forward(), true),
        }
    }
}
