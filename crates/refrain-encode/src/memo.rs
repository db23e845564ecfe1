//! Calls that look exactly like one before.
//!
//! In a loop, the records of a call are the same bytes again, but for the times. Where they are,
//! and what its handles and addresses stand for has not changed since, signature and outcome are
//! known without a look at the values. Calls that make or complete requests are among them, with
//! the effect on the requests repeated, if the requests are what they were.

use crate::objects::{Objects, Ref};
use crate::slots::Slots;
use refrain_bytes::table;
use refrain_mpi::status::StatusFields;

/// Calls remembered: a power of two.
const PLACES: usize = 1 << 13;

/// Records longer than this are not remembered.
const LONGEST: usize = 1 << 10;

/// What a call does to requests.
#[derive(Clone, Debug, Default)]
pub enum Effect {
    /// Nothing.
    #[default]
    None,
    /// It makes one.
    Makes(u64, Ref),
    /// It may complete some: handle, request, whether it is gone. In an array or not.
    Completes(Vec<(u64, Ref, bool)>, bool),
}

/// A call as it was.
#[derive(Debug, Default)]
pub struct Memo {
    /// Which one: function and, plus 1, call site.
    key: (u16, u32),
    /// See [`Objects::epoch`].
    epoch: u64,
    inputs: usize,
    bytes: Vec<u8>,
    /// Its signature.
    pub terminal: u32,
    /// Its outcome.
    pub outcome: Vec<u8>,
    /// What it did to requests.
    pub effect: Effect,
    /// The status it left.
    pub last_status: Option<StatusFields>,
}

/// The calls of a thread that are remembered.
#[derive(Debug, Default)]
pub struct Memos {
    places: Vec<Option<Box<Memo>>>,
    /// For each signature the place of its last call.
    by_signature: Vec<u16>,
}

/// The records of a call that succeeded.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// Function and, plus 1, call site.
    pub key: (u16, u32),
    /// See [`Objects::epoch`].
    pub epoch: u64,
    /// Its inputs.
    pub inputs: &'a [u8],
    /// Its outputs.
    pub outputs: &'a [u8],
}

impl Seen<'_> {
    fn place(&self) -> usize {
        let start = u64::from(self.key.0) << 32 ^ u64::from(self.key.1);
        let hash = table::hash(self.inputs).rotate_left(31) ^ table::hash(self.outputs) ^ start;
        (hash >> 40) as usize & (PLACES - 1)
    }
}

impl Memo {
    #[inline]
    fn is(&self, seen: &Seen<'_>) -> bool {
        self.key == seen.key
            && self.epoch == seen.epoch
            && self.inputs == seen.inputs.len()
            && self.bytes.len() == seen.inputs.len() + seen.outputs.len()
            && self.bytes.split_at_checked(self.inputs) == Some((seen.inputs, seen.outputs))
    }

    /// Repeats the effect on requests; false, with nothing done, where they are not the same.
    #[inline]
    pub fn repeat(&self, objects: &mut Objects, slots: &mut Slots, thread: u32) -> bool {
        match &self.effect {
            Effect::None => true,
            Effect::Makes(raw, re) => {
                let Ref::Request { thread, number, pool, .. } = *re else { return false };
                let same = objects.next_request(thread, pool) == number;
                if same {
                    objects.received_request(*raw, *re);
                }
                same
            }
            Effect::Completes(all, is_array) => {
                if !all.iter().all(|(raw, re, _)| objects.is_only(*raw, *re)) {
                    return false;
                }
                if *is_array {
                    slots.saw(all.iter().map(|(_, re, _)| *re), objects, thread);
                }
                for (raw, re, gone) in all {
                    if *gone {
                        objects.freed_request(*raw, *re, thread);
                    }
                }
                true
            }
        }
    }
}

impl Memos {
    /// The call that looks the same; the one expected is looked at first.
    #[inline]
    pub fn find(&self, seen: &Seen<'_>, expected: Option<u32>) -> Option<&Memo> {
        if let Some(expected) = expected
            && let Some(place) = self.by_signature.get(expected as usize)
            && let Some(Some(memo)) = self.places.get(usize::from(*place))
            && memo.is(seen)
        {
            return Some(memo);
        }
        self.places.get(seen.place())?.as_deref().filter(|memo| memo.is(seen))
    }

    /// Remembers a call.
    #[expect(
        clippy::indexing_slicing,
        reason = "made as long as that just before; `Seen::place` gives less than the number of places"
    )]
    pub fn add(
        &mut self,
        seen: &Seen<'_>,
        terminal: u32,
        outcome: &[u8],
        effect: Effect,
        last_status: Option<StatusFields>,
    ) {
        if seen.inputs.len() + seen.outputs.len() > LONGEST {
            return;
        }
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
        }
        let place = seen.place();
        if self.by_signature.len() <= terminal as usize {
            self.by_signature.resize(terminal as usize + 1, 0);
        }
        self.by_signature[terminal as usize] = place as u16;
        // What was there leaves its room behind.
        let memo = self.places[place].get_or_insert_with(Box::default);
        memo.bytes.clear();
        memo.bytes.extend_from_slice(seen.inputs);
        memo.bytes.extend_from_slice(seen.outputs);
        memo.outcome.clear();
        memo.outcome.extend_from_slice(outcome);
        (memo.key, memo.epoch, memo.inputs) = (seen.key, seen.epoch, seen.inputs.len());
        (memo.terminal, memo.effect, memo.last_status) = (terminal, effect, last_status);
    }
}
