//! From intervals and durations to the moments at which calls began and returned.
//!
//! Lossy times are off by a bound each, so their sums drift. The start of every
//! [`EXACT_EVERY`](refrain_signature::times::EXACT_EVERY)th call is stored exactly. The calls from one exact start to
//! the next are a *stretch*. If their sum goes beyond the next exact start, the intervals between the calls of the
//! stretch are shortened by one factor, so that no call begins before the call before it has returned. Durations are
//! shown as they are stored. If the durations of a stretch alone go beyond the next exact start, that call begins
//! when the call before it has returned, and the intervals after it make up for the delay. Calls made inside a call
//! lie inside it.

use super::times::Ends;
use std::collections::VecDeque;

/// A call's times as they are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoredTimes {
    /// From the last return outside of the call to its start.
    pub gap: u64,
    /// From its start to its return; 0 if it never returned.
    pub duration: u64,
    /// When it began, exactly, where that is stored.
    pub start: Option<u64>,
    /// How many calls it was made inside of.
    pub depth: u32,
    /// Whether it returned.
    pub returned: bool,
    /// Whether gap and duration are exact.
    pub is_exact: bool,
}

/// When a call began and returned.
type Span = (u64, u64);

/// Gives calls their spans, stretch by stretch.
#[derive(Debug, Default)]
pub(super) struct Fit {
    sums: Sums,
}

impl Fit {
    /// Where the interval of a call at that depth counts from.
    pub fn before(&self, depth: u32) -> u64 {
        self.sums.ends.before(depth)
    }

    /// Appends the spans of a stretch: calls in the order of return, the first with an exact start. `next` is the call
    /// that the next stretch begins with.
    pub fn stretch(
        &mut self,
        calls: &[StoredTimes],
        next: Option<StoredTimes>,
        spans: &mut VecDeque<Span>,
    ) {
        let share = match next {
            Some(next) if calls.iter().any(|call| !call.is_exact) => self.share(calls, next),
            _ => Share::WHOLE,
        };
        for call in calls {
            spans.push_back(self.sums.add(call, share));
        }
    }

    /// What is left of the intervals of a stretch, so that it ends before the next exact start.
    fn share(&self, calls: &[StoredTimes], next: StoredTimes) -> Share {
        let Some(exact) = next.start else { return Share::WHOLE };
        let end = |share: Share| {
            let mut sums = self.sums.clone();
            for call in calls {
                sums.add(call, share);
            }
            sums.ends.before(next.depth).saturating_add(share.of(next.gap))
        };
        let (longest, shortest) = (end(Share::WHOLE), end(Share::NOTHING));
        match (exact.checked_sub(shortest), longest.checked_sub(shortest)) {
            (Some(room), Some(wanted)) if room < wanted => Share { room, wanted },
            (None, Some(1..)) => Share::NOTHING,
            _ => Share::WHOLE,
        }
    }
}

/// The part of each interval that is shown.
#[derive(Clone, Copy, Debug)]
struct Share {
    room: u64,
    wanted: u64,
}

impl Share {
    const WHOLE: Share = Share { room: 1, wanted: 1 };
    const NOTHING: Share = Share { room: 0, wanted: 1 };

    fn of(self, gap: u64) -> u64 {
        match self.room == self.wanted {
            true => gap,
            // Less than the interval, because there is less room than wanted.
            false => (u128::from(gap) * u128::from(self.room) / u128::from(self.wanted)) as u64,
        }
    }
}

/// Sums of intervals and durations.
#[derive(Clone, Debug, Default)]
struct Sums {
    ends: Ends,
    /// The last of all ends.
    latest: u64,
    /// Calls made inside a call that is still to come: depth, first start, last end. Depths increase.
    inner: Vec<(u32, Span)>,
}

impl Sums {
    /// The span of the next call.
    fn add(&mut self, call: &StoredTimes, share: Share) -> Span {
        let gap = if call.is_exact { call.gap } else { share.of(call.gap) };
        let summed = self.ends.before(call.depth).wrapping_add(gap);
        let mut start = call.start.unwrap_or(summed);
        let mut end = start.wrapping_add(call.duration);
        if !call.is_exact {
            let inner = self.take_inner(call.depth);
            let before = self.ends.before(call.depth);
            start = match inner {
                Some((first, _)) => start.min(first).max(before),
                None => start.max(self.latest),
            };
            end = start.saturating_add(call.duration);
            if let Some((_, last)) = inner.filter(|_| call.returned) {
                end = end.max(last);
            }
            self.latest = self.latest.max(end);
            self.note_inner(call.depth, (start, end));
        }
        self.ends.note(call.depth, end);
        (start, end)
    }

    /// The span of the calls that were made inside a call of that depth.
    fn take_inner(&mut self, depth: u32) -> Option<Span> {
        let mut whole: Option<Span> = None;
        while let Some((_, span)) = self.inner.pop_if(|(inner, _)| *inner > depth) {
            whole = Some(whole.map_or(span, |whole| (whole.0.min(span.0), whole.1.max(span.1))));
        }
        whole
    }

    fn note_inner(&mut self, depth: u32, span: Span) {
        match self.inner.last_mut() {
            _ if depth == 0 => {}
            Some((inner, whole)) if *inner == depth => whole.1 = whole.1.max(span.1),
            _ => self.inner.push((depth, span)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A call of the model program: the gap before it, its duration beyond that of the calls inside it, the errors of
    /// both when stored, and the calls made inside it.
    #[derive(Clone, Debug)]
    struct Model {
        gap: u64,
        duration: u64,
        errors: (f64, f64),
        inside: Vec<Model>,
    }

    fn model(error: f64) -> impl Strategy<Value = Model> {
        let leaf = (0u64..1_000_000, 0u64..1_000_000, -error..=error, -error..=error)
            .prop_map(|(gap, duration, a, b)| Model {
                gap,
                duration,
                errors: (a, b),
                inside: Vec::new(),
            })
            .boxed();
        let inner = prop::collection::vec(leaf.clone(), 0..3);
        prop_oneof![
            8 => leaf.clone(),
            1 => (leaf, inner).prop_map(|(outer, inside)| Model { inside, ..outer }),
        ]
    }

    /// The calls in the order of return: true span, and what is stored.
    fn run(program: &[Model], every: usize) -> Vec<(Span, StoredTimes)> {
        fn call(
            model: &Model,
            depth: u32,
            clock: &mut u64,
            out: &mut Vec<(Span, u32, (f64, f64))>,
        ) {
            *clock += model.gap;
            let start = *clock;
            *clock += model.duration / 2;
            model.inside.iter().for_each(|inner| call(inner, depth + 1, clock, out));
            *clock += model.duration - model.duration / 2;
            out.push(((start, *clock), depth, model.errors));
        }
        let (mut clock, mut all) = (1_000_000_000, Vec::new());
        program.iter().for_each(|model| call(model, 0, &mut clock, &mut all));
        let mut ends = Ends::default();
        let off = |time: u64, error: f64| ((time as f64) * (1.0 + error)).floor() as u64;
        let mut stored = Vec::new();
        for (number, ((start, end), depth, errors)) in all.into_iter().enumerate() {
            let gap = start - ends.before(depth);
            ends.note(depth, end);
            stored.push((
                (start, end),
                StoredTimes {
                    gap: off(gap, errors.0),
                    duration: off(end - start, errors.1),
                    start: number.is_multiple_of(every).then_some(start),
                    depth,
                    returned: true,
                    is_exact: false,
                },
            ));
        }
        stored
    }

    fn fitted(stored: &[(Span, StoredTimes)], every: usize) -> Vec<Span> {
        let (mut fit, mut spans) = (Fit::default(), VecDeque::new());
        let calls: Vec<StoredTimes> = stored.iter().map(|(_, stored)| *stored).collect();
        for (number, stretch) in calls.chunks(every).enumerate() {
            let next = calls.get((number + 1) * every).copied();
            fit.stretch(stretch, next, &mut spans);
        }
        spans.into()
    }

    proptest! {
        #[test]
        fn no_call_begins_before_the_one_before_it_has_returned(
            program in prop::collection::vec(model(0.1), 1..60),
            every in 1usize..9,
        ) {
            let stored = run(&program, every);
            let spans = fitted(&stored, every);
            prop_assert_eq!(spans.len(), stored.len());
            let mut outermost_end = 0;
            let mut inside: Vec<Span> = Vec::new();
            for ((start, end), (_, call)) in spans.iter().zip(&stored) {
                prop_assert!(start <= end, "{start} to {end}");
                if call.depth > 0 {
                    let before = inside.last().map_or(outermost_end, |(_, end)| *end);
                    prop_assert!(*start >= before, "an inner call at {start}, {before} before");
                    inside.push((*start, *end));
                    continue;
                }
                prop_assert!(*start >= outermost_end, "{start} is before {outermost_end}");
                for (first, last) in inside.drain(..) {
                    prop_assert!(*start <= first && last <= *end, "{first} to {last}");
                }
                outermost_end = *end;
            }
        }

        #[test]
        fn durations_stay_and_exact_starts_do_if_durations_leave_room(
            program in prop::collection::vec(model(0.1), 1..60),
            every in 1usize..9,
        ) {
            let flat: Vec<Model> =
                program.into_iter().map(|model| Model { inside: Vec::new(), ..model }).collect();
            let stored = run(&flat, every);
            let mut before = 0;
            let mut latest = 0;
            for (number, ((start, end), (truth, call))) in
                fitted(&stored, every).into_iter().zip(&stored).enumerate()
            {
                prop_assert_eq!(end - start, call.duration);
                if let Some(exact) = call.start {
                    // Durations of the stretch before alone reach no farther than this.
                    prop_assert!(start == exact || start == latest && before > exact);
                    before = start;
                }
                before += call.duration;
                latest = end;
                // Sums up to the end of the stretch that are off by a tenth each are off by a tenth.
                let last = (number / every * every + every).min(stored.len() - 1);
                let until_then = stored[last].0.1 - 1_000_000_000;
                prop_assert!(start.abs_diff(truth.0) <= until_then / 9 + 120);
            }
        }

        #[test]
        fn exact_times_come_back_as_they_were(
            program in prop::collection::vec(model(0.0), 1..40),
            every in 1usize..9,
        ) {
            let stored = run(&program, every);
            let truth: Vec<Span> = stored.iter().map(|(truth, _)| *truth).collect();
            prop_assert_eq!(fitted(&stored, every), truth.clone());
            let exact = |(truth, call): &(Span, StoredTimes)| {
                (*truth, StoredTimes { is_exact: true, ..*call })
            };
            let stored: Vec<_> = stored.iter().map(exact).collect();
            prop_assert_eq!(fitted(&stored, every), truth);
        }

        #[test]
        fn arbitrary_numbers_harm_nothing(
            calls in prop::collection::vec(
                (any::<u64>(), any::<u64>(), any::<Option<u64>>(), 0u32..4, any::<[bool; 2]>()),
                0..30,
            ),
        ) {
            type Numbers = (u64, u64, Option<u64>, u32, [bool; 2]);
            let call = |(gap, duration, start, depth, [returned, is_exact]): Numbers| {
                StoredTimes { gap, duration, start, depth, returned, is_exact }
            };
            let calls: Vec<StoredTimes> = calls.into_iter().map(call).collect();
            let (mut fit, mut spans) = (Fit::default(), VecDeque::new());
            for stretch in calls.chunks(5) {
                fit.stretch(stretch, calls.first().copied(), &mut spans);
            }
            prop_assert_eq!(spans.len(), calls.len());
        }
    }
}
