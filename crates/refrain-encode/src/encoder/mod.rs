//! The encoder of a process: records in, tasks out.
//!
//! Calls are taken in when they have *returned*, over all threads in the order of their returns:
//! what a call creates exists from then on, what it frees is gone. A call inside another (from a
//! callback) so comes before the one it is inside of; depths tell the reader which.

mod finish;
mod saved;

use crate::call::{Given, Returned, Writer};
use crate::memo::{Memos, Seen};
use crate::objects::Objects;
use crate::segments::Segments;
use crate::slots::Slots;
use crate::task::Task;
use crate::times::{self, Recorder, Setting};
use refrain_format::define::FunctionDef;
use refrain_format::record::{HEAD, PLAIN, Tag, state};
use refrain_mpi::abi::{Family, Layout};
use refrain_mpi::status::StatusFields;
use refrain_signature::head::Head;
use refrain_signature::notes;
use refrain_signature::plan::{Kinds, Plan};
use refrain_signature::{array, cells};

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Open {
    function: u16,
    /// How many calls it was made inside of. Records count to 255 only.
    depth: u32,
    number: u32,
    /// The string that names the site.
    site: Option<u32>,
    start: u64,
    /// Where its inputs begin in `enters`.
    at: usize,
}

/// Polls of one signature that failed, one after the other.
#[derive(Debug)]
struct FailedPolls {
    signature: u32,
    count: u64,
    outcome: Vec<u8>,
}

/// What is known of a thread.
#[derive(Debug, Default)]
struct Thread {
    task: Task,
    open: Vec<Open>,
    enters: Vec<u8>,
    next_number: u32,
    /// The strings of its call sites.
    sites: Vec<u32>,
    slots: Slots,
    memos: Memos,
    failed: Option<FailedPolls>,
    last_status: Option<StatusFields>,
    last_end: u64,
    calls: u64,
    times: Recorder,
}

/// A log that does not read as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The thread.
    pub thread: u32,
    /// Bytes before the damage, in what was fed.
    pub at: usize,
    /// What is wrong.
    pub what: String,
}

/// Buffers that are used again from call to call.
#[derive(Debug, Default)]
struct Scratch {
    signature: Vec<u8>,
    outcome: Vec<u8>,
    given: Given,
    times: refrain_timing::Scratch,
}

/// The encoder of a process.
#[derive(Debug)]
pub struct Encoder {
    layout: &'static Layout,
    kinds: Kinds,
    plans: Vec<Option<Box<Plan>>>,
    objects: Objects,
    segments: Segments,
    threads: Vec<Thread>,
    scratch: Scratch,
    /// How the times of every call are kept, if they are.
    timing: Option<Setting>,
}

/// Records of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The thread's number in its process.
    pub thread: u32,
    /// Whole records.
    pub records: &'a [u8],
}

/// A record and where it begins.
#[derive(Clone, Copy)]
struct Record<'a> {
    tag: Tag,
    function: u16,
    detail: u8,
    body: &'a [u8],
    length: usize,
}

impl<'a> Record<'a> {
    /// The first record of these bytes; `Ok(None)` at the end.
    #[inline]
    fn first(bytes: &'a [u8]) -> Result<Option<Record<'a>>, &'static str> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
        let tag = Tag::from_byte(head[2]).ok_or("no record begins so")?;
        if tag == Tag::End {
            return Ok(None);
        }
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let body = length.checked_sub(HEAD).and_then(|n| rest.get(..n)).ok_or("cut short")?;
        let function = u16::from_le_bytes([head[0], head[1]]);
        Ok(Some(Record { tag, function, detail: head[3], body, length }))
    }

    /// When it was written, where it says so.
    fn time(&self) -> u64 {
        match self.tag {
            Tag::End | Tag::Define | Tag::Handles | Tag::Site => 0,
            _ => u64_at(self.body, 0).unwrap_or(0),
        }
    }
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

impl Encoder {
    /// For a process under an MPI of that family.
    pub fn new(family: Family) -> Encoder {
        let mut kinds = Kinds::default();
        let objects = Objects::new(family, &mut kinds);
        let mut encoder = Encoder {
            layout: Layout::of(family),
            kinds,
            plans: Vec::new(),
            objects,
            segments: Segments::default(),
            threads: Vec::new(),
            scratch: Scratch::default(),
            timing: None,
        };
        for (number, text) in notes::DEFINITIONS {
            // The texts are ours; a test reads them.
            let _ = encoder.define(number, text);
        }
        encoder
    }

    /// Takes in records of several threads, up to a common moment. Damage ends a thread's batch,
    /// not those of the others.
    pub fn feed(&mut self, batches: &[Batch<'_>]) -> Vec<Damage> {
        let mut damages = Vec::new();
        if let [batch] = batches {
            let mut at = 0;
            loop {
                let record = match Record::first(batch.records.get(at..).unwrap_or_default()) {
                    Ok(Some(record)) => record,
                    Ok(None) => return damages,
                    Err(what) => {
                        damages.push(Damage { thread: batch.thread, at, what: what.into() });
                        return damages;
                    }
                };
                if let Err(what) = self.take_in(batch.thread, record) {
                    damages.push(Damage { thread: batch.thread, at, what });
                    return damages;
                }
                at += record.length;
            }
        }
        self.feed_by_time(batches, &mut damages);
        damages
    }

    fn feed_by_time(&mut self, batches: &[Batch<'_>], damages: &mut Vec<Damage>) {
        // Of each batch that has not ended: how far it is taken in.
        let mut rest: Vec<(&Batch<'_>, usize)> = batches.iter().map(|batch| (batch, 0)).collect();
        loop {
            let mut earliest: Option<(u64, usize, Record<'_>)> = None;
            let mut i = 0;
            rest.retain(|(batch, at)| {
                match Record::first(batch.records.get(*at..).unwrap_or_default()) {
                    Ok(Some(record)) => {
                        let time = record.time();
                        if earliest.is_none_or(|(first, ..)| time < first) {
                            earliest = Some((time, i, record));
                        }
                        i += 1;
                        return true;
                    }
                    Ok(None) => {}
                    Err(what) => {
                        let (thread, at) = (batch.thread, *at);
                        damages.push(Damage { thread, at, what: what.into() });
                    }
                }
                false
            });
            let Some((_, i, record)) = earliest else { return };
            let Some((batch, at)) = rest.get_mut(i) else { return };
            let (thread, place) = (batch.thread, *at);
            *at += record.length;
            if let Err(what) = self.take_in(thread, record) {
                rest.remove(i);
                damages.push(Damage { thread, at: place, what });
            }
        }
    }

    /// An open call of that function returns with success, without outputs.
    pub fn presume_returned(&mut self, function: u16, end: u64) {
        for thread in 0..self.threads.len() as u32 {
            let Some(own) = self.threads.get_mut(thread as usize) else { continue };
            if let Some(call) = own.open.pop_if(|call| call.function == function) {
                let returned = Returned { end, result: 0, class: 0, outputs: &[] };
                // A function with outputs would not read; then the call is lost.
                let _ = self.call(thread, call, Some(returned));
            }
        }
    }

    /// Calls that never returned are calls too.
    pub fn finish(&mut self) {
        for thread in 0..self.threads.len() as u32 {
            let open = |encoder: &mut Self| encoder.threads.get_mut(thread as usize)?.open.pop();
            while let Some(open) = open(self) {
                // The inputs were read when they came; if not, the call is lost with them.
                let _ = self.call(thread, open, None);
            }
            self.flush_polls(thread);
        }
        self.seal_times();
    }

    /// How many threads there are.
    pub fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    /// The task of a thread.
    pub fn task(&self, thread: u32) -> Option<&Task> {
        self.threads.get(thread as usize).map(|t| &t.task)
    }

    /// The calls of a thread so far.
    pub fn calls(&self, thread: u32) -> u64 {
        self.threads.get(thread as usize).map_or(0, |t| t.calls)
    }

    /// The calls of a thread that have not returned, outermost first: function, number, start.
    pub fn open_calls(&self, thread: u32) -> Vec<(u16, u32, u64)> {
        let open = self.threads.get(thread as usize).map(|t| t.open.as_slice());
        open.unwrap_or_default().iter().map(|o| (o.function, o.number, o.start)).collect()
    }

    /// The form of a function, as a log defined it.
    pub fn function(&self, number: u16) -> Option<&FunctionDef> {
        self.plan(number).map(|plan| &plan.def)
    }

    /// `kind name` of a predefined handle, by its place in the process.
    pub fn predefined_name(&self, place: u32) -> &str {
        self.objects.predefined_name(place)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.threads.iter().map(|t| t.task.memory()).sum()
    }

    /// Bytes held that could be put away.
    pub fn sealed_memory(&self) -> usize {
        self.threads.iter().map(|t| t.task.sealed_memory() + t.times.memory()).sum()
    }

    /// From now on, the times of every call are kept. To be asked for before the first record.
    pub fn keep_times(&mut self, setting: Setting) {
        self.timing = Some(setting);
    }

    /// How the times of every call are kept, if they are.
    pub fn timing(&self) -> Option<&Setting> {
        self.timing.as_ref()
    }

    /// The times of a thread's calls, in the order of their return: all so far, if they were sealed
    /// since.
    pub fn take_times(&mut self, thread: u32) -> Vec<times::Block> {
        let times = self.threads.get_mut(thread as usize).map(|t| &mut t.times.blocks);
        times.map(std::mem::take).unwrap_or_default()
    }

    /// Seals times that are not yet: from time to time, and at the end.
    pub fn seal_times(&mut self) {
        if let Some(setting) = &self.timing {
            let scratch = &mut self.scratch.times;
            self.threads.iter_mut().for_each(|thread| thread.times.seal(setting, scratch));
        }
    }

    /// Puts away what will not change any more: `store` keeps bytes, and says where they begin.
    /// Whether all of it is away.
    pub fn put_away(&mut self, store: &mut dyn FnMut(&[u8]) -> Option<u64>) -> bool {
        let mut all = self.threads.iter_mut().flat_map(|thread| {
            let times = thread.times.blocks.iter_mut().map(|block| &mut block.bytes);
            thread.task.sealed_mut().chain(times)
        });
        all.all(|sealed| sealed.put_away(store))
    }

    /// Brings back what was put away, but for times: `fetch` gives so many bytes from there on.
    /// Whether all of it is here, as it must be before [`TaskTrace`](refrain_signature::tasktrace::TaskTrace)s are made.
    pub fn bring_back(&mut self, fetch: &mut dyn FnMut(u64, u64) -> Option<Vec<u8>>) -> bool {
        let mut all = self.threads.iter_mut().flat_map(|thread| thread.task.sealed_mut());
        all.all(|sealed| sealed.bring_back(fetch))
    }

    fn plan(&self, number: u16) -> Option<&Plan> {
        self.plans.get(usize::from(number)).and_then(Option::as_deref)
    }

    fn define(&mut self, number: u16, text: &str) -> Result<(), String> {
        let number = usize::from(number);
        if self.plans.get(number).is_some_and(Option::is_some) {
            return Ok(());
        }
        let plan = Plan::new(FunctionDef::from_text(text)?, &mut self.kinds);
        if self.plans.len() <= number {
            self.plans.resize_with(number + 1, || None);
        }
        if let Some(place) = self.plans.get_mut(number) {
            *place = Some(Box::new(plan));
        }
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    fn thread(&mut self, thread: u32) -> &mut Thread {
        let index = thread as usize;
        if self.threads.len() <= index {
            let timing = self.timing.as_ref();
            let times = || timing.map(Recorder::new).unwrap_or_default();
            let new = || Thread { times: times(), ..Thread::default() };
            self.threads.resize_with(index + 1, new);
        }
        &mut self.threads[index]
    }

    #[inline]
    fn take_in(&mut self, thread: u32, record: Record<'_>) -> Result<(), String> {
        match record.tag {
            Tag::Enter => self.enter(thread, record, None, 8),
            Tag::Leave => self.leave(thread, record),
            _ => self.take_in_other(thread, record),
        }
    }

    #[cold]
    fn take_in_other(&mut self, thread: u32, record: Record<'_>) -> Result<(), String> {
        let body = record.body;
        match record.tag {
            Tag::Define => {
                let text = std::str::from_utf8(body).map_err(|e| e.to_string())?;
                self.define(record.function, text)
            }
            Tag::Handles => {
                self.handles(&String::from_utf8_lossy(body));
                Ok(())
            }
            Tag::EnterAt => {
                let site = u32_at(body, 8).ok_or("a short record")?;
                let site = self.thread(thread).sites.get(site as usize).copied();
                self.enter(thread, record, site, 12)
            }
            Tag::Site => {
                let number = u32_at(body, 0).ok_or("a short record")? as usize;
                let thread = self.thread(thread);
                if number != thread.sites.len() {
                    return Err("call sites out of order".into());
                }
                let string = thread.task.string(body.get(4..).unwrap_or_default());
                thread.sites.push(string);
                Ok(())
            }
            Tag::Segment => self.segment(thread, body).ok_or_else(|| "a short record".into()),
            Tag::Release => {
                let base = u64_at(body, 8).ok_or("a short record")?;
                if let Some(segment) = self.segments.release(base) {
                    self.release(thread, segment);
                }
                Ok(())
            }
            Tag::Members => self.members(thread, body).ok_or_else(|| "a short record".into()),
            Tag::End | Tag::Enter | Tag::Leave => Ok(()),
        }
    }

    fn handles(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some(kind), Some(value), Some(name)) =
                (words.next(), words.next(), words.next())
                && let Ok(value) = u64::from_str_radix(value, 16)
            {
                let kind = self.kinds.number(kind);
                self.objects.define(kind, value, name, &self.kinds);
            }
        }
    }

    #[inline]
    fn enter(
        &mut self,
        thread: u32,
        record: Record<'_>,
        site: Option<u32>,
        skip: usize,
    ) -> Result<(), String> {
        let start = u64_at(record.body, 0).ok_or("a short record")?;
        if self.plan(record.function).is_none() {
            return Err(format!("function {} is not defined", record.function));
        }
        // A call at this depth ends every call that was open as deep or deeper: those were left
        // by longjmp, an exception, or a cancelled thread.
        while let Some(open) = self.thread(thread).open.last().copied()
            && open.depth >= u32::from(record.detail)
            && record.detail < u8::MAX
        {
            self.thread(thread).open.pop();
            self.call(thread, open, None)?;
        }
        let state = self.thread(thread);
        let at = state.enters.len();
        state.enters.extend_from_slice(record.body.get(skip..).unwrap_or(&[]));
        let number = state.next_number;
        state.next_number = number.wrapping_add(1);
        let depth = match record.detail {
            u8::MAX => state.open.last().map_or(0, |open| open.depth + 1).max(u8::MAX.into()),
            // A signal's handler may call between the end of a call and its being taken note of:
            // then there is no call that it is inside of.
            depth => u32::from(depth).min(state.open.last().map_or(0, |open| open.depth + 1)),
        };
        let function = record.function;
        state.open.push(Open { function, depth, number, site, start, at });
        Ok(())
    }

    #[inline]
    fn leave(&mut self, thread: u32, record: Record<'_>) -> Result<(), String> {
        let body = record.body;
        let short = || "a short record".to_owned();
        let end = u64_at(body, 0).ok_or_else(short)?;
        let state = self.thread(thread);
        let (result, number, class, outputs) = match record.detail == PLAIN {
            true => (0, state.next_number.wrapping_sub(1), 0, body.get(8..)),
            false => (
                u64_at(body, 8).ok_or_else(short)? as i64,
                u32_at(body, 16).ok_or_else(short)?,
                u32_at(body, 20).ok_or_else(short)? as i32,
                body.get(24..),
            ),
        };
        let outputs = outputs.ok_or_else(short)?;
        // A call already given up may still return where a program switches stacks by hand.
        if !state.open.iter().any(|open| open.number == number) {
            return Ok(());
        }
        while let Some(open) = self.thread(thread).open.pop() {
            if open.number == number {
                let returned = Returned { end, result, class, outputs };
                return self.call(thread, open, Some(returned));
            }
            self.call(thread, open, None)?;
        }
        Ok(())
    }

    /// A call is complete, or given up.
    fn call(
        &mut self,
        number: u32,
        open: Open,
        returned: Option<Returned<'_>>,
    ) -> Result<(), String> {
        let Encoder { layout, plans, objects, segments, threads, scratch, kinds, timing } = self;
        let plan = plans.get(usize::from(open.function)).and_then(Option::as_deref);
        let (Some(thread), Some(plan)) = (threads.get_mut(number as usize), plan) else {
            return Ok(());
        };
        let epoch = objects.epoch().wrapping_add(segments.epoch());
        let seen = match &returned {
            Some(r) if r.result == 0 && r.class == 0 && open.depth == 0 && !plan.polls => {
                let key = (open.function, open.site.map_or(0, |site| site + 1));
                let inputs = thread.enters.get(open.at..).unwrap_or(&[]);
                Some(Seen { key, epoch, inputs, outputs: r.outputs })
            }
            _ => None,
        };
        if let Some(seen) = &seen
            && let Some(memo) = thread.memos.find(seen, thread.task.expected())
            && memo.repeat(objects, &mut thread.slots, number)
        {
            let end = returned.as_ref().map_or(open.start, |r| r.end);
            if memo.last_status.is_some() {
                thread.last_status = memo.last_status;
            }
            let duration = end.saturating_sub(open.start);
            let gap = thread.gap(open.start);
            thread.last_end = thread.last_end.max(end);
            thread.calls += 1;
            if let Some(setting) = timing {
                let bound = || setting.own_bound(&plan.def.name);
                let span = (open.start, end);
                thread.times.note(setting, memo.terminal, 0, span, &mut scratch.times, bound);
            }
            if thread.failed.is_some() {
                flush_failed(&mut thread.failed, &mut thread.task);
            }
            thread.task.emit_again(memo.terminal, &memo.outcome, duration, gap);
            thread.enters.truncate(open.at);
            return Ok(());
        }
        let is_seen = seen.is_some();
        let Scratch { signature, outcome, given, times } = scratch;
        signature.clear();
        outcome.clear();
        given.clear();
        let (function, depth, site) = (open.function, open.depth, open.site);
        Head { function, returned: returned.is_some(), depth, site }.put(signature);
        let inputs = thread.enters.get(open.at..).unwrap_or(&[]);
        let mut writer = Writer {
            layout,
            kinds,
            objects,
            segments,
            task: &mut thread.task,
            slots: &mut thread.slots,
            last_status: &mut thread.last_status,
            thread: number,
            plans,
            plan,
            function: open.function,
            signature,
            outcome,
            given,
        };
        let written = writer.inputs(inputs).and_then(|()| match &returned {
            Some(returned) => writer.outputs(returned),
            None => Some(true),
        });
        let Some(succeeded) = written else {
            thread.enters.truncate(open.at);
            return Err(format!("the values of {} do not read", plan.def.name));
        };
        thread.calls += 1;
        let terminal =
            given.terminal.or_else(|| thread.task.signature(open.function, signature, outcome));
        // A status among the inputs may stand for the last one seen, another each time.
        if let (Some(terminal), Some(effect), Some(returned)) =
            (terminal, given.effect.take(), &returned)
            && is_seen
            && !plan.reads_status
            && objects.epoch().wrapping_add(segments.epoch()) == epoch
        {
            let inputs = thread.enters.get(open.at..).unwrap_or(&[]);
            let key = (open.function, open.site.map_or(0, |site| site + 1));
            let seen = Seen { key, epoch, inputs, outputs: returned.outputs };
            let status = thread.last_status.filter(|_| given.left_status);
            thread.memos.add(&seen, terminal, outcome, effect, status);
        }
        thread.enters.truncate(open.at);
        let Some(terminal) = terminal else { return Ok(()) };
        let end = returned.as_ref().map_or(open.start, |r| r.end);
        let gap = thread.gap(open.start);
        if let Some(s) = thread.task.signatures.get_mut(terminal) {
            s.stats.note(end.saturating_sub(open.start), gap);
        }
        thread.last_end = thread.last_end.max(end);
        if let Some(setting) = timing {
            let bound = || setting.own_bound(&plan.def.name);
            thread.times.note(setting, terminal, open.depth, (open.start, end), times, bound);
        }
        let is_poll = plan.polls && returned.is_some();
        thread.settle(terminal, outcome, is_poll, succeeded);
        Ok(())
    }

    fn flush_polls(&mut self, thread: u32) {
        if let Some(thread) = self.threads.get_mut(thread as usize) {
            thread.flush_polls();
        }
    }

    /// Appends a note to a thread's sequence.
    fn note(&mut self, thread: u32, function: u16, signature: &[u8], outcome: &[u8]) {
        let thread = self.thread(thread);
        if let Some(terminal) = thread.task.signature(function, signature, outcome) {
            thread.flush_polls();
            thread.task.emit(terminal, outcome, 0);
        }
    }

    fn segment(&mut self, thread: u32, body: &[u8]) -> Option<()> {
        let (base, bytes, anchor) = (u64_at(body, 8)?, u64_at(body, 16)?, u64_at(body, 24)?);
        let (kind, device) = (*body.get(32)?, u32_at(body, 33)?);
        let Some((segment, replaced)) = self.segments.announce(base, bytes, anchor, thread) else {
            return Some(());
        };
        for old in replaced {
            self.release(thread, old);
        }
        let module = self.thread(thread).task.string(body.get(37..)?);
        let (mut signature, mut outcome) = (Vec::new(), Vec::new());
        Head::note(notes::SEGMENT).put(&mut signature);
        for value in [segment.number, kind.into(), device, module] {
            cells::put(&mut signature, value.into());
        }
        for value in [0, state::VALUE.into(), bytes as i64] {
            cells::put(&mut outcome, value);
        }
        self.note(thread, notes::SEGMENT, &signature, &outcome);
        Some(())
    }

    fn release(&mut self, thread: u32, segment: crate::segments::Segment) {
        let mut signature = Vec::new();
        Head::note(notes::RELEASE).put(&mut signature);
        cells::put(&mut signature, segment.thread.into());
        cells::put(&mut signature, segment.number.into());
        self.note(thread, notes::RELEASE, &signature, &[0]);
    }

    fn members(&mut self, thread: u32, body: &[u8]) -> Option<()> {
        let comm = u64_at(body, 8)?;
        let mut at = 16;
        let mut list = || {
            let n = u32_at(body, at)? as usize;
            at += 4;
            let ranks = body.get(at..at.checked_add(n.checked_mul(4)?)?)?;
            at += 4 * n;
            let rank = |bytes: &[u8; 4]| i64::from(i32::from_le_bytes(*bytes));
            Some(ranks.as_chunks().0.iter().map(rank).collect::<Vec<_>>())
        };
        let (ranks, remote) = (list()?, list()?);
        let kind = self.kinds.number("comm");
        let comm = self.objects.given(kind, comm, thread, 0);
        let mut signature = Vec::new();
        Head::note(notes::MEMBERS).put(&mut signature);
        crate::call::put_ref(&mut self.thread(thread).task, thread, &mut signature, comm);
        let mut before: &[i64] = &[];
        for list in [&ranks, &remote] {
            cells::put(&mut signature, list.len() as i64);
            array::put(&mut signature, list, before);
            before = list;
        }
        self.note(thread, notes::MEMBERS, &signature, &[0]);
        Some(())
    }
}

impl Thread {
    /// Appends a call to the sequence; failed polls wait for what follows them.
    #[inline]
    fn settle(&mut self, terminal: u32, outcome: &[u8], is_poll: bool, succeeded: bool) {
        if !is_poll && self.failed.is_none() {
            return self.task.emit(terminal, outcome, 0);
        }
        self.settle_poll(terminal, outcome, is_poll, succeeded);
    }

    fn settle_poll(&mut self, terminal: u32, outcome: &[u8], is_poll: bool, succeeded: bool) {
        if let Some(failed) = &mut self.failed
            && failed.signature == terminal
            && is_poll
        {
            if !succeeded && failed.outcome == outcome {
                failed.count += 1;
                return;
            }
            if succeeded {
                let count = failed.count;
                self.failed = None;
                return self.task.emit(terminal, outcome, count);
            }
        }
        self.flush_polls();
        if is_poll && !succeeded && self.task.can_count_polls(terminal, outcome) {
            let outcome = outcome.to_vec();
            self.failed = Some(FailedPolls { signature: terminal, count: 1, outcome });
        } else {
            self.task.emit(terminal, outcome, 0);
        }
    }

    fn flush_polls(&mut self) {
        flush_failed(&mut self.failed, &mut self.task);
    }

    /// Ticks since the call before.
    #[inline]
    fn gap(&self, start: u64) -> u64 {
        if self.last_end == 0 { 0 } else { start.saturating_sub(self.last_end) }
    }
}

/// Polls that failed were not repeated: the last of them is a call of its own.
fn flush_failed(failed: &mut Option<FailedPolls>, task: &mut Task) {
    if let Some(failed) = failed.take() {
        task.emit(failed.signature, &failed.outcome, failed.count - 1);
    }
}
