//! Orders by clocks: every message carries its sender's (Sato et al., SC '15; [`refrain_order::clock`]).
//!
//! Clocks travel beside messages, not in them: counts, probes, truncation and statuses are what
//! they would be. [`record`] lets MPI decide and tells [`refrain_order::clock::Recorder`] what it decided,
//! and which clock the message had; [`replay`] takes all messages out of MPI, holds receives back,
//! and gives them the messages that [`refrain_order::clock::Replayer`] says.
//!
//! * [`wire`]: what processes tell each other, and the channel for it
//! * [`comms`]: communicators by numbers that all of their processes have alike
//! * [`collectives`]: what collective operations do to clocks, the same when recording and replaying

mod collectives;
mod comms;
pub mod record;
pub mod replay;
mod wire;

use super::mpi;
use super::role::{Act, Hooked, Origin, Role};
use super::thread::Thread;
use refrain_order::Post;

/// Where a message goes.
#[derive(Clone, Copy)]
struct Target {
    /// The communicator's handle.
    comm: usize,
    dest: i32,
    tag: i32,
}

impl Target {
    /// That of a call that sends.
    fn of(call: &Hooked<'_>) -> Option<Target> {
        let Role { dest, sendtag, .. } = *call.role;
        if dest == Role::NOWHERE {
            return None;
        }
        let [dest, tag] = [dest, sendtag].map(|index| call.word(index) as i32);
        let target = Target { comm: call.comm(), dest, tag };
        (dest != mpi::layout().proc_null).then_some(target)
    }
}

/// Where a call was made. Of those that may find messages the whole stack counts: each stack has a
/// table of its own.
fn origin(call: &Hooked<'_>, thread: &Thread) -> Origin {
    let site = match call.role.act {
        Act::Receive(_) | Act::Probe(_) | Act::Complete(_) | Act::Arrive => {
            thread.stack(&call.entry)
        }
        _ => 0,
    };
    Origin { stream: thread.stream(), site }
}

/// Whether there is a process to receive from.
fn is_from_somebody(post: &Post) -> bool {
    post.source != Some(mpi::layout().proc_null)
}

/// The request that a call gives by address.
fn request_of(call: &Hooked<'_>) -> usize {
    // SAFETY: the table says a request is there.
    unsafe { mpi::handle_at(call.word(call.role.request) as *mut u8, 0) }
}

/// Puts a request where a call has one of several.
fn put_request(call: &Hooked<'_>, index: usize, handle: usize) {
    // SAFETY: the table says that so many requests are there.
    unsafe { mpi::put_handle(call.word(call.role.request) as *mut u8, index, handle) };
}
