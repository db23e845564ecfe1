//! The encoder of a process: records in, tasks out.
//!
//! A call is encoded when it has *returned*; over all threads, calls are encoded in the order of
//! their returns. From then on the objects that it created exist, and those that it freed do not.
//! A nested call (from a callback) therefore precedes the call that contains it. The decoder
//! restores the nesting from the depths.

mod finish;
mod saved;

pub use saved::Saving;

use crate::call::{CallScratch, Returned, Writer};
use crate::memo::{CallRecords, Memos};
use crate::objects::Objects;
use crate::segments::Segments;
use crate::slots::Slots;
use crate::task::Task;
use crate::times::{self, Recorder, Setting};
use refrain_format::define::FunctionDef;
use refrain_format::record::{HEAD, IGNORES_STATUS, PLAIN, Tag, state};
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
    /// How many open calls contain it. Records store at most 255.
    depth: u32,
    /// Whether the program ignores its status.
    ignores_status: bool,
    number: u32,
    /// The number of the call site's string.
    site: Option<u32>,
    start: u64,
    /// The offset of its inputs in `enters`.
    at: usize,
}

/// Consecutive failed polls of one signature.
#[derive(Debug)]
struct FailedPolls {
    signature: u32,
    count: u64,
    outcome: Vec<u8>,
}

/// The state of a thread.
#[derive(Debug, Default)]
struct Thread {
    task: Task,
    open: Vec<Open>,
    enters: Vec<u8>,
    next_number: u32,
    /// The string numbers of its call sites.
    sites: Vec<u32>,
    slots: Slots,
    memos: Memos,
    failed: Option<FailedPolls>,
    last_status: Option<StatusFields>,
    last_end: u64,
    calls: u64,
    times: Recorder,
}

/// A malformed log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The thread.
    pub thread: u32,
    /// Offset of the damage in the fed bytes.
    pub at: usize,
    /// What is wrong.
    pub what: String,
}

/// Buffers that are reused between calls.
#[derive(Debug, Default)]
struct Scratch {
    signature: Vec<u8>,
    outcome: Vec<u8>,
    call: CallScratch,
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
    /// How the times of every call are recorded; `None` if they are not.
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

impl<'a> Batch<'a> {
    /// The first record; `None` at the end. `bytes` is the length of the batch at the beginning.
    #[inline]
    fn next_record(&mut self, bytes: usize, damages: &mut Vec<Damage>) -> Option<Record<'a>> {
        match Record::first(self.records) {
            Ok(record) => record,
            Err(what) => {
                self.end_by(what.into(), bytes, damages);
                None
            }
        }
    }

    /// Ends the batch at damage.
    #[cold]
    fn end_by(&mut self, what: String, bytes: usize, damages: &mut Vec<Damage>) {
        damages.push(Damage { thread: self.thread, at: bytes - self.records.len(), what });
        self.records = &[];
    }
}

/// One record of a log.
#[derive(Clone, Copy)]
struct Record<'a> {
    tag: Tag,
    ignores_status: bool,
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
        let tag = Tag::from_byte(head[2]).ok_or("unknown kind of record")?;
        if tag == Tag::End {
            return Ok(None);
        }
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let body =
            length.checked_sub(HEAD).and_then(|n| rest.get(..n)).ok_or("truncated record")?;
        let function = u16::from_le_bytes([head[0], head[1]]);
        let ignores_status = head[2] & IGNORES_STATUS != 0;
        Ok(Some(Record { tag, ignores_status, function, detail: head[3], body, length }))
    }

    /// When it was written; 0 if the record has no time.
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
    /// An encoder for a process whose MPI is of that family.
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
            // Cannot fail: a test parses these texts.
            let _ = encoder.define(number, text);
        }
        encoder
    }

    /// Encodes records of several threads, in order of time. Every batch must end at the same moment.
    /// Damage ends the batch of one thread, not those of the others.
    pub fn feed(&mut self, batches: &[Batch<'_>]) -> Vec<Damage> {
        self.feed_until(&mut batches.to_vec(), |_| false)
    }

    /// The same until `is_enough`, which is asked before each record and gets the record's time (0 if
    /// it has none). The batches keep the records that were not encoded.
    pub fn feed_until(
        &mut self,
        batches: &mut [Batch<'_>],
        mut is_enough: impl FnMut(u64) -> bool,
    ) -> Vec<Damage> {
        let mut damages = Vec::new();
        if let [batch] = batches {
            let bytes = batch.records.len();
            while let Some(record) = batch.next_record(bytes, &mut damages) {
                if is_enough(record.time()) {
                    break;
                }
                self.feed_record(batch, record, bytes, &mut damages);
            }
            return damages;
        }
        let lengths: Vec<usize> = batches.iter().map(|batch| batch.records.len()).collect();
        loop {
            let mut earliest: Option<(u64, &mut Batch<'_>, usize, Record<'_>)> = None;
            for (batch, bytes) in batches.iter_mut().zip(&lengths) {
                if let Some(record) = batch.next_record(*bytes, &mut damages) {
                    let time = record.time();
                    if earliest.as_ref().is_none_or(|(first, ..)| time < *first) {
                        earliest = Some((time, batch, *bytes, record));
                    }
                }
            }
            let Some((time, batch, bytes, record)) = earliest else { return damages };
            if is_enough(time) {
                return damages;
            }
            self.feed_record(batch, record, bytes, &mut damages);
        }
    }

    /// Encodes the first record of a batch that had `bytes` bytes at the beginning.
    #[inline]
    fn feed_record<'a>(
        &mut self,
        batch: &mut Batch<'a>,
        record: Record<'a>,
        bytes: usize,
        damages: &mut Vec<Damage>,
    ) {
        match self.take_in(batch.thread, record) {
            Ok(()) => batch.records = batch.records.get(record.length..).unwrap_or_default(),
            Err(what) => batch.end_by(what, bytes, damages),
        }
    }

    /// Treats open calls of that function as returned, with success and without outputs.
    pub fn assume_returned(&mut self, function: u16, end: u64) {
        for thread in 0..self.threads.len() as u32 {
            let Some(state) = self.threads.get_mut(thread as usize) else { continue };
            if let Some(call) = state.open.pop_if(|call| call.function == function) {
                let returned = Returned { end, result: 0, class: 0, outputs: &[] };
                // Fails if the function has outputs; then the call is lost.
                let _ = self.call(thread, call, Some(returned));
            }
        }
    }

    /// Ends the recording: encodes calls that have not returned, and completes all open data.
    pub fn finish(&mut self) {
        for thread in 0..self.threads.len() as u32 {
            let open = |encoder: &mut Self| encoder.threads.get_mut(thread as usize)?.open.pop();
            while let Some(open) = open(self) {
                // Fails if the inputs are malformed; then the call is lost.
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

    /// The definition of a function, as the log has it.
    pub fn function(&self, number: u16) -> Option<&FunctionDef> {
        self.plan(number).map(|plan| &plan.def)
    }

    /// `kind name` of a predefined handle, by its index in the process.
    pub fn predefined_name(&self, index: u32) -> &str {
        self.objects.predefined_name(index)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.threads.iter().map(|t| t.task.memory()).sum()
    }

    /// Bytes of memory that spilling would free.
    pub fn sealed_memory(&self) -> usize {
        self.threads.iter().map(|t| t.task.sealed_memory() + t.times.memory()).sum()
    }

    /// Whether a grammar is being sealed; see [`Task::is_sealing`].
    pub fn is_sealing(&self) -> bool {
        self.threads.iter().any(|thread| thread.task.is_sealing())
    }

    /// Records the times of every call. Must be called before the first record.
    pub fn keep_times(&mut self, setting: Setting) {
        self.timing = Some(setting);
    }

    /// How the times of every call are recorded; `None` if they are not.
    pub fn timing(&self) -> Option<&Setting> {
        self.timing.as_ref()
    }

    /// The sealed times of a thread's calls, in the order of their returns. Call
    /// [`Encoder::seal_times`] before to get all.
    pub fn take_times(&mut self, thread: u32) -> Vec<times::Block> {
        let times = self.threads.get_mut(thread as usize).map(|t| &mut t.times.blocks);
        times.map(std::mem::take).unwrap_or_default()
    }

    /// Seals the times recorded so far.
    pub fn seal_times(&mut self) {
        if let Some(setting) = &self.timing {
            let scratch = &mut self.scratch.times;
            self.threads.iter_mut().for_each(|thread| thread.times.seal(setting, scratch));
        }
    }

    /// Spills all sealed data: `store` writes bytes and returns their offset. Returns whether everything
    /// is spilled.
    pub fn spill(&mut self, store: &mut dyn FnMut(&[u8]) -> Option<u64>) -> bool {
        let mut all = self.threads.iter_mut().flat_map(|thread| {
            let times = thread.times.blocks.iter_mut().map(|block| &mut block.bytes);
            thread.task.sealed_mut().chain(times)
        });
        all.all(|sealed| sealed.spill(store))
    }

    /// Loads spilled data except times: `fetch` reads bytes by offset and length. Returns whether all of
    /// it is in memory, which [`Encoder::task_trace`] requires.
    pub fn load(&mut self, fetch: &mut dyn FnMut(u64, u64) -> Option<Vec<u8>>) -> bool {
        let mut all = self.threads.iter_mut().flat_map(|thread| thread.task.sealed_mut());
        all.all(|sealed| sealed.load(fetch))
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
        if let Some(entry) = self.plans.get_mut(number) {
            *entry = Some(Box::new(plan));
        }
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "resized just before")]
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
        // Open calls of this depth or deeper ended without returning: by longjmp, an exception, or
        // the cancellation of the thread.
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
            // A signal handler may call MPI after a call has ended but before the agent has noted it.
            // Then no open call contains the handler's call.
            depth => u32::from(depth).min(state.open.last().map_or(0, |open| open.depth + 1)),
        };
        let Record { function, ignores_status, .. } = record;
        state.open.push(Open { function, depth, ignores_status, number, site, start, at });
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
        // A program that switches stacks itself may return from a call that was already ended above.
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

    /// Encodes a call that has returned or that ended without returning.
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
                Some(CallRecords { key, epoch, inputs, outputs: r.outputs })
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
        let Scratch { signature, outcome, call, times } = scratch;
        signature.clear();
        outcome.clear();
        call.clear();
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
            scratch: call,
        };
        let written = writer.inputs(inputs).and_then(|()| match &returned {
            Some(returned) => writer.outputs(returned),
            None => {
                writer.in_flight(open.ignores_status);
                Some(true)
            }
        });
        let Some(succeeded) = written else {
            thread.enters.truncate(open.at);
            return Err(format!("malformed values of {}", plan.def.name));
        };
        thread.calls += 1;
        let terminal =
            call.terminal.or_else(|| thread.task.signature(open.function, signature, outcome));
        // Not for functions with an input status: its cells may refer to the last status, which varies.
        if let (Some(terminal), Some(effect), Some(returned)) =
            (terminal, call.effect.take(), &returned)
            && is_seen
            && !plan.reads_status
            && objects.epoch().wrapping_add(segments.epoch()) == epoch
        {
            let inputs = thread.enters.get(open.at..).unwrap_or(&[]);
            let key = (open.function, open.site.map_or(0, |site| site + 1));
            let seen = CallRecords { key, epoch, inputs, outputs: returned.outputs };
            let status = thread.last_status.filter(|_| call.left_status);
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
        thread.append(terminal, outcome, is_poll, succeeded);
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
        let comm = self.objects.resolve(kind, comm, thread, 0);
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
    /// Appends a call to the sequence. Failed polls are held back until the next call.
    #[inline]
    fn append(&mut self, terminal: u32, outcome: &[u8], is_poll: bool, succeeded: bool) {
        if !is_poll && self.failed.is_none() {
            return self.task.emit(terminal, outcome, 0);
        }
        self.append_poll(terminal, outcome, is_poll, succeeded);
    }

    fn append_poll(&mut self, terminal: u32, outcome: &[u8], is_poll: bool, succeeded: bool) {
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

    /// Ticks since the previous call.
    #[inline]
    fn gap(&self, start: u64) -> u64 {
        if self.last_end == 0 { 0 } else { start.saturating_sub(self.last_end) }
    }
}

/// Emits failed polls that no successful poll followed: the last of them is the call, the others are its
/// count.
fn flush_failed(failed: &mut Option<FailedPolls>, task: &mut Task) {
    if let Some(failed) = failed.take() {
        task.emit(failed.signature, &failed.outcome, failed.count - 1);
    }
}
