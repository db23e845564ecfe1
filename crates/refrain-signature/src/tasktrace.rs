//! The complete trace of one task: the input of the merge and of the decoder.

use crate::cells::{self, Cells};
use crate::head::Head;
use crate::outcome::{Polls, StoredOutcomes};
use crate::stats::Stats;
use refrain_grammar::Grammar;
use std::collections::BTreeMap;

/// A signature with its outcomes, failed polls and statistics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SignatureTrace {
    /// Its cells.
    pub cells: Vec<u8>,
    /// The outcome of its first call.
    pub outcome: Vec<u8>,
    /// All outcomes, where they vary.
    pub varying: Option<StoredOutcomes>,
    /// Failed polls, where there were any.
    pub polls: Option<Polls>,
    /// Durations.
    pub stats: Stats,
}

impl SignatureTrace {
    /// Function, call site, depth, and whether its calls returned.
    pub fn head(&self) -> Option<Head> {
        Head::read(&mut Cells::new(&self.cells))
    }
}

/// The trace of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTrace {
    /// Functions by their number in signatures, as lines of [`refrain_format::define`].
    pub functions: Vec<(u16, String)>,
    /// Predefined handles, each as `kind name`.
    pub predefined: Vec<String>,
    /// Strings.
    pub strings: Vec<Vec<u8>>,
    /// Signatures by first occurrence.
    pub signatures: Vec<SignatureTrace>,
    /// The sequence of signatures: several grammars, one after the other, where one would have
    /// grown too large.
    pub grammars: Vec<Grammar>,
    /// Calls that were not recorded for lack of memory.
    pub lost: u64,
}

impl TaskTrace {
    /// The head of a signature.
    pub fn head(&self, terminal: u32) -> Option<Head> {
        self.signatures.get(terminal as usize)?.head()
    }

    /// Writes it without further compression, for the transfer from a process to the merge.
    pub fn put(&self, out: &mut Vec<u8>) {
        let length = |out: &mut Vec<u8>, n: usize| cells::put_unsigned(out, n as u64);
        length(out, self.functions.len());
        for (number, text) in &self.functions {
            length(out, usize::from(*number));
            cells::put_bytes(out, text.as_bytes());
        }
        length(out, self.predefined.len());
        self.predefined.iter().for_each(|name| cells::put_bytes(out, name.as_bytes()));
        length(out, self.strings.len());
        self.strings.iter().for_each(|text| cells::put_bytes(out, text));
        length(out, self.signatures.len());
        for signature in &self.signatures {
            let flags =
                u8::from(signature.varying.is_some()) | u8::from(signature.polls.is_some()) << 1;
            out.push(flags);
            cells::put_bytes(out, &signature.cells);
            cells::put_bytes(out, &signature.outcome);
            if let Some(varying) = &signature.varying {
                varying.put(out);
            }
            if let Some(polls) = &signature.polls {
                polls.put(out);
            }
            signature.stats.put(out);
        }
        length(out, self.grammars.len());
        for grammar in &self.grammars {
            let mut bytes = Vec::new();
            grammar.encode(&mut bytes);
            cells::put_bytes(out, &bytes);
        }
        cells::put_unsigned(out, self.lost);
    }

    /// Reads it; `None` if the bytes are malformed.
    pub fn get(bytes: &mut Cells<'_>) -> Option<TaskTrace> {
        let text = |c: &mut Cells<'_>| String::from_utf8(c.get_bytes()?.to_vec()).ok();
        let mut trace = TaskTrace::default();
        for _ in 0..bytes.get_length()? {
            let number = u16::try_from(bytes.get_unsigned()?).ok()?;
            trace.functions.push((number, text(bytes)?));
        }
        for _ in 0..bytes.get_length()? {
            trace.predefined.push(text(bytes)?);
        }
        for _ in 0..bytes.get_length()? {
            trace.strings.push(bytes.get_bytes()?.to_vec());
        }
        for _ in 0..bytes.get_length()? {
            let flags = *bytes.take(1)?.first()?;
            trace.signatures.push(SignatureTrace {
                cells: bytes.get_bytes()?.to_vec(),
                outcome: bytes.get_bytes()?.to_vec(),
                varying: match flags & 1 {
                    0 => None,
                    _ => Some(StoredOutcomes::get(bytes)?),
                },
                polls: match flags & 2 {
                    0 => None,
                    _ => Some(Polls::get(bytes)?),
                },
                stats: Stats::get(bytes)?,
            });
        }
        let terminals = trace.signatures.len();
        for _ in 0..bytes.get_length()? {
            trace.grammars.push(Grammar::decode(bytes.get_bytes()?, terminals).ok()?);
        }
        trace.lost = bytes.get_unsigned()?;
        Some(trace)
    }

    /// How often each function was called.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        let mut calls = BTreeMap::new();
        let name = |number: u16| {
            let (_, text) = self.functions.iter().find(|(n, _)| *n == number)?;
            text.split(' ').next().map(str::to_owned)
        };
        for (signature, occurrences) in self.signatures.iter().zip(self.occurrences()) {
            let Some(head) = signature.head() else { continue };
            if head.is_note() {
                continue;
            }
            let function = head.function;
            let polls = signature.polls.as_ref().map_or(0, Polls::total);
            let name = name(function).unwrap_or_else(|| format!("function {function}"));
            let sum: &mut u64 = calls.entry(name).or_default();
            *sum = sum.saturating_add(occurrences).saturating_add(polls);
        }
        calls
    }

    /// How often each signature occurs in the sequence.
    pub fn occurrences(&self) -> Vec<u64> {
        let mut counts = vec![0u64; self.signatures.len()];
        for grammar in &self.grammars {
            for (sum, n) in counts.iter_mut().zip(grammar.counts(self.signatures.len())) {
                *sum = sum.saturating_add(n);
            }
        }
        counts
    }
}
