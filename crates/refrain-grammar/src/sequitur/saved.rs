//! Writes a growing grammar in pieces.
//!
//! A finished grammar ([`Sequitur::grammar`]) takes a copy, a walk of all rules and a second one to write
//! it: milliseconds for a large grammar, during which a program can do nothing else. So the state of a
//! program that is running has the rules as they are, in the order of their guards, and whoever reads it
//! finishes the grammar.
//!
//! For each rule: its guard, as the difference from the previous one (not for the start rule, which is
//! the first); its symbols; 0. After the last rule comes a difference of 0. The walk follows: how often
//! the last symbol of the start rule was repeated, the symbols that were walked, and 0.
//!
//! | symbol | numbers |
//! |---|---|
//! | terminal, once | 1 + 4·terminal |
//! | terminal, repeated | 2 + 4·terminal, count |
//! | rule, once | 3 + 4·guard |
//! | rule, repeated | 4 + 4·guard, count |

use super::nodes::{Id, Kind, START};
use super::{Sequitur, Walked};
use crate::error::GrammarError;
use crate::grammar::{Grammar, Symbol, What};
use crate::reader::Reader;
use refrain_bytes::varint::put;

/// How far a grammar is written. It must not change before it is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saving {
    /// The rule that is being written.
    guard: Id,
    /// The symbol, or its guard, whose successor is next.
    at: Id,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Its symbols are written.
    #[default]
    Body,
    /// The next rule is searched behind `at`.
    Search,
    Walk,
    Done,
}

/// How many nodes are searched for the next rule at a time.
const SEARCHED: u32 = 256;

fn put_symbol(out: &mut Vec<u8>, kind: Kind, value: u32, count: u64) {
    let code = if kind == Kind::Rule { 3 } else { 1 };
    if count == 1 {
        put(out, code + 4 * u64::from(value));
    } else {
        put(out, code + 1 + 4 * u64::from(value));
        put(out, count);
    }
}

impl Sequitur {
    /// Writes some more, until `out` has `enough` bytes or a little later, or until it has looked for the next rule for
    /// long. Returns whether all is written.
    pub fn save_some(&self, saving: &mut Saving, out: &mut Vec<u8>, enough: usize) -> bool {
        let nodes = &self.rules.nodes;
        while matches!(saving.stage, Stage::Body | Stage::Search) {
            match saving.stage {
                Stage::Body => {
                    let id = nodes.next(saving.at);
                    if id != saving.guard {
                        let node = nodes.get(id);
                        put_symbol(out, node.kind, node.value, node.count);
                        saving.at = id;
                    } else {
                        put(out, 0);
                        (saving.stage, saving.at) = (Stage::Search, saving.guard);
                    }
                }
                _ => {
                    let end = nodes.end().min(saving.at.saturating_add(1 + SEARCHED));
                    let found = (saving.at + 1..end).find(|id| nodes.kind(*id) == Kind::Guard);
                    match found {
                        Some(guard) => {
                            put(out, u64::from(guard - saving.guard));
                            *saving = Saving { guard, at: guard, stage: Stage::Body };
                        }
                        None if end < nodes.end() => {
                            saving.at = end - 1;
                            return false;
                        }
                        None => {
                            put(out, 0);
                            saving.stage = Stage::Walk;
                        }
                    }
                }
            }
            if out.len() >= enough {
                return false;
            }
        }
        if saving.stage == Stage::Walk {
            let mut walked = Vec::new();
            let repeated = self.cursor.clone().end(nodes, &mut walked);
            put(out, repeated);
            walked.iter().for_each(|w: &Walked| put_symbol(out, w.kind, w.value, w.count));
            put(out, 0);
            saving.stage = Stage::Done;
        }
        true
    }

    /// Reads what [`Sequitur::save_some`] wrote, with terminals below `terminals`. Also returns how many
    /// bytes that was.
    pub fn saved(bytes: &[u8], terminals: usize) -> Result<(Sequitur, usize), GrammarError> {
        let mut reader = Reader::new(bytes);
        let mut guards: Vec<u64> = vec![START.into()];
        let mut rules = Vec::new();
        loop {
            rules.push(body(&mut reader, rules.len(), terminals)?);
            let difference = reader.number()?;
            if difference == 0 {
                break;
            }
            let last = guards.last().copied().unwrap_or_default();
            guards.push(last.saturating_add(difference));
        }
        let repeated = reader.number()?;
        let walked = body(&mut reader, 0, terminals)?;
        if let Some(start) = rules.first_mut() {
            if let Some(last) = start.last_mut() {
                last.count = last.count.saturating_add(repeated);
            }
            start.extend(walked);
        }
        // Rules are numbered in the order of their guards.
        for (rule, symbol) in
            (0..).zip(&mut rules).flat_map(|(r, b)| b.iter_mut().map(move |s| (r, s)))
        {
            if let What::Rule(guard) = &mut symbol.what {
                let number = guards.binary_search(&u64::from(*guard)).map_err(|_| {
                    GrammarError::UnknownRule {
                        rule,
                        names: i64::from(*guard),
                        rules: guards.len(),
                    }
                })?;
                *guard = number as u32;
            }
        }
        Ok((Sequitur::from_grammar(&Grammar::new(rules)?), reader.at()))
    }
}

/// Reads symbols up to the end of a body.
fn body(
    reader: &mut Reader<'_>,
    rule: usize,
    terminals: usize,
) -> Result<Vec<Symbol>, GrammarError> {
    let mut body = Vec::new();
    loop {
        let at = reader.at();
        let Some(item) = reader.number()?.checked_sub(1) else { return Ok(body) };
        let too_large = GrammarError::NumberTooLarge { at };
        let value = u32::try_from(item >> 2).map_err(|_| too_large)?;
        let count = if item & 1 == 1 { reader.number()? } else { 1 };
        body.push(match item & 2 == 0 {
            true if (value as usize) < terminals => Symbol::terminal(value, count),
            true => {
                let terminal = value.into();
                return Err(GrammarError::UnknownTerminal { rule, terminal, terminals });
            }
            false => Symbol::rule(value, count),
        });
    }
}
