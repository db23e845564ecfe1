//! The model of which receives calls completed by their requests.
//!
//! A replay does not need this: it follows the program's requests. Readers do, to say which receive a
//! `MPI_Waitany` completed. So it may cost next to nothing, and mostly it follows from what was before: the
//! receives of an array of requests are posted one after the other, and each is posted again as soon as it
//! completed, or all are when all have. Every question here is whether a guess is *wrong*. A coder writes
//! nothing as long as every answer is no, so a block that was guessed from beginning to end takes no bytes.

use std::collections::{BTreeSet, VecDeque};

use crate::causal::event::{Block, CallShape, Completion, Picked, PostShape};
use crate::coding::coder::{Bit, Coder};
use crate::coding::number::Number;
use crate::error::OrderError;
use crate::vocabulary::{Choice, Kind};
use refrain_bytes::varint::{unzigzag, zigzag};

/// More completions in one block come from damaged bytes.
const MOST: usize = 1 << 22;
/// Requests beyond are guessed without their index.
const MOST_SLOTS: usize = 1 << 12;
/// So many receives from the oldest one on are looked at that no call has completed.
const MOST_PENDING: u64 = 1 << 12;

/// The guesses about a receive.
mod guess {
    /// It was posted right after the last one of the same request had completed.
    pub const REPOSTED: usize = 0;
    /// It comes as long after the last one of the same request as that came after the one before.
    pub const STRIDE: usize = 1;
    /// It is the next after the last one that a call of the site completed.
    pub const NEXT: usize = 2;
    /// It is the oldest.
    pub const OLDEST: usize = 3;
    /// How many guesses there are.
    pub const ALL: usize = 4;
}

/// What the model has to know of the block whose completions it codes.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The thread.
    pub stream: u32,
    /// The number of its first receive.
    pub first_receive: u64,
    /// Its calls, picks and receives.
    pub block: &'a Block,
    /// All shapes of the thread so far.
    pub call_shapes: &'a [CallShape],
    /// All shapes of the thread so far.
    pub post_shapes: &'a [PostShape],
}

/// What is learnt of the completions of one thread.
#[derive(Clone, Debug, Default)]
pub struct CompletionModel {
    shapes: Vec<ShapeModel>,
    pending: Pending,
    /// How many completions there were so far.
    count: u64,
}

/// What is learnt of the calls of one shape.
#[derive(Clone, Debug)]
struct ShapeModel {
    /// Of calls that complete all their requests: which of them were wildcard receives the last time.
    indices: Vec<u32>,
    other_indices: Bit,
    several: Number,
    gap: Number,
    /// Of calls that choose: whether a request is not what its index was the last time.
    other_sort: Bit,
    last_sort: bool,
    slots: Vec<Slot>,
    guesses: Guesses,
}

/// What is known of an index in an array of requests.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Whether the last request there was a wildcard receive; nothing before the first.
    was_receive: Option<bool>,
    /// The last receive there, and how many completions came before its own.
    last: Option<(u64, u64)>,
}

/// Guesses the receive that a request was.
#[derive(Clone, Debug)]
struct Guesses {
    /// The guess that was right the last time.
    best: usize,
    wrong: [Bit; guess::ALL],
    other: Number,
    /// From an index to its first receive.
    base: u64,
    /// See [`guess::REPOSTED`] and [`guess::STRIDE`].
    steps: [u64; 2],
    last: u64,
    foreign: Bit,
    stream: Number,
    distance: Number,
}

impl ShapeModel {
    fn of(kind: Kind) -> Self {
        let chooses = kind.choice() != Choice::All;
        Self {
            indices: Vec::new(),
            other_indices: Bit::EVEN,
            several: Number::default(),
            gap: Number::default(),
            other_sort: Bit::EVEN,
            last_sort: true,
            slots: Vec::new(),
            guesses: Guesses {
                best: if chooses { guess::REPOSTED } else { guess::OLDEST },
                wrong: [Bit::EVEN; guess::ALL],
                other: Number::default(),
                base: 0,
                steps: [0; 2],
                last: 0,
                foreign: Bit::EVEN,
                stream: Number::default(),
                distance: Number::default(),
            },
        }
    }

    fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        let at = index as usize;
        if self.slots.len() <= at && at < MOST_SLOTS {
            self.slots.resize(at + 1, Slot::default());
        }
        self.slots.get_mut(at)
    }
}

/// Whether a call completes requests.
fn has_requests(kind: Kind) -> bool {
    use Kind::*;
    matches!(kind, Wait | Waitall | Waitany | Waitsome | Test | Testall | Testany | Testsome)
}

/// Whether a call posts the receive that it completes.
pub fn posts(kind: Kind) -> bool {
    use Kind::*;
    matches!(kind, Recv | Sendrecv | Probe | Mprobe | Iprobe | Improbe)
}

impl CompletionModel {
    /// A model that knows nothing of receives before this one.
    pub fn after(receive: u64) -> Self {
        let pending = Pending { first: receive, ..Pending::default() };
        Self { pending, ..Self::default() }
    }

    /// Codes the completions of a block. An encoder gives them in the order of the calls, and those of a call
    /// in the order of its indices.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        context: Context<'_>,
        mut given: &[Completion],
    ) -> Result<Vec<Completion>, OrderError> {
        self.leave_out_posting_calls(&context);
        let mut coded = Vec::new();
        let mut picks = &context.block.picks[..];
        for (call, event) in (0u32..).zip(&context.block.calls) {
            let several =
                if let Picked::These(several) = event.picked { several as usize } else { 0 };
            let (picked, rest) = picks.split_at_checked(several).unwrap_or((picks, &[]));
            picks = rest;
            let own = given.iter().take_while(|completion| completion.call == call).count();
            let (own, rest) = given.split_at_checked(own).unwrap_or_default();
            given = rest;
            let shape = context.call_shapes.get(event.shape as usize);
            let shape = shape.ok_or(OrderError::OutOfRange("call shape"))?;
            if !has_requests(shape.kind) || event.picked == Picked::Undefined {
                continue;
            }
            while self.shapes.len() <= event.shape as usize {
                let kind = context.call_shapes.get(self.shapes.len()).map(|shape| shape.kind);
                self.shapes.push(ShapeModel::of(kind.unwrap_or(shape.kind)));
            }
            let Self { shapes, pending, count } = self;
            let Some(model) = shapes.get_mut(event.shape as usize) else { continue };
            let mut coding = Coding { coder, model, pending, count, stream: context.stream };
            match event.picked {
                Picked::These(_) => coding.chosen(call, picked, own, &mut coded),
                _ => coding.all(call, event.count.max(1), own, &mut coded)?,
            }
            if coded.len() > MOST {
                return Err(OrderError::OutOfRange("number of completions"));
            }
        }
        Ok(coded)
    }

    /// Receives that complete in the call that posts them are not among those that requests complete.
    fn leave_out_posting_calls(&mut self, context: &Context<'_>) {
        let posting = context.call_shapes.iter().filter(|shape| posts(shape.kind));
        let posting: BTreeSet<u64> = posting.map(|shape| shape.site).collect();
        if posting.is_empty() {
            return;
        }
        let is_posting = |shape: &PostShape| posting.contains(&shape.site);
        let is_posting: Vec<bool> = context.post_shapes.iter().map(is_posting).collect();
        for (number, receive) in (context.first_receive..).zip(&context.block.receives) {
            if is_posting.get(receive.shape as usize) == Some(&true) {
                self.pending.complete(number);
            }
        }
    }
}

/// The coding of one call's completions.
struct Coding<'m, C> {
    coder: &'m mut C,
    model: &'m mut ShapeModel,
    pending: &'m mut Pending,
    count: &'m mut u64,
    stream: u32,
}

impl<C: Coder> Coding<'_, C> {
    /// Codes those of a call that completes some of its requests.
    fn chosen(
        &mut self,
        call: u32,
        picked: &[u32],
        own: &[Completion],
        coded: &mut Vec<Completion>,
    ) {
        let mut own = own.iter().peekable();
        for index in picked {
            let given = own.next_if(|completion| completion.index == *index);
            let before = self.model.slot(*index).and_then(|slot| slot.was_receive);
            let guess = before.unwrap_or(self.model.last_sort);
            let is_other = self.coder.bit(&mut self.model.other_sort, given.is_some() != guess);
            let is_receive = is_other != guess;
            self.model.last_sort = is_receive;
            if let Some(slot) = self.model.slot(*index) {
                slot.was_receive = Some(is_receive);
            }
            if is_receive {
                coded.push(self.completion(call, *index, given));
            }
        }
    }

    /// Codes those of a call that completes all its requests, which are `count`.
    fn all(
        &mut self,
        call: u32,
        count: u32,
        own: &[Completion],
        coded: &mut Vec<Completion>,
    ) -> Result<(), OrderError> {
        let indices = own.iter().map(|completion| completion.index);
        let differ = !indices.eq(self.model.indices.iter().copied());
        let mut indices = std::mem::take(&mut self.model.indices);
        if self.coder.bit(&mut self.model.other_indices, differ) {
            indices.clear();
            let several = self.model.several.code(self.coder, own.len() as u64);
            if several > u64::from(count) || several > MOST as u64 {
                return Err(OrderError::OutOfRange("number of completions"));
            }
            let mut least = 0u32;
            for n in 0..several as usize {
                let index = own.get(n).map_or(least, |completion| completion.index);
                let gap = self.model.gap.code(self.coder, index.wrapping_sub(least).into());
                let index = u32::try_from(gap).ok().and_then(|gap| least.checked_add(gap));
                let index = index.ok_or(OrderError::OutOfRange("index of a request"))?;
                indices.push(index);
                least = index.saturating_add(1);
            }
        }
        for (n, index) in indices.iter().enumerate() {
            coded.push(self.completion(call, *index, own.get(n)));
        }
        self.model.indices = indices;
        Ok(())
    }

    /// Codes which receive a request was.
    fn completion(&mut self, call: u32, index: u32, given: Option<&Completion>) -> Completion {
        let slot = self.model.slot(index).and_then(|slot| slot.last);
        let wanted = given.map_or((self.stream, 0), |given| (given.stream, given.receive));
        let guesses = &mut self.model.guesses;
        let (stream, receive) =
            guesses.code(self.coder, self.pending, (self.stream, index, slot), wanted);
        if stream == self.stream {
            guesses.learn(index, slot, receive);
            self.pending.complete(receive);
            if let Some(slot) = self.model.slot(index) {
                slot.last = Some((receive, *self.count));
            }
        }
        *self.count = self.count.wrapping_add(1);
        Completion { call, index, stream, receive }
    }
}

impl Guesses {
    /// One of the guesses, about request `index`, whose last receive was `slot`.
    fn guess(&self, which: usize, pending: &Pending, index: u32, slot: Option<(u64, u64)>) -> u64 {
        match (which, slot) {
            (guess::REPOSTED | guess::STRIDE, None) => self.base.wrapping_add(index.into()),
            (guess::REPOSTED, Some((_, count))) => count.wrapping_add(self.steps[0]),
            (guess::STRIDE, Some((receive, _))) => receive.wrapping_add(self.steps[1]),
            (guess::NEXT, _) => pending.next_after(self.last),
            _ => pending.first,
        }
    }

    /// Codes the thread and the number of a receive.
    #[expect(clippy::indexing_slicing, reason = "a guess is less than their number")]
    fn code(
        &mut self,
        coder: &mut impl Coder,
        pending: &Pending,
        (own, index, slot): (u32, u32, Option<(u64, u64)>),
        (stream, receive): (u32, u64),
    ) -> (u32, u64) {
        let is = |guess: u64| stream == own && receive == guess;
        let best = self.guess(self.best, pending, index, slot);
        if !coder.bit(&mut self.wrong[self.best], !is(best)) {
            return (own, best);
        }
        let guesses: [u64; guess::ALL] =
            std::array::from_fn(|which| self.guess(which, pending, index, slot));
        let right = guesses.iter().position(|guess| is(*guess)).unwrap_or(guess::ALL);
        let right = self.other.code(coder, right as u64) as usize;
        if let Some(guess) = guesses.get(right) {
            self.best = right;
            return (own, *guess);
        }
        let is_foreign = coder.bit(&mut self.foreign, stream != own);
        let stream = if is_foreign { self.stream.code(coder, stream.into()) as u32 } else { own };
        let from = if is_foreign { 0 } else { pending.first };
        let distance = self.distance.code(coder, zigzag(receive.wrapping_sub(from) as i64));
        (stream, from.wrapping_add(unzigzag(distance) as u64))
    }

    fn learn(&mut self, index: u32, slot: Option<(u64, u64)>, receive: u64) {
        match slot {
            Some((last, count)) => {
                self.steps = [receive.wrapping_sub(count), receive.wrapping_sub(last)];
            }
            None => self.base = receive.wrapping_sub(index.into()),
        }
        self.last = receive;
    }
}

/// Receives that no call has completed yet, from the oldest on.
#[derive(Clone, Debug, Default)]
struct Pending {
    /// The oldest. All before it are complete, or forgotten.
    first: u64,
    /// Whether it and those after it are complete.
    complete: VecDeque<bool>,
}

impl Pending {
    /// A receive is complete.
    fn complete(&mut self, receive: u64) {
        let Some(mut at) = receive.checked_sub(self.first) else { return };
        if at >= MOST_PENDING {
            let forgotten = at - MOST_PENDING + 1;
            let listed = (self.complete.len() as u64).min(forgotten);
            self.complete.drain(..listed as usize);
            self.first += forgotten;
            at = MOST_PENDING - 1;
        }
        let at = at as usize;
        if self.complete.len() <= at {
            self.complete.resize(at + 1, false);
        }
        if let Some(complete) = self.complete.get_mut(at) {
            *complete = true;
        }
        while self.complete.front() == Some(&true) {
            self.complete.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// The first one after a receive that is not complete.
    fn next_after(&self, receive: u64) -> u64 {
        let next = receive.wrapping_add(1);
        let Some(from) = next.checked_sub(self.first) else { return self.first };
        let listed = self.complete.iter().skip(usize::try_from(from).unwrap_or(usize::MAX));
        next.wrapping_add(listed.take_while(|complete| **complete).count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causal::event::CallEvent;
    use crate::coding::coder::{Decoder, Encoder};
    use proptest::prelude::*;

    const KINDS: [Kind; 8] = [
        Kind::Wait,
        Kind::Waitall,
        Kind::Waitany,
        Kind::Waitsome,
        Kind::Recv,
        Kind::Testany,
        Kind::Testsome,
        Kind::Iprobe,
    ];

    fn shapes() -> Vec<CallShape> {
        KINDS.iter().map(|kind| CallShape { kind: *kind, site: *kind as u64 }).collect()
    }

    /// The index of a request, and thread and number of the wildcard receive that it was, if any.
    type Request = (u32, Option<(u32, u64)>);

    /// A block of calls, each with the requests it completed.
    fn block(calls: &[(u8, Vec<Request>)]) -> (Block, Vec<Completion>) {
        let (mut block, mut completions) = (Block::default(), Vec::new());
        for (call, (shape, requests)) in (0..).zip(calls) {
            let kind = KINDS[usize::from(*shape)];
            let chooses = kind.choice() != Choice::All;
            let several = requests.len() as u32;
            let picked = if chooses { Picked::These(several) } else { Picked::All };
            let shape = (*shape).into();
            block.calls.push(CallEvent { shape, count: 100, polls: 0, picked });
            for (index, receive) in requests {
                if chooses {
                    block.picks.push(*index);
                }
                if let (Some((stream, receive)), true) = (*receive, has_requests(kind)) {
                    completions.push(Completion { call, index: *index, stream, receive });
                }
            }
        }
        (block, completions)
    }

    /// Codes blocks one after the other, and reads them back.
    fn coded(blocks: &[(Block, Vec<Completion>)]) -> usize {
        let (call_shapes, mut bytes) = (shapes(), Vec::new());
        let [mut writer, mut reader] = [CompletionModel::default(), CompletionModel::default()];
        for (block, completions) in blocks {
            let context = Context {
                stream: 0,
                first_receive: 0,
                block,
                call_shapes: &call_shapes,
                post_shapes: &[],
            };
            let mut encoder = Encoder::default();
            writer.code(&mut encoder, context, completions).unwrap();
            let coded = encoder.finish();
            let read = reader.code(&mut Decoder::new(&coded), context, &[]).unwrap();
            assert_eq!(read, *completions);
            bytes.extend(coded);
        }
        bytes.len()
    }

    proptest! {
        #[test]
        fn completions_come_back(
            blocks in prop::collection::vec(
                prop::collection::vec(
                    (0u8..8, prop::collection::btree_map(
                        0u32..90, prop::option::of((0u32..3, prop_oneof![0u64..50, any::<u64>()])), 0..5)),
                    0..20),
                0..4),
        ) {
            let one = |kind: u8| KINDS[usize::from(kind)].choice() == Choice::One;
            let blocks: Vec<_> = blocks
                .into_iter()
                .map(|calls| {
                    let calls: Vec<_> = calls
                        .into_iter()
                        .map(|(kind, requests)| {
                            let most = if one(kind) { 1 } else { 5 };
                            (kind, requests.into_iter().take(most).collect())
                        })
                        .collect();
                    block(&calls)
                })
                .collect();
            coded(&blocks);
        }

        #[test]
        fn damaged_bytes_end_in_an_error_or_in_some_completions(bytes: Vec<u8>) {
            let (block, _) = block(&[(1, vec![]), (3, vec![(1, None), (0, None)]), (0, vec![])]);
            let (call_shapes, mut model) = (shapes(), CompletionModel::default());
            let context = Context {
                stream: 0,
                first_receive: 0,
                block: &block,
                call_shapes: &call_shapes,
                post_shapes: &[],
            };
            let _ = model.code(&mut Decoder::new(&bytes), context, &[]);
        }
    }

    #[test]
    fn a_pool_whose_receives_are_posted_again_takes_a_few_bytes() {
        // Which request completes is arbitrary; the receive is that posted last for it.
        let (mut posted, mut next, mut calls) = ([0, 1, 2, 3], 4, Vec::new());
        for n in 0..10_000u32 {
            let slot = (n.wrapping_mul(2_654_435_761) >> 20) as usize % 4;
            calls.push((2, vec![(slot as u32, Some((0, posted[slot])))]));
            posted[slot] = next;
            next += 1;
        }
        let blocks: Vec<_> = calls.chunks(1000).map(block).collect();
        let bytes = coded(&blocks);
        assert!(bytes < 16, "{bytes} bytes");
    }

    #[test]
    fn receives_and_sends_that_complete_together_take_a_few_bytes() {
        let calls: Vec<_> = (0..5_000u64)
            .map(|n| (1, (0..4).map(|i| (2 * i, Some((0, 4 * n + u64::from(i))))).collect()))
            .collect();
        let bytes = coded(&[block(&calls)]);
        assert!(bytes < 16, "{bytes} bytes");
    }

    #[test]
    fn arrays_that_are_posted_anew_when_all_have_completed_take_a_few_bytes() {
        let wave = |n: u64| {
            let order = [[0u32, 1, 2, 3], [3, 1, 0, 2], [2, 0, 3, 1]][n as usize % 3];
            order.map(|i| (5, vec![(i, Some((0, 4 * n + u64::from(i))))]))
        };
        let calls: Vec<_> = (0..2_000).flat_map(wave).collect();
        let bytes = coded(&[block(&calls)]);
        assert!(bytes < 16, "{bytes} bytes");
    }

    #[test]
    fn the_oldest_receive_is_known_however_many_are_pending() {
        let mut pending = Pending::default();
        pending.complete(1);
        assert_eq!((pending.first, pending.next_after(0)), (0, 2));
        pending.complete(0);
        assert_eq!((pending.first, pending.next_after(7)), (2, 8));
        pending.complete(10 + MOST_PENDING);
        assert_eq!(pending.first, 11);
        pending.complete(u64::MAX);
        assert!(pending.complete.len() as u64 <= MOST_PENDING);
        assert_eq!(pending.next_after(3), pending.first);
    }
}
