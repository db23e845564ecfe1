//! A long task in few calls: enough to know where it stands.
//!
//! A job hangs after millions of calls; to decode them all would take minutes. What the wait-for
//! graph needs of the past are numbers (messages sent, collectives called), and those are numbers
//! of *signatures*, which the grammar has without being expanded. So of all but the last calls each
//! signature is decoded once, in the order of their last occurrences (then what is left of objects
//! and requests is right), with the number of its occurrences. The last calls are decoded one by
//! one.

use anyhow::Result;
use refrain_analysis::waits::position::Times;
use refrain_grammar::{Grammar, Symbol, What};
use refrain_reader::decoder::Decoder;
use refrain_signature::tasktrace::TaskTrace;
use std::collections::HashSet;

/// Tasks with fewer calls are decoded as they are.
const LONG: u64 = 100_000;

/// Of longer ones so many are decoded one by one.
const TAIL: u64 = 4096;

/// A task, or few calls that stand for it.
pub struct Digest {
    /// The task.
    pub task: TaskTrace,
    /// For the first of its calls and notes, how often they were made.
    times: Vec<u64>,
    /// How many calls the task has that this one has not.
    left_out: u64,
}

impl Digest {
    /// All of a task.
    pub fn whole(task: TaskTrace) -> Digest {
        Digest { task, times: Vec::new(), left_out: 0 }
    }

    /// Few calls of a task; all of it, if it is not long, or has calls inside calls.
    pub fn of(task: TaskTrace) -> Digest {
        let total: u64 = task.grammars.iter().map(Grammar::len).sum();
        let is_nested = task.signatures.iter().any(|s| s.head().is_none_or(|head| head.depth > 0));
        if total < LONG || is_nested {
            return Digest::whole(task);
        }
        let tail = tail(&task.grammars);
        let mut times = task.occurrences();
        for terminal in &tail {
            if let Some(n) = times.get_mut(*terminal as usize) {
                *n -= 1;
            }
        }
        let before: Vec<u32> = by_last_occurrence(&task.grammars)
            .into_iter()
            .filter(|terminal| times.get(*terminal as usize).is_some_and(|n| *n > 0))
            .collect();
        let symbols = before.iter().chain(&tail).map(|t| Symbol::terminal(*t, 1)).collect();
        let Ok(grammar) = Grammar::new(vec![symbols]) else { return Digest::whole(task) };
        let is_call = |terminal: &&u32| task.head(**terminal).is_some_and(|head| !head.is_note());
        let calls: u64 = task.calls().values().sum();
        let kept = before.iter().chain(&tail).filter(is_call).count() as u64;
        let times = before.iter().map(|terminal| times[*terminal as usize]).collect();
        let mut task = TaskTrace { grammars: vec![grammar], ..task };
        // Polls that failed say nothing about anybody.
        task.signatures.iter_mut().for_each(|signature| signature.polls = None);
        Digest { task, times, left_out: calls - kept }
    }

    /// Its calls, each with how often it was made, as the decoder gives them.
    pub fn calls<'a>(&'a self, decoder: Decoder<'a>) -> impl Iterator<Item = Result<Times>> + 'a {
        let times = self.times.iter().copied().chain(std::iter::repeat(1));
        decoder.zip(times).map(|(event, times)| {
            let mut event = event?;
            event.number += self.left_out;
            Ok((event, times))
        })
    }
}

/// The last terminals.
fn tail(grammars: &[Grammar]) -> Vec<u32> {
    let mut tail: Vec<u32> = Vec::new();
    for grammar in grammars.iter().rev() {
        let wanted = TAIL.saturating_sub(tail.len() as u64);
        let from = grammar.len().saturating_sub(wanted);
        tail.splice(0..0, grammar.iter_from(from));
        if tail.len() as u64 >= TAIL {
            break;
        }
    }
    tail
}

/// All terminals, by the place of their last occurrence.
fn by_last_occurrence(grammars: &[Grammar]) -> Vec<u32> {
    let (mut seen, mut order) = (HashSet::new(), Vec::new());
    for grammar in grammars.iter().rev() {
        // From the end: whatever a rule yields has been met when the rule has been walked once.
        let mut walked = HashSet::from([0]);
        let body = |rule: u32| grammar.rules().get(rule as usize).map_or(&[][..], Vec::as_slice);
        let mut stack = vec![body(0)];
        while let Some(rest) = stack.last_mut() {
            let Some((last, before)) = rest.split_last() else {
                stack.pop();
                continue;
            };
            *rest = before;
            match last.what {
                What::Terminal(terminal) => {
                    if seen.insert(terminal) {
                        order.push(terminal);
                    }
                }
                What::Rule(rule) => {
                    if walked.insert(rule) {
                        stack.push(body(rule));
                    }
                }
            }
        }
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grammars() -> Vec<Grammar> {
        // 7 (1 2)^3 4 | 1 5
        let rules = vec![
            vec![Symbol::terminal(7, 1), Symbol::rule(1, 3), Symbol::terminal(4, 1)],
            vec![Symbol::terminal(1, 1), Symbol::terminal(2, 1)],
        ];
        let second = vec![vec![Symbol::terminal(1, 1), Symbol::terminal(5, 1)]];
        vec![Grammar::new(rules).unwrap(), Grammar::new(second).unwrap()]
    }

    #[test]
    fn terminals_come_by_their_last_occurrence() {
        assert_eq!(by_last_occurrence(&grammars()), [7, 2, 4, 1, 5]);
    }

    #[test]
    fn the_tail_goes_over_several_grammars() {
        assert_eq!(tail(&grammars()), [7, 1, 2, 1, 2, 1, 2, 4, 1, 5]);
    }
}
