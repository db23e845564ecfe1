//! A task's trace while it is recorded: signatures, grammar, outcomes.

use crate::sealed::Sealed;
use crate::signature::{NONE, Signatures};
use crate::varying::Varying;
use refrain_bytes::table::Map;
use refrain_grammar::{Grammar, Sequitur};
use refrain_signature::cells::{Cells, put_bytes, put_list, put_unsigned};
use refrain_signature::outcome::Polls;

/// A grammar that takes more memory than this is sealed, and a new one begins.
const GRAMMAR_CAP: usize = 96 << 20;

/// A grammar that hardly compresses is sealed at this size: a larger one would save nothing, and
/// beyond the processor's caches every step costs several times as much.
const POOR_CAP: usize = 4 << 20;

/// A grammar hardly compresses if it takes more bytes per call than this.
const POOR: u64 = 24;

/// How many bytes of a grammar are sealed at each call: a large one is sealed in a few thousand calls.
const SEALED_AT_ONCE: usize = 128;

/// Sealed grammars are cut into chunks of this size, which can be spilled one by one.
const CHUNK: usize = 16 << 10;

/// A grammar that is being sealed.
#[derive(Debug, Default)]
struct Sealing {
    grammar: Sequitur,
    saving: refrain_grammar::Saving,
    /// What is not in a chunk yet.
    chunk: Vec<u8>,
}

/// The trace of one thread so far.
#[derive(Debug, Default)]
pub struct Task {
    /// Its signatures.
    pub signatures: Signatures,
    grammar: Sequitur,
    /// The previous grammar, while it is being sealed: it no longer grows.
    sealing: Option<Sealing>,
    /// Complete grammars, encoded, in chunks.
    sealed: Vec<Sealed>,
    /// For each of them, how many chunks there are up to its end.
    sealed_ends: Vec<usize>,
    /// Outcomes of signatures whose outcomes vary.
    pub varying: Vec<Varying>,
    /// Failed polls of signatures that poll.
    pub polls: Vec<Polls>,
    strings: Vec<Box<[u8]>>,
    string_numbers: Map<Box<[u8]>, u32>,
    /// The predefined handles that it used, as indices in the process.
    pub predefined: Vec<u32>,
    /// For each index in the process, the handle's number in this task plus 1, or 0.
    predefined_numbers: Vec<u32>,
    /// Functions used.
    pub functions: Vec<u16>,
    lost: u64,
}

impl Sealing {
    /// Writes the chunk in progress and what would follow it.
    fn put_rest(&self, out: &mut Vec<u8>) {
        let (mut rest, mut saving) = (self.chunk.clone(), self.saving);
        while !self.grammar.save_some(&mut saving, &mut rest, usize::MAX) {}
        put_bytes(out, &rest);
    }
}

/// How far the state of a task is written. The task must not change before it is whole.
#[derive(Debug, Default)]
pub struct Saving {
    table: u8,
    /// How many items of the table are written.
    at: usize,
    grammar: refrain_grammar::Saving,
}

/// Writes some of a list, from item `at` on, until `out` has `enough` bytes. Returns whether all is written.
pub fn put_some<T>(
    all: &[T],
    at: &mut usize,
    out: &mut Vec<u8>,
    enough: usize,
    mut each: impl FnMut(&mut Vec<u8>, &T),
) -> bool {
    if *at == 0 {
        put_unsigned(out, all.len() as u64);
    }
    while let Some(item) = all.get(*at) {
        each(out, item);
        *at += 1;
        if out.len() >= enough {
            break;
        }
    }
    *at >= all.len()
}

impl Task {
    /// The number of a string.
    pub fn string(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.string_numbers.get(text) {
            return *number;
        }
        let number = self.strings.len() as u32;
        self.strings.push(text.into());
        self.string_numbers.insert(text.into(), number);
        number
    }

    /// All strings.
    pub fn strings(&self) -> &[Box<[u8]>] {
        &self.strings
    }

    /// The number of a predefined handle, by its index in the process.
    #[inline]
    pub fn predefined(&mut self, index: u32) -> u32 {
        match self.predefined_numbers.get(index as usize) {
            Some(number) if *number > 0 => *number - 1,
            _ => self.new_predefined(index),
        }
    }

    #[cold]
    fn new_predefined(&mut self, index: u32) -> u32 {
        if self.predefined_numbers.len() <= index as usize {
            self.predefined_numbers.resize(index as usize + 1, 0);
        }
        self.predefined.push(index);
        let number = self.predefined.len() as u32;
        if let Some(own) = self.predefined_numbers.get_mut(index as usize) {
            *own = number;
        }
        number - 1
    }

    /// The predicted next signature.
    #[inline]
    pub fn expected(&self) -> Option<u32> {
        self.grammar.predicted()
    }

    /// The number of a signature; `None` if the table is full.
    #[inline]
    pub fn signature(&mut self, function: u16, cells: &[u8], outcome: &[u8]) -> Option<u32> {
        let guess = self.expected();
        let Some((number, new)) = self.signatures.find(cells, outcome, guess) else {
            self.lost += 1;
            return None;
        };
        if new && !self.functions.contains(&function) {
            self.functions.push(function);
        }
        Some(number)
    }

    /// Appends a call to the sequence.
    pub fn emit(&mut self, signature: u32, outcome: &[u8], polls: u64) {
        self.grammar.push(signature);
        let same = self.signatures.first_outcome(signature) == outcome;
        let Some(s) = self.signatures.get_mut(signature) else { return };
        let emitted = s.emitted;
        s.emitted += 1;
        let (varies, polling) = (s.varies, s.polls);
        if let Some(varying) = self.varying.get_mut(varies as usize) {
            varying.note(outcome);
        } else if !same {
            let first = self.signatures.first_outcome(signature);
            let mut varying = Varying::new(first, emitted);
            varying.note(outcome);
            if let Some(s) = self.signatures.get_mut(signature) {
                s.varies = self.varying.len() as u32;
            }
            self.varying.push(varying);
        }
        if let Some(counts) = self.polls.get_mut(polling as usize) {
            counts.note(polls);
        }
        self.seal_if_large();
    }

    /// Appends a call that repeats an earlier one.
    #[inline]
    pub fn emit_again(&mut self, signature: u32, outcome: &[u8], duration: u64, gap: u64) {
        let Some(s) = self.signatures.get_mut(signature) else { return };
        s.stats.note(duration, gap);
        if s.varies != NONE || s.polls != NONE {
            return self.emit(signature, outcome, 0);
        }
        // The outcome never varied, so it equals the first.
        s.emitted += 1;
        self.grammar.push(signature);
        self.seal_if_large();
    }

    #[inline]
    fn seal_if_large(&mut self) {
        let memory = self.grammar.memory();
        if self.sealing.is_some()
            || memory > POOR_CAP
                && (memory > GRAMMAR_CAP || memory as u64 > POOR * self.grammar.len())
        {
            self.seal_some();
        }
    }

    /// Seals some of the previous grammar, or begins to seal the current one.
    #[cold]
    #[inline(never)]
    fn seal_some(&mut self) {
        let new = || Sealing { grammar: std::mem::take(&mut self.grammar), ..Sealing::default() };
        let Sealing { grammar, saving, chunk } = self.sealing.get_or_insert_with(new);
        let is_whole = grammar.save_some(saving, chunk, chunk.len() + SEALED_AT_ONCE);
        if is_whole || chunk.len() >= CHUNK {
            self.sealed.push(Sealed::InMemory(std::mem::take(chunk)));
        }
        if is_whole {
            self.sealed_ends.push(self.sealed.len());
            self.sealing = None;
        }
    }

    /// Whether a grammar is being sealed. It is in a state as a whole, so this is no good time for one.
    pub fn is_sealing(&self) -> bool {
        self.sealing.is_some()
    }

    /// Whether failed polls with that outcome can be stored as a count. All failed polls of a signature
    /// must have the same outcome.
    pub fn can_count_polls(&mut self, signature: u32, failed: &[u8]) -> bool {
        let Some(s) = self.signatures.get_mut(signature) else { return false };
        if s.polls == NONE {
            s.polls = self.polls.len() as u32;
            self.polls.push(Polls::new(failed, s.emitted));
            return true;
        }
        self.polls.get(s.polls as usize).is_some_and(|polls| polls.failed == failed)
    }

    /// Writes some of the state, so that recording can continue from it, until `out` has `enough` bytes or a
    /// little later. Returns whether all is written.
    pub fn save_some(&self, saving: &mut Saving, out: &mut Vec<u8>, enough: usize) -> bool {
        loop {
            let Saving { table, at, grammar } = saving;
            let is_whole = match *table {
                0 => self.signatures.put_some(at, out, enough),
                1 => put_some(&self.sealed, at, out, enough, |out, sealed| sealed.put(out)),
                2 => {
                    let ends = self.sealed_ends.iter();
                    put_list(out, ends, |out, end| put_unsigned(out, *end as u64));
                    put_list(out, self.sealing.iter(), |out, sealing| sealing.put_rest(out));
                    true
                }
                3 => self.grammar.save_some(grammar, out, enough),
                4 => put_some(&self.varying, at, out, enough, |out, varying| varying.put(out)),
                5 => put_some(&self.polls, at, out, enough, |out, polls| polls.put_whole(out)),
                6 => put_some(&self.strings, at, out, enough, |out, text| put_bytes(out, text)),
                _ => {
                    let predefined = self.predefined.iter();
                    put_list(out, predefined, |out, index| put_unsigned(out, (*index).into()));
                    let functions = self.functions.iter();
                    put_list(out, functions, |out, number| put_unsigned(out, (*number).into()));
                    put_unsigned(out, self.lost);
                    return true;
                }
            };
            if is_whole {
                (*table, *at) = (*table + 1, 0);
            } else {
                return false;
            }
        }
    }

    /// Writes the whole state.
    pub fn put(&self, out: &mut Vec<u8>) {
        let mut saving = Saving::default();
        while !self.save_some(&mut saving, out, usize::MAX) {}
    }

    /// Reads the state that [`Task::save_some`] wrote.
    pub fn get(cells: &mut Cells<'_>) -> Option<Task> {
        let mut task = Task { signatures: Signatures::read(cells)?, ..Task::default() };
        let terminals = task.signatures.len();
        task.sealed = cells.get_list(Sealed::get)?;
        let chunks = task.sealed.len();
        task.sealed_ends = cells.get_list(|cells| Some(cells.get_u32()? as usize))?;
        (task.sealed_ends.is_sorted() && task.sealed_ends.iter().all(|end| *end <= chunks))
            .then_some(())?;
        for rest in cells.get_list(|cells| cells.get_bytes().map(<[u8]>::to_vec))? {
            task.sealed.push(Sealed::InMemory(rest));
            task.sealed_ends.push(task.sealed.len());
        }
        let (grammar, length) = Sequitur::saved(cells.rest(), terminals).ok()?;
        cells.take(length)?;
        task.grammar = grammar;
        task.varying = cells.get_list(Varying::get)?;
        task.polls = cells.get_list(Polls::get_whole)?;
        for text in cells.get_list(|cells| cells.get_bytes().map(<[u8]>::to_vec))? {
            task.string(&text);
        }
        for index in cells.get_list(Cells::get_u32)? {
            // A process has a few hundred predefined handles.
            if index > 1 << 16 {
                return None;
            }
            task.predefined(index);
        }
        task.functions = cells.get_list(|cells| u16::try_from(cells.get_unsigned()?).ok())?;
        task.lost = cells.get_unsigned()?;
        Some(task)
    }

    /// The number of calls that were lost because the signature table was full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The sealed grammars, which may be spilled.
    pub fn sealed_mut(&mut self) -> impl Iterator<Item = &mut Sealed> {
        self.sealed.iter_mut()
    }

    /// Bytes of memory that spilling would free.
    pub fn sealed_memory(&self) -> usize {
        self.sealed.iter().map(Sealed::memory).sum()
    }

    /// The grammars in order, without those that are spilled.
    pub fn grammars(&self) -> Vec<Grammar> {
        let terminals = self.signatures.len();
        let starts = std::iter::once(0).chain(self.sealed_ends.iter().copied());
        let sealed = starts.zip(&self.sealed_ends).filter_map(|(start, end)| {
            let chunks = self.sealed.get(start..*end)?.iter().map(Sealed::in_memory);
            let bytes = chunks.collect::<Option<Vec<_>>>()?.concat();
            // Cannot fail: `seal_some` wrote these bytes.
            Some(Sequitur::saved(&bytes, terminals).ok()?.0.grammar())
        });
        let mut all: Vec<Grammar> = sealed.collect();
        all.extend(self.sealing.iter().map(|sealing| sealing.grammar.grammar()));
        if !self.grammar.is_empty() || all.is_empty() {
            all.push(self.grammar.grammar());
        }
        all
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.signatures.memory()
            + self.grammar.memory()
            + self.sealing.as_ref().map_or(0, |sealing| sealing.grammar.memory())
            + self.sealed_memory()
            + self.varying.iter().map(Varying::memory).sum::<usize>()
            + self.polls.iter().map(Polls::memory).sum::<usize>()
    }
}
