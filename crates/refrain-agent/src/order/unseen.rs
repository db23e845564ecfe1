//! Wildcard receives of which the program has not seen what they received.
//!
//! A receive that was posted later may complete first, with the second message of a sender, while
//! the first one lies with an earlier receive that nobody has looked at. If the process is killed
//! now, the record would not know of the first message, and in a replay the later receive would
//! get it. So whenever a message is seen, earlier receives that would have accepted it are asked:
//! by MPI's rules they have matched something before.

use crate::table;
use refrain_order::{Arrivals, Envelope, MatchResult, Post, Ticket};
use std::ffi::c_int;

use super::mpi::{self, Status};

/// A receive whose message was not seen yet.
struct Unseen {
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
    /// In the order of posts.
    pub sequence: u64,
    /// Its slot, if what it receives may be seen late.
    slot: u32,
}

impl Posted {
    /// Of what was not posted.
    pub const NOT: Posted = Posted { sequence: 0, slot: NONE };
}

/// All of them, in the order they were posted.
#[derive(Default)]
pub struct AllUnseen {
    receives: Arrivals<Unseen>,
    sequence: u64,
}

/// So many earlier receives are looked at for a message. Those that would have had it are asked, and
/// have something, so each is asked once; others are only passed.
const MOST: usize = 1 << 14;

fn accepts(post: &Post, communicator: u32, from: Envelope) -> bool {
    post.communicator == communicator
        && post.source.is_none_or(|source| source == from.source)
        && post.tag.is_none_or(|tag| tag == from.tag)
}

impl AllUnseen {
    /// A receive was posted.
    #[inline]
    pub fn posted(&mut self, handle: usize, ticket: Ticket, post: &Post) -> Posted {
        self.sequence += 1;
        let sequence = self.sequence;
        if !ticket.wild {
            return Posted { sequence, slot: NONE };
        }
        let slot = self.receives.add(Unseen { ticket, handle, post: *post, sequence });
        Posted { sequence, slot }
    }

    /// What became of a receive is known.
    #[inline]
    pub fn is_seen(&mut self, posted: Posted) {
        // It may have been asked for, and its slot be another's.
        let own = self.receives.get(posted.slot);
        if own.is_some_and(|own| own.sequence == posted.sequence) {
            self.receives.remove(posted.slot);
        }
    }

    /// Whether there is nothing to ask.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.receives.is_empty()
    }

    /// Whether there are some that were posted before that one.
    #[inline]
    pub fn has_earlier(&self, sequence: u64) -> bool {
        self.receives.oldest().is_some_and(|unseen| unseen.sequence < sequence)
    }

    /// A receive of that place in the order has this message: what do earlier ones have? None of
    /// those listed may be gone, or its handle might be another's.
    pub fn earlier(
        &mut self,
        sequence: u64,
        communicator: u32,
        from: Envelope,
    ) -> Vec<(Ticket, MatchResult)> {
        let mut found = Vec::new();
        let mut seen = Vec::new();
        let earlier =
            self.receives.iter().take_while(|(_, unseen)| unseen.sequence < sequence).take(MOST);
        let asked = earlier.filter(|(_, unseen)| accepts(&unseen.post, communicator, from));
        for (slot, unseen) in asked {
            if let Some(from) = ask(unseen.handle) {
                found.push((unseen.ticket, MatchResult::Matched(from)));
                seen.push(Posted { sequence: unseen.sequence, slot });
            }
        }
        seen.into_iter().for_each(|posted| self.is_seen(posted));
        found
    }
}

/// What a request has received, if it is complete and was not cancelled.
fn ask(request: usize) -> Option<Envelope> {
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
