//! Compares a trace with the raw words from which it was made.
//!
//! Raw words are decoded without the compressor's code: a block's number, then its addresses. Each must equal the
//! thread's next reference in the trace. Where the trace is truncated, raw words may go on past its end,
//! and may end anywhere.

use crate::error::TraceError;
use crate::process::Ended;
use crate::sections;
use crate::trace::{MemoryTrace, ProcessTrace};
use refrain_memory::{Access, Reference, References};
use std::collections::BTreeMap;
use std::io::Read;

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// How many references are equal.
    pub equal: u64,
    /// Bytes of raw words.
    pub raw_bytes: u64,
    /// The first differences, as text.
    pub differences: Vec<String>,
    /// How many differences there are.
    pub different: u64,
    /// References in raw words past the end of a truncated trace.
    pub beyond: u64,
    /// References of a truncated trace past the end of its raw words, which are truncated too.
    pub unmatched: u64,
}

const FIRST: u64 = 20;

impl Comparison {
    fn differs(&mut self, what: String) {
        self.different += 1;
        if self.different <= FIRST {
            self.differences.push(what);
        }
    }
}

/// Compares all processes of a trace that has raw words.
pub fn compare(trace: &MemoryTrace) -> Result<Comparison, TraceError> {
    let mut comparison = Comparison::default();
    for number in 0..trace.facts().processes.len() as u32 {
        let name = format!("{}{number}", sections::RAW);
        if trace.container().sections().iter().any(|section| section.name == name) {
            let process = trace.process(number)?;
            let raw = trace.container().read(&name)?;
            let facts = &trace.facts().processes[number as usize];
            let is_whole = facts.ended != Ended::Running;
            let lacks_words = !facts.lost.is_empty();
            compare_process(number, &process, is_whole, lacks_words, raw, &mut comparison)?;
        }
    }
    Ok(comparison)
}

/// A thread's references, and how many were compared.
struct Thread<'a> {
    references: References<'a>,
    taken: u64,
}

fn compare_process(
    number: u32,
    process: &ProcessTrace,
    is_whole: bool,
    lacks_words: bool,
    mut raw: impl Read,
    comparison: &mut Comparison,
) -> Result<(), TraceError> {
    let mut threads: BTreeMap<u32, Thread<'_>> = BTreeMap::new();
    // The blocks by the numbers that they have in the raw words.
    let numbers = process.trace.numbers.iter().flatten();
    let blocks: Vec<&[Reference]> =
        numbers.map(|number| process.code.blocks.get(*number).unwrap_or_default()).collect();
    let mut words = Vec::new();
    let mut head = [0; 8];
    while is_there(&mut raw, &mut head, is_whole)? {
        let [thread, count] = [0, 4].map(|at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
        });
        words.clear();
        raw.by_ref().take(8 * u64::from(count)).read_to_end(&mut words)?;
        if is_whole && words.len() != 8 * count as usize {
            return Err(TraceError::Short);
        }
        comparison.raw_bytes += 8 + words.len() as u64;
        let state = threads
            .entry(thread)
            .or_insert_with(|| Thread { references: process.trace.references(thread), taken: 0 });
        let mut stream = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        while let Some(block) = stream.next() {
            let block = usize::try_from(block).ok().and_then(|block| blocks.get(block));
            for reference in *block.ok_or(TraceError::Short)? {
                match stream.next() {
                    Some(address) => {
                        state.compare((number, thread), is_whole, reference, address, comparison);
                    }
                    None if is_whole => return Err(TraceError::Short),
                    None => break,
                }
            }
        }
    }
    let all = process.trace.threads();
    for thread in all {
        let (mut rest, taken) = match threads.remove(&thread) {
            Some(state) => (state.references, state.taken),
            None => (process.trace.references(thread), 0),
        };
        if lacks_words {
            comparison.unmatched += rest.take_while(Result::is_ok).count() as u64;
        } else if let Some(more) = rest.next() {
            comparison.differs(format!(
                "process {number} thread {thread} reference {taken}: the trace goes on with {more:x?}"
            ));
        }
    }
    Ok(())
}

impl Thread<'_> {
    fn compare(
        &mut self,
        (process, thread): (u32, u32),
        is_whole: bool,
        reference: &Reference,
        address: u64,
        comparison: &mut Comparison,
    ) {
        let Reference { kind, size, pc } = *reference;
        let expected = Access { kind, size, pc, address };
        let at = self.taken;
        self.taken += 1;
        match self.references.next() {
            Some(Ok(access)) if access == expected => comparison.equal += 1,
            None if !is_whole => comparison.beyond += 1,
            got => comparison.differs(format!(
                "process {process} thread {thread} reference {at}: recorded {expected:x?}, the trace \
                 has {got:x?}"
            )),
        }
    }
}

/// Reads the next head; false at the end.
fn is_there(raw: &mut impl Read, head: &mut [u8; 8], is_whole: bool) -> Result<bool, TraceError> {
    let mut got = 0;
    while got < head.len() {
        match raw.read(&mut head[got..])? {
            0 if got == 0 || !is_whole => return Ok(false),
            0 => return Err(TraceError::Short),
            n => got += n,
        }
    }
    Ok(true)
}
