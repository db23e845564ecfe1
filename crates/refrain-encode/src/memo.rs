//! Fast path: calls whose records are equal to those of an earlier call.
//!
//! In a loop, the records of a call are the same bytes in every iteration, except for the times.
//! If they are, and if its handles and addresses still mean the same objects, signature and outcome
//! are known without decoding the values. This includes calls that create or complete requests:
//! their effect on the requests is repeated, provided that the same requests are in flight.

use crate::objects::{Objects, Ref};
use crate::slots::Slots;
use refrain_bytes::table;
use refrain_mpi::status::StatusFields;

/// How many calls a thread remembers; a power of two.
const ENTRIES: usize = 1 << 13;

/// Records longer than this are not remembered.
const LONGEST: usize = 1 << 10;

/// What a call does to requests.
#[derive(Clone, Debug, Default)]
pub enum Effect {
    /// Nothing.
    #[default]
    None,
    /// It creates one.
    Makes(u64, Ref),
    /// It may complete some: handle, request, and whether it was freed; and whether they were
    /// passed as an array.
    Completes(Vec<(u64, Ref, bool)>, bool),
}

/// A remembered call.
#[derive(Debug, Default)]
pub struct Memo {
    /// Function, and call site plus 1 (0: no call site).
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
    /// The status that MPI wrote, if any.
    pub last_status: Option<StatusFields>,
}

/// The remembered calls of a thread.
#[derive(Debug, Default)]
pub struct Memos {
    entries: Vec<Option<Box<Memo>>>,
    /// For each signature, the index of its last call in `entries`.
    by_signature: Vec<u16>,
}

/// The records of a call that succeeded.
#[derive(Clone, Copy)]
pub struct CallRecords<'a> {
    /// Function, and call site plus 1 (0: no call site).
    pub key: (u16, u32),
    /// See [`Objects::epoch`].
    pub epoch: u64,
    /// Its inputs.
    pub inputs: &'a [u8],
    /// Its outputs.
    pub outputs: &'a [u8],
}

impl CallRecords<'_> {
    fn index(&self) -> usize {
        let start = u64::from(self.key.0) << 32 ^ u64::from(self.key.1);
        let hash = table::hash(self.inputs).rotate_left(31) ^ table::hash(self.outputs) ^ start;
        (hash >> 40) as usize & (ENTRIES - 1)
    }
}

impl Memo {
    #[inline]
    fn is(&self, records: &CallRecords<'_>) -> bool {
        self.key == records.key
            && self.epoch == records.epoch
            && self.inputs == records.inputs.len()
            && self.bytes.len() == records.inputs.len() + records.outputs.len()
            && self.bytes.split_at_checked(self.inputs) == Some((records.inputs, records.outputs))
    }

    /// Repeats the effect on requests. Returns false and does nothing if they are not the same.
    #[inline]
    pub fn repeat(&self, objects: &mut Objects, slots: &mut Slots, thread: u32) -> bool {
        match &self.effect {
            Effect::None => true,
            Effect::Makes(raw, re) => {
                let Ref::Request { thread, number, pool, .. } = *re else { return false };
                let same = objects.next_request(thread, pool) == number;
                if same {
                    objects.register_request(*raw, *re);
                }
                same
            }
            Effect::Completes(all, is_array) => {
                if !objects.are(all, thread) {
                    return false;
                }
                if *is_array {
                    slots.note(all.iter().map(|(_, re, _)| *re), objects, thread);
                }
                for (raw, re, gone) in all {
                    if *gone {
                        objects.free_request(*raw, *re, thread);
                    }
                }
                true
            }
        }
    }
}

impl Memos {
    /// The remembered call with the same records; the last call of signature `expected` is compared first.
    #[inline]
    pub fn find(&self, records: &CallRecords<'_>, expected: Option<u32>) -> Option<&Memo> {
        if let Some(expected) = expected
            && let Some(index) = self.by_signature.get(expected as usize)
            && let Some(Some(memo)) = self.entries.get(usize::from(*index))
            && memo.is(records)
        {
            return Some(memo);
        }
        self.entries.get(records.index())?.as_deref().filter(|memo| memo.is(records))
    }

    /// Remembers a call.
    #[expect(
        clippy::indexing_slicing,
        reason = "resized just before; `CallRecords::index` is below ENTRIES"
    )]
    pub fn add(
        &mut self,
        records: &CallRecords<'_>,
        terminal: u32,
        outcome: &[u8],
        effect: Effect,
        last_status: Option<StatusFields>,
    ) {
        if records.inputs.len() + records.outputs.len() > LONGEST {
            return;
        }
        if self.entries.is_empty() {
            self.entries.resize_with(ENTRIES, || None);
        }
        let index = records.index();
        if self.by_signature.len() <= terminal as usize {
            self.by_signature.resize(terminal as usize + 1, 0);
        }
        self.by_signature[terminal as usize] = index as u16;
        // The allocations of a replaced entry are reused.
        let memo = self.entries[index].get_or_insert_with(Box::default);
        memo.bytes.clear();
        memo.bytes.extend_from_slice(records.inputs);
        memo.bytes.extend_from_slice(records.outputs);
        memo.outcome.clear();
        memo.outcome.extend_from_slice(outcome);
        (memo.key, memo.epoch, memo.inputs) = (records.key, records.epoch, records.inputs.len());
        (memo.terminal, memo.effect, memo.last_status) = (terminal, effect, last_status);
    }
}
