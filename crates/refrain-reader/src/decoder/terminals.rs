//! The sequence of a task's terminals, with its failed polls.

use refrain_grammar::Iter;
use refrain_signature::outcome::PollReader;
use refrain_signature::tasktrace::TaskTrace;

/// A walk along the sequence.
pub(super) struct Terminals<'t> {
    trace: &'t TaskTrace,
    grammar: usize,
    terminals: Option<Iter<'t>>,
    polls: Vec<Option<PollReader<'t>>>,
    /// Failed polls to give out before the call of that signature.
    pending: Option<(u32, u64)>,
}

impl<'t> Terminals<'t> {
    /// From the first call on.
    pub fn new(trace: &'t TaskTrace) -> Terminals<'t> {
        let polls = trace.signatures.iter().map(|s| s.polls.as_ref().map(PollReader::new));
        Terminals {
            trace,
            grammar: 0,
            terminals: trace.grammars.first().map(|g| g.iter()),
            polls: polls.collect(),
            pending: None,
        }
    }
}

impl Iterator for Terminals<'_> {
    /// A terminal, and whether it is a poll that failed.
    type Item = (u32, bool);

    fn next(&mut self) -> Option<(u32, bool)> {
        if let Some((signature, count)) = &mut self.pending {
            let signature = *signature;
            if *count == 0 {
                self.pending = None;
                return Some((signature, false));
            }
            *count -= 1;
            return Some((signature, true));
        }
        loop {
            if let Some(signature) = self.terminals.as_mut()?.next() {
                let reader = self.polls.get_mut(signature as usize).and_then(Option::as_mut);
                match reader.map_or(0, PollReader::next_count) {
                    0 => return Some((signature, false)),
                    count => {
                        self.pending = Some((signature, count - 1));
                        return Some((signature, true));
                    }
                }
            }
            self.grammar += 1;
            self.terminals = self.trace.grammars.get(self.grammar).map(|g| g.iter());
        }
    }
}
