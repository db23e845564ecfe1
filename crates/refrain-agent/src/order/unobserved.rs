//! Wildcard receives whose match the program has not observed yet.
//!
//! A receive that was posted later may complete first, with the second message of a sender, while an earlier
//! receive has got the first message and the program has not completed it. If the process is killed now, the
//! record lacks the first match, and in a replay the later receive would get that message. Therefore, whenever
//! the program observes a message, the agent asks MPI for the status of earlier receives that would have
//! accepted it: by MPI's matching rules they have been matched before.

use crate::table;
use refrain_order::{Arrivals, Envelope, MatchResult, Post, Ticket};
use std::ffi::c_int;

use super::mpi::{self, Status};

/// A receive whose match was not observed yet.
struct Unobserved {
    ticket: Ticket,
    handle: usize,
    post: Post,
    sequence: u64,
}

/// No slot.
const NONE: u32 = u32::MAX;

/// The position of a receive in posting order.
#[derive(Clone, Copy)]
pub struct Posted {
    /// The number of the post.
    pub sequence: u64,
    /// The slot of a wildcard receive in [`UnobservedReceives`].
    slot: u32,
}

impl Posted {
    /// The position of a receive that is not posted.
    pub const NOT: Posted = Posted { sequence: 0, slot: NONE };
}

/// All receives whose match was not observed, in posting order.
#[derive(Default)]
pub struct UnobservedReceives {
    receives: Arrivals<Unobserved>,
    sequence: u64,
}

/// The most earlier receives that are visited for one message. MPI is asked only about those that would have
/// accepted it; they have been matched, so it is asked once about each.
const MOST_VISITED: usize = 1 << 14;

fn accepts(post: &Post, communicator: u32, from: Envelope) -> bool {
    post.communicator == communicator
        && post.source.is_none_or(|source| source == from.source)
        && post.tag.is_none_or(|tag| tag == from.tag)
}

impl UnobservedReceives {
    /// A receive was posted.
    #[inline]
    pub fn posted(&mut self, handle: usize, ticket: Ticket, post: &Post) -> Posted {
        self.sequence += 1;
        let sequence = self.sequence;
        if !ticket.wild {
            return Posted { sequence, slot: NONE };
        }
        let slot = self.receives.add(Unobserved { ticket, handle, post: *post, sequence });
        Posted { sequence, slot }
    }

    /// The match result of a receive was observed.
    #[inline]
    pub fn observed(&mut self, posted: Posted) {
        // `observe_earlier` may have removed it, and another receive may have its slot.
        let receive = self.receives.get(posted.slot);
        if receive.is_some_and(|receive| receive.sequence == posted.sequence) {
            self.receives.remove(posted.slot);
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.receives.is_empty()
    }

    /// Whether there are some that were posted before the post of this number.
    #[inline]
    pub fn has_earlier(&self, sequence: u64) -> bool {
        self.receives.oldest().is_some_and(|receive| receive.sequence < sequence)
    }

    /// The post of this number has received the message `from`: asks MPI for the matches of earlier receives
    /// that accept it, and returns them. All listed requests must still exist: MPI may reuse the handle of one
    /// that is complete.
    pub fn observe_earlier(
        &mut self,
        sequence: u64,
        communicator: u32,
        from: Envelope,
    ) -> Vec<(Ticket, MatchResult)> {
        let mut found = Vec::new();
        let mut observed = Vec::new();
        let is_earlier = |(_, receive): &(u32, &Unobserved)| receive.sequence < sequence;
        let earlier = self.receives.iter().take_while(is_earlier).take(MOST_VISITED);
        let accepting = earlier.filter(|(_, receive)| accepts(&receive.post, communicator, from));
        for (slot, receive) in accepting {
            if let Some(from) = completed_match(receive.handle) {
                found.push((receive.ticket, MatchResult::Matched(from)));
                observed.push(Posted { sequence: receive.sequence, slot });
            }
        }
        observed.into_iter().for_each(|posted| self.observed(posted));
        found
    }
}

/// The message that a request has received, if it is complete and was not cancelled.
fn completed_match(request: usize) -> Option<Envelope> {
    let mut status = Status::new();
    let mut flag: c_int = 0;
    let words = [request, &raw mut flag as usize, status.address() as usize];
    // SAFETY: a request that is active, an int and a status.
    unsafe {
        let result = mpi::call(table::MPI_Request_get_status, &words);
        if result != 0 || flag == 0 || mpi::is_cancelled(status.address()) {
            return None;
        }
        mpi::envelope(status.address())
    }
}
