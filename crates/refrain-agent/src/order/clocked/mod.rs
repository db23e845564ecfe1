//! The clock method: every message carries its sender's Lamport clock (Sato et al., SC '15;
//! [`refrain_order::clock`]).
//!
//! Clocks are piggybacked beside messages, not in them, so counts, probes, truncation and statuses stay the same.
//! [`record`] lets MPI decide, and passes the outcome and the clock of the message to
//! [`refrain_order::clock::Recorder`]. [`replay`] receives all messages early, holds the program's receives back,
//! and gives them the messages that [`refrain_order::clock::Replayer`] chooses.
//!
//! * [`wire`]: the agent's messages between processes
//! * [`comms`]: numbers of communicators, the same in all of their processes
//! * [`collectives`]: how collective operations change clocks, the same when recording and replaying

mod collectives;
mod comms;
pub mod record;
pub mod replay;
mod wire;

use super::mpi;
use super::role::{Act, Hooked, Origin, Role};
use super::thread::Thread;
use refrain_order::Post;

/// The destination of a message.
#[derive(Clone, Copy)]
struct Target {
    /// The communicator's handle.
    comm: usize,
    dest: i32,
    tag: i32,
}

impl Target {
    /// The destination of a send; `None` if the call sends nothing, or to `MPI_PROC_NULL`.
    fn of(call: &Hooked<'_>) -> Option<Target> {
        let Role { dest, sendtag, .. } = *call.role;
        if dest == Role::ABSENT {
            return None;
        }
        let [dest, tag] = [dest, sendtag].map(|index| call.word(index) as i32);
        let target = Target { comm: call.comm(), dest, tag };
        (dest != mpi::layout().proc_null).then_some(target)
    }
}

/// The origin of a call. For calls that may find messages the call site is the whole stack: each stack has its own
/// table.
fn origin(call: &Hooked<'_>, thread: &Thread) -> Origin {
    let site = match call.role.act {
        Act::Receive(_) | Act::Probe(_) | Act::Complete(_) | Act::Arrive => {
            thread.stack(&call.entry)
        }
        _ => 0,
    };
    Origin { stream: thread.stream(), site }
}

/// Whether a receive has a source other than `MPI_PROC_NULL`.
fn has_source(post: &Post) -> bool {
    post.source != Some(mpi::layout().proc_null)
}

/// The request whose address is an argument of the call.
fn request_of(call: &Hooked<'_>) -> usize {
    // SAFETY: by the interface table, the argument points to a request.
    unsafe { mpi::handle_at(call.word(call.role.request) as *mut u8, 0) }
}

/// Sets one of the call's requests.
fn put_request(call: &Hooked<'_>, index: usize, handle: usize) {
    // SAFETY: by the interface table, the argument points to that many requests.
    unsafe { mpi::put_handle(call.word(call.role.request) as *mut u8, index, handle) };
}
