//! Wildcard receives of which the program has not seen what they received.
//!
//! A receive that was posted later may complete first, with the second message of a sender, while
//! the first one lies with an earlier receive that nobody has looked at. If the process is killed
//! now, the record would not know of the first message, and in a replay the later receive would
//! get it. So whenever a message is seen, earlier receives that would have accepted it are asked:
//! by MPI's rules they have matched something before.

use crate::table;
use refrain_order::{Envelope, Fate, Post, Ticket};
use std::ffi::c_int;

use super::mpi::{self, Status};

/// A receive whose message was not seen yet.
struct Unseen {
    ticket: Ticket,
    handle: usize,
    post: Post,
    sequence: u64,
}

/// All of them, in the order they were posted.
#[derive(Default)]
pub struct AllUnseen {
    all: Vec<Unseen>,
    sequence: u64,
}

/// So many earlier receives are looked at for a message.
const MOST: usize = 256;

fn accepts(post: &Post, communicator: u32, from: Envelope) -> bool {
    post.communicator == communicator
        && post.source.is_none_or(|source| source == from.source)
        && post.tag.is_none_or(|tag| tag == from.tag)
}

impl AllUnseen {
    /// A receive was posted; gives its place in the order of posts.
    pub fn posted(&mut self, handle: usize, ticket: Ticket, post: &Post) -> u64 {
        self.sequence += 1;
        if ticket.wild {
            let (post, sequence) = (*post, self.sequence);
            self.all.push(Unseen { ticket, handle, post, sequence });
        }
        self.sequence
    }

    /// What became of a receive is known.
    pub fn is_seen(&mut self, ticket: Ticket) {
        if let Some(at) = self.all.iter().position(|unseen| unseen.ticket == ticket) {
            self.all.remove(at);
        }
    }

    /// Whether there is nothing to ask.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.all.is_empty()
    }

    /// A receive of that place in the order has this message: what do earlier ones have?
    pub fn earlier(
        &mut self,
        sequence: u64,
        communicator: u32,
        from: Envelope,
    ) -> Vec<(Ticket, Fate)> {
        let mut found = Vec::new();
        let earlier = self.all.iter().take_while(|unseen| unseen.sequence < sequence).take(MOST);
        let asked = earlier.filter(|unseen| accepts(&unseen.post, communicator, from));
        for unseen in asked {
            if let Some(from) = ask(unseen.handle) {
                found.push((unseen.ticket, Fate::Matched(from)));
            }
        }
        self.all.retain(|unseen| found.iter().all(|(ticket, _)| *ticket != unseen.ticket));
        found
    }
}

/// What a request has received, if it is complete and was not cancelled.
fn ask(request: usize) -> Option<Envelope> {
    let mut status = Status::new();
    let mut flag: c_int = 0;
    let words = [request, &raw mut flag as usize, status.place() as usize];
    // SAFETY: a request that is active, an int and a status.
    unsafe {
        let result = mpi::call(table::MPI_Request_get_status, &words);
        if result != 0 || flag == 0 || mpi::is_cancelled(status.place()) {
            return None;
        }
        Some(mpi::envelope(&mpi::status_fields(status.place(), 0)?))
    }
}
