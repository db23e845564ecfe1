//! A task's trace as it is built: signatures, grammar, outcomes.

use crate::hash::Map;
use crate::outcome::{Polls, Varying};
use crate::signature::{NONE, Signatures};
use refrain_grammar::{Grammar, Sequitur};

/// A grammar that takes more memory than this is sealed, and another begun.
const GRAMMAR_CAP: usize = 96 << 20;

/// The trace of one thread so far.
#[derive(Debug, Default)]
pub struct Task {
    /// Its signatures.
    pub signatures: Signatures,
    grammar: Sequitur,
    sealed: Vec<Grammar>,
    /// Outcomes of signatures whose outcomes vary.
    pub varying: Vec<Varying>,
    /// Failed polls of signatures that poll.
    pub polls: Vec<Polls>,
    strings: Vec<Box<[u8]>>,
    string_numbers: Map<Box<[u8]>, u32>,
    /// Predefined handles it used: their places in the process.
    pub predefined: Vec<u32>,
    /// For each place in the process the number here plus 1.
    predefined_numbers: Vec<u32>,
    /// Functions used.
    pub functions: Vec<u16>,
    lost: u64,
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

    /// The number of a predefined handle, by its place in the process.
    #[inline]
    pub fn predefined(&mut self, place: u32) -> u32 {
        match self.predefined_numbers.get(place as usize) {
            Some(number) if *number > 0 => *number - 1,
            _ => self.new_predefined(place),
        }
    }

    #[cold]
    fn new_predefined(&mut self, place: u32) -> u32 {
        if self.predefined_numbers.len() <= place as usize {
            self.predefined_numbers.resize(place as usize + 1, 0);
        }
        self.predefined.push(place);
        let number = self.predefined.len() as u32;
        self.predefined_numbers[place as usize] = number;
        number - 1
    }

    /// The signature that probably comes next.
    #[inline]
    pub fn expected(&self) -> Option<u32> {
        self.grammar.predicted()
    }

    /// The number of a signature; `None` when no more fit.
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
        if self.grammar.memory() > GRAMMAR_CAP {
            self.sealed.push(std::mem::take(&mut self.grammar).grammar());
        }
    }

    /// Whether polls of a signature that fail with that outcome can be counted.
    pub fn can_count_polls(&mut self, signature: u32, failed: &[u8]) -> bool {
        let Some(s) = self.signatures.get_mut(signature) else { return false };
        if s.polls == NONE {
            s.polls = self.polls.len() as u32;
            self.polls.push(Polls::new(failed, s.emitted));
            return true;
        }
        self.polls.get(s.polls as usize).is_some_and(|polls| polls.failed == failed)
    }

    /// Calls that found no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The grammars, in order.
    pub fn grammars(&self) -> Vec<Grammar> {
        let mut all = self.sealed.clone();
        if self.grammar.len() > 0 || all.is_empty() {
            all.push(self.grammar.grammar());
        }
        all
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.signatures.memory()
            + self.grammar.memory()
            + self.varying.iter().map(Varying::memory).sum::<usize>()
            + self.polls.iter().map(Polls::memory).sum::<usize>()
    }
}
