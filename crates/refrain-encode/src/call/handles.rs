//! The handles of a call: inputs, outputs, and arrays that the call changes.

use super::{Bytes, Writer};
use crate::memo::Effect;
use crate::objects::Ref;
use crate::task::Task;
use refrain_bytes::table::Map;
use refrain_format::record::{array as codes, state};
use refrain_signature::array;
use refrain_signature::cells::put;
use refrain_signature::codes::{change, code};
use refrain_signature::plan::{Makes, Op};

/// Appends the cells of an object; `own` is the thread that made the call.
#[inline]
pub fn put_ref(task: &mut Task, own: u32, out: &mut Vec<u8>, re: Ref) {
    match re {
        Ref::Predefined(index) => put(out, -1 - i64::from(task.predefined(index))),
        Ref::Object { thread, number } if thread == own => put(out, number.into()),
        Ref::Request { thread, signature, number, .. } if thread == own => {
            put(out, i64::from(signature) + 1);
            put(out, number.into());
        }
        Ref::Object { thread, number } => {
            [0, thread, number].into_iter().for_each(|v| put(out, v.into()));
        }
        Ref::Request { thread, signature, number, .. } => {
            [0, thread, signature, number].into_iter().for_each(|v| put(out, v.into()));
        }
    }
}

impl Writer<'_, '_> {
    /// Marks a request whose creation was not recorded: it is encoded like other objects.
    #[inline]
    pub(super) fn mark_unknown_request(&mut self, kind: u8, re: Ref, to: bool) {
        if matches!(re, Ref::Object { .. }) && self.is_request(kind) {
            self.put(to, 0);
            self.put(to, -1);
        }
    }

    /// Encodes an array of handles that are all inputs or all outputs.
    pub(super) fn handles(
        &mut self,
        op: &Op,
        kind: u8,
        bytes: &mut Bytes<'_>,
        to: bool,
        output: bool,
    ) -> Option<()> {
        let Some(n) = self.count(bytes, to)? else { return Some(()) };
        let mut all = Bytes { rest: bytes.take(n.checked_mul(8)?)? };
        let mut refs = std::mem::take(&mut self.scratch.refs);
        refs.clear();
        let is_request = self.is_request(kind);
        let mut raws = std::mem::take(&mut self.scratch.raws);
        raws.clear();
        // How often each handle that means several requests has occurred.
        let mut turns: Map<u64, usize> = Map::default();
        while let Some(raw) = all.u64() {
            let re = if output {
                self.objects.register(kind, raw, self.thread)
            } else {
                let shared = is_request && self.objects.queued(kind, raw) > 1;
                let turn = match shared {
                    true => {
                        let next = turns.entry(raw).or_insert(0);
                        *next += 1;
                        *next - 1
                    }
                    false => 0,
                };
                self.objects.resolve(kind, raw, self.thread, turn)
            };
            raws.push(raw);
            refs.push(re);
        }
        if op.changes {
            self.scratch.before.extend(raws.iter().copied().zip(refs.iter().copied()));
        }
        if is_request {
            self.scratch.requests.extend(raws.iter().copied().zip(refs.iter().copied()));
            self.slots.fill(&mut refs, self.objects, self.thread);
        }
        let own = self.thread;
        let foreign = |re: &Ref| match *re {
            Ref::Predefined(_) => false,
            Ref::Object { thread, .. } | Ref::Request { thread, .. } => thread != own,
        };
        // A request whose creation was not recorded is encoded like other objects.
        let unknown = |re: &Ref| is_request && matches!(re, Ref::Object { .. });
        let out = if to { &mut *self.outcome } else { &mut *self.signature };
        if refs.iter().any(foreign) || refs.iter().any(unknown) {
            put(out, code::MIXED);
            put(out, n as i64);
            // Nulls stay null here: the decoder cannot follow the requests that `Slots` put in.
            for (i, filled) in refs.iter().enumerate() {
                let passed = self.scratch.requests.get(i).filter(|_| is_request);
                let re = match passed {
                    Some((_, passed)) if self.objects.is_null(*passed) => *passed,
                    _ => *filled,
                };
                if unknown(&re) {
                    put(out, 0);
                    put(out, -1);
                }
                put_ref(self.task, own, out, re);
            }
        } else {
            put(out, n as i64);
            let [firsts, seconds] = &mut self.scratch.columns;
            firsts.clear();
            seconds.clear();
            for re in &refs {
                let (first, second) = match *re {
                    Ref::Predefined(index) => (-1 - i64::from(self.task.predefined(index)), 0),
                    Ref::Object { number, .. } => (number.into(), 0),
                    Ref::Request { signature, number, .. } => {
                        (i64::from(signature) + 1, number.into())
                    }
                };
                firsts.push(first);
                seconds.push(second);
            }
            array::put(out, firsts, &[]);
            if is_request {
                array::put(out, seconds, &[]);
            }
        }
        (self.scratch.refs, self.scratch.raws) = (refs, raws);
        Some(())
    }

    /// Encodes a handle that the call returned.
    pub(super) fn new_handle(&mut self, kind: u8, bytes: &mut Bytes<'_>) -> Option<()> {
        let to = self.plan.decides;
        let found = bytes.u8()?;
        self.put(to, found.into());
        if found != state::VALUE {
            return Some(());
        }
        let raw = bytes.u64()?;
        let is_new_request = self.plan.makes != Makes::Nothing
            && self.is_request(kind)
            && self.objects.find_predefined(kind, raw).is_none();
        if is_new_request {
            // Its number depends on the whole signature; `request_made` assigns it.
            self.put(to, 0);
            self.scratch.made = Some(raw);
        } else {
            let re = self.objects.register(kind, raw, self.thread);
            if self.is_request(kind) {
                self.put(to, 1);
            }
            let (task, thread) = (&mut *self.task, self.thread);
            put_ref(task, thread, if to { self.outcome } else { self.signature }, re);
        }
        Some(())
    }

    /// Numbers the request that the call created, with the smallest number that no request in flight of
    /// the same signature has.
    #[inline]
    pub(super) fn request_made(&mut self) {
        let Some(raw) = self.scratch.made else { return };
        let length = self.signature.len();
        put(self.signature, 0);
        let base = self.task.signature(self.function, self.signature, self.outcome);
        let Some(base) = base else { return };
        let pool = match self.task.signatures.get_mut(base) {
            Some(s) if s.pool != crate::signature::NONE => s.pool,
            Some(s) => {
                s.pool = self.objects.new_pool(self.thread);
                s.pool
            }
            None => return,
        };
        let number = self.objects.next_request(self.thread, pool);
        self.scratch.terminal = Some(base);
        if number > 0 {
            self.signature.truncate(length);
            put(self.signature, number.into());
            put(self.signature, base.into());
            self.scratch.terminal =
                self.task.signature(self.function, self.signature, self.outcome);
        }
        let (thread, signature, function) = (self.thread, base, self.function);
        let re = Ref::Request { thread, signature, number, pool, function };
        self.objects.register_request(raw, re);
        self.scratch.effect = Some(Effect::Makes(raw, re));
    }

    /// Reads the handles after the call. If there are none, returns the state or code that replaces them.
    pub(super) fn handles_after(&mut self, op: &Op, bytes: &mut Bytes<'_>) -> Option<Option<i64>> {
        if op.array {
            let n = match bytes.u32()? {
                n if n >= codes::FIRST => {
                    if n == codes::SPECIAL {
                        bytes.u64()?;
                    }
                    return Some(Some(match n {
                        codes::NULL => code::NULL,
                        codes::INSIGNIFICANT => code::INSIGNIFICANT,
                        codes::IGNORED => code::IGNORED,
                        _ => code::UNSET,
                    }));
                }
                n => n as usize,
            };
            let mut all = Bytes { rest: bytes.take(n.checked_mul(8)?)? };
            while let Some(raw) = all.u64() {
                self.scratch.after.push(raw);
            }
        } else {
            let found = bytes.u8()?;
            if found != state::VALUE {
                return Some(Some(found.into()));
            }
            self.scratch.after.push(bytes.u64()?);
        }
        Some(None)
    }

    /// Encodes how handles changed, and frees the objects whose handles were replaced.
    pub(super) fn change(&mut self, kind: u8, is_array: bool, unset: Option<i64>) {
        let to = self.plan.decides;
        if let Some(unset) = unset {
            self.put(to, change::UNSET);
            return self.put(to, unset);
        }
        let before = std::mem::take(&mut self.scratch.before);
        self.scratch.effect = None;
        let after = std::mem::take(&mut self.scratch.after);
        let mut is_completed = std::mem::take(&mut self.scratch.is_completed);
        is_completed.clear();
        is_completed.resize(before.len(), false);
        for index in &self.scratch.indices {
            if let Some(completed) =
                usize::try_from(*index).ok().and_then(|i| is_completed.get_mut(i))
            {
                *completed = true;
            }
        }
        let (mut none, mut all, mut indexed) = (true, true, true);
        for (i, ((old, re), new)) in before.iter().zip(&after).enumerate() {
            let same = old == new;
            let nulled = !same
                && self
                    .objects
                    .find_predefined(kind, *new)
                    .is_some_and(|index| self.objects.is_null(Ref::Predefined(index)));
            let can_be_nulled = !self.objects.is_null(*re) && !self.is_persistent(*re);
            none &= same;
            all &= if can_be_nulled { nulled } else { same };
            let is_indexed = is_completed.get(i).copied().unwrap_or(false);
            indexed &= if can_be_nulled && is_indexed { nulled } else { same };
        }
        let complete = before.len() == after.len();
        let how = match () {
            () if complete && none => change::NONE,
            () if complete && all => change::ALL,
            () if complete && indexed => change::INDEXED,
            () => change::EACH,
        };
        self.put(to, how);
        if how == change::EACH {
            self.put(to, after.len() as i64);
        }
        for (i, new) in after.iter().enumerate() {
            let old = before.get(i);
            let same = old.is_some_and(|(old, _)| old == new);
            if let Some((raw, re)) = old
                && !same
            {
                self.objects.free(kind, *raw, *re, self.thread);
            }
            if how == change::EACH {
                self.put(to, i64::from(same));
                if !same {
                    let re = self.objects.register(kind, *new, self.thread);
                    let out = if to { &mut *self.outcome } else { &mut *self.signature };
                    put_ref(self.task, self.thread, out, re);
                }
            }
        }
        let live = |(_, re): &(u64, Ref)| matches!(re, Ref::Request { .. });
        if how != change::EACH && before.iter().all(live) {
            let all = before.iter().zip(&after).map(|((raw, re), new)| (*raw, *re, raw != new));
            self.scratch.effect = Some(Effect::Completes(all.collect(), is_array));
        }
        (self.scratch.before, self.scratch.after) = (before, after);
        self.scratch.is_completed = is_completed;
    }

    fn is_persistent(&self, re: Ref) -> bool {
        // False for another thread's request: the decoder of this stream does not know how it was created.
        matches!(re, Ref::Request { function, thread, .. } if thread == self.thread
            && self.plan_of(function).is_some_and(|plan| plan.persistent))
    }
}
