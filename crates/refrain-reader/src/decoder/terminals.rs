//! The sequence of a task's terminals, with its failed polls.

use crate::view::TaskView;
use refrain_grammar::{Grammar, Iter, Place};
use refrain_signature::outcome::PollReader;

/// An iterator over the sequence.
pub(crate) struct Terminals<'t> {
    sequence: Sequence<'t>,
    /// By signature; none at all where no poll failed.
    polls: Vec<Option<PollReader<'static>>>,
    /// Failed polls to return before the call of that signature.
    pending: Option<(u32, u64)>,
}

enum Sequence<'t> {
    Grammars { current: Option<Iter<'t>>, rest: std::slice::Iter<'t, Grammar> },
    List(std::vec::IntoIter<u32>),
}

impl Sequence<'_> {
    fn next(&mut self) -> Option<u32> {
        match self {
            Sequence::List(list) => list.next(),
            Sequence::Grammars { current, rest } => loop {
                if let Some(terminal) = current.as_mut()?.next() {
                    return Some(terminal);
                }
                *current = rest.next().map(Grammar::iter);
            },
        }
    }
}

impl<'t> Terminals<'t> {
    /// From the first call on.
    pub fn new(view: &TaskView<'t>) -> Terminals<'t> {
        let mut rest = view.grammars().iter();
        let mut polls = Vec::new();
        for (signature, failed) in view.polls() {
            let signature = *signature as usize;
            if signature < view.signatures() {
                polls.resize(polls.len().max(signature + 1), None);
                polls[signature] = Some(PollReader::owned(failed));
            }
        }
        let current = rest.next().map(Grammar::iter);
        Terminals { sequence: Sequence::Grammars { current, rest }, polls, pending: None }
    }

    /// The grammar that the next terminal is in, counted from the last one, and where in its loops it is. None between
    /// failed polls, and for a list.
    pub fn levels(&self) -> Option<(usize, Vec<Place>)> {
        match &self.sequence {
            Sequence::Grammars { current: Some(iter), rest } if self.pending.is_none() => {
                Some((rest.len(), iter.levels()))
            }
            _ => None,
        }
    }

    /// Leaves out iterations of a level.
    pub fn skip_iterations(&mut self, level: usize, n: u64) -> bool {
        match &mut self.sequence {
            Sequence::Grammars { current: Some(iter), .. } => iter.skip_iterations(level, n),
            _ => false,
        }
    }

    /// Whether polls of a signature failed.
    pub fn has_failed_polls(&self, signature: u32) -> bool {
        self.polls.get(signature as usize).is_some_and(Option::is_some)
    }

    /// These terminals, without failed polls.
    pub fn list(terminals: Vec<u32>) -> Terminals<'t> {
        let sequence = Sequence::List(terminals.into_iter());
        Terminals { sequence, polls: Vec::new(), pending: None }
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
        let signature = self.sequence.next()?;
        let reader = self.polls.get_mut(signature as usize).and_then(Option::as_mut);
        match reader.map_or(0, PollReader::next_count) {
            0 => Some((signature, false)),
            count => {
                self.pending = Some((signature, count - 1));
                Some((signature, true))
            }
        }
    }
}
