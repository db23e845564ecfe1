//! Wildcard receives of which the program has not seen what they received.
//!
//! A receive that was posted later may complete first, with the second message of a sender, while
//! the first one lies with an earlier receive that nobody has looked at. If the process is killed
//! now, the record would not know of the first message, and in a replay the later receive would
//! get it. So whenever a message is seen, earlier receives that would have accepted it are asked:
//! by MPI's rules they have matched something before.
//!
//! They are a list in the order of posting, in which each has a slot: receives come and go at any
//! place of it, and there may be thousands.

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
    /// The slots before and behind this one.
    before: u32,
    behind: u32,
}

/// No slot.
const NONE: u32 = u32::MAX;

/// A receive's place among those that were posted.
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
pub struct AllUnseen {
    slots: Vec<Unseen>,
    free: Vec<u32>,
    oldest: u32,
    latest: u32,
    sequence: u64,
}

impl Default for AllUnseen {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), oldest: NONE, latest: NONE, sequence: 0 }
    }
}

/// So many earlier receives are looked at for a message.
const MOST: usize = 256;

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
        let (post, before, behind) = (*post, self.latest, NONE);
        let unseen = Unseen { ticket, handle, post, sequence, before, behind };
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = unseen,
            None => self.slots.push(unseen),
        }
        self.link(before, slot);
        self.link(slot, NONE);
        Posted { sequence, slot }
    }

    /// Lets two slots follow each other.
    #[inline]
    fn link(&mut self, before: u32, behind: u32) {
        match self.slots.get_mut(before as usize) {
            Some(own) => own.behind = behind,
            None => self.oldest = behind,
        }
        match self.slots.get_mut(behind as usize) {
            Some(own) => own.before = before,
            None => self.latest = before,
        }
    }

    /// What became of a receive is known.
    #[inline]
    pub fn is_seen(&mut self, posted: Posted) {
        let Some(own) = self.slots.get_mut(posted.slot as usize) else { return };
        // It may have been asked for, and its slot be another's.
        if own.sequence == posted.sequence {
            own.sequence = 0;
            let (before, behind) = (own.before, own.behind);
            self.link(before, behind);
            self.free.push(posted.slot);
        }
    }

    /// Whether there is nothing to ask.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.oldest == NONE
    }

    /// Those in the order they were posted, each with its slot.
    fn iter(&self) -> impl Iterator<Item = (u32, &Unseen)> {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let (slot, own) = (next, self.slots.get(next as usize)?);
            next = own.behind;
            Some((slot, own))
        })
    }

    /// A receive of that place in the order has this message: what do earlier ones have? None of
    /// those listed may be gone, or its handle might be another's.
    pub fn earlier(
        &mut self,
        sequence: u64,
        communicator: u32,
        from: Envelope,
    ) -> Vec<(Ticket, Fate)> {
        let mut found = Vec::new();
        let mut seen = Vec::new();
        let earlier = self.iter().take_while(|(_, unseen)| unseen.sequence < sequence).take(MOST);
        let asked = earlier.filter(|(_, unseen)| accepts(&unseen.post, communicator, from));
        for (slot, unseen) in asked {
            if let Some(from) = ask(unseen.handle) {
                found.push((unseen.ticket, Fate::Matched(from)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receives_come_and_go_at_any_place() {
        let post = Post { site: 1, communicator: 0, source: None, tag: None };
        let mut all = AllUnseen::default();
        let ticket = |number| Ticket { stream: 0, wild: true, number };
        let mut posted: Vec<Posted> =
            (0..6).map(|n| all.posted(n, ticket(n as u64), &post)).collect();
        for at in [0, 2, 5] {
            all.is_seen(posted[at]);
            all.is_seen(posted[at]);
        }
        posted.push(all.posted(9, ticket(9), &post));
        let left =
            |all: &AllUnseen| -> Vec<usize> { all.iter().map(|(_, own)| own.handle).collect() };
        assert_eq!(left(&all), [1, 3, 4, 9]);
        // Its slot is another's now.
        all.is_seen(posted[5]);
        assert_eq!(left(&all), [1, 3, 4, 9]);
        posted.iter().for_each(|posted| all.is_seen(*posted));
        assert!(all.are_none());
        assert_eq!(all.posted(7, Ticket { wild: false, ..ticket(0) }, &post).slot, NONE);
        assert!(all.are_none());
    }
}
