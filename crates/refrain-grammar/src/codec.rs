//! Rules as bytes.
//!
//! All numbers are varints. First the number of rules; then, for each rule, the number of its
//! items and the items. An item begins with a number whose low bits say what it is; the rest of
//! that number is a signed difference:
//!
//! | low bits | item | difference | then |
//! |---|---|---|---|
//! | `0` | a terminal | to the terminal before plus one | |
//! | `001` | a rule | to the number of the rule that contains it, plus one | |
//! | `011` | a rule, repeated | the same | its count less 2 |
//! | `101` | a terminal, repeated | as for a terminal | its count less 2 |
//! | `111` | a run *k, k+1, k+2, …* | of *k*, as for a terminal | its length less 3 |
//!
//! The terminal before is the last one written, in this rule or an earlier one; -1 at the beginning.
//! Terminals are numbered by first occurrence, so differences are often 0 and runs are frequent:
//! the calls that a program makes once at its start are a run.
//!
//! Example: `0 → 1^1000 5`, `1 → 0 1 2 3^4` is
//!
//! ```text
//! 02                   two rules
//! 02 03 e6 07 14       two items: 3 = 011, difference 0: rule 1; 998 + 2 times;
//!                      20 = 0, difference +5 to 0 (folded: 10): terminal 5
//! 02 5f 00 05 02       two items: 95 = 111, difference -6 to 6 (folded: 11): from terminal 0,
//!                      0 + 3 long; 5 = 101, difference 0: terminal 3; 2 + 2 times
//! ```
//!
//! # Runs in hostile bytes
//!
//! A run of three bytes could claim four billion symbols. But if digrams are unique, each pair
//! *k, k+1* occurs once, so all runs together have at most as many pairs as the alphabet. The
//! decoder, which knows the alphabet, enforces this limit. The encoder writes runs only within it,
//! so it can also write grammars whose digrams are not unique. Hence decoded rules have at most as
//! many symbols as there are bytes and terminals.

use crate::error::GrammarError;
use crate::grammar::{Symbol, What};
use crate::reader::Reader;
use refrain_bytes::varint::{put, unzigzag, zigzag};

const RULE: u64 = 0b001;
const RULE_REPEATED: u64 = 0b011;
const TERMINAL_REPEATED: u64 = 0b101;
const RUN: u64 = 0b111;

const LEAST_RUN: usize = 3;

/// Appends rules.
pub(crate) fn encode(rules: &[Vec<Symbol>], out: &mut Vec<u8>) {
    // The number of pairs that may still be written as runs.
    let mut pairs = rules.iter().flatten().fold(0, |most, symbol| match symbol.what {
        What::Terminal(terminal) => most.max(terminal as usize),
        What::Rule(_) => most,
    });
    let mut before = -1;
    put(out, rules.len() as u64);
    let mut items = Vec::new();
    for (rule, body) in rules.iter().enumerate() {
        items.clear();
        let mut amount = 0;
        let mut at = 0;
        while let Some(symbol) = body.get(at) {
            amount += 1;
            let run = run_length(body.get(at..).unwrap_or_default(), pairs);
            at += 1;
            match symbol.what {
                What::Terminal(first) if run >= LEAST_RUN => {
                    let difference = i64::from(first) - (before + 1);
                    put(&mut items, zigzag(difference) << 3 | RUN);
                    put(&mut items, (run - LEAST_RUN) as u64);
                    pairs -= run - 1;
                    before = i64::from(first) + run as i64 - 1;
                    at += run - 1;
                }
                What::Terminal(terminal) => {
                    let difference = i64::from(terminal) - (before + 1);
                    before = i64::from(terminal);
                    if symbol.count == 1 {
                        put(&mut items, zigzag(difference) << 1);
                    } else {
                        put(&mut items, zigzag(difference) << 3 | TERMINAL_REPEATED);
                        put(&mut items, symbol.count.wrapping_sub(2));
                    }
                }
                What::Rule(inner) => {
                    let difference = i64::from(inner) - (rule as i64 + 1);
                    if symbol.count == 1 {
                        put(&mut items, zigzag(difference) << 3 | RULE);
                    } else {
                        put(&mut items, zigzag(difference) << 3 | RULE_REPEATED);
                        put(&mut items, symbol.count.wrapping_sub(2));
                    }
                }
            }
        }
        put(out, amount);
        out.extend_from_slice(&items);
    }
}

/// The length of the run *k, k+1, k+2, …* at the beginning of a body, with at most `pairs` pairs.
fn run_length(body: &[Symbol], pairs: usize) -> usize {
    let follows = |pair: &&[Symbol]| match *pair {
        [
            Symbol { what: What::Terminal(left), count: 1 },
            Symbol { what: What::Terminal(right), count: 1 },
        ] => left.checked_add(1) == Some(*right),
        _ => false,
    };
    1 + body.windows(2).take(pairs).take_while(follows).count()
}

/// Reads rules over the terminals below `terminals`, without checking that they form a grammar.
pub(crate) fn decode(
    reader: &mut Reader<'_>,
    terminals: usize,
) -> Result<Vec<Vec<Symbol>>, GrammarError> {
    let rules = reader.amount()?;
    let mut bodies = Vec::new();
    let mut before = -1;
    let mut pairs = terminals;
    for rule in 0..rules {
        let mut body = Vec::new();
        for _ in 0..reader.amount()? {
            decode_item(reader, &mut body, (rule, rules), terminals, &mut before, &mut pairs)?;
        }
        body.shrink_to_fit();
        bodies.push(body);
    }
    Ok(bodies)
}

fn decode_item(
    reader: &mut Reader<'_>,
    body: &mut Vec<Symbol>,
    (rule, rules): (usize, usize),
    terminals: usize,
    before: &mut i64,
    pairs: &mut usize,
) -> Result<(), GrammarError> {
    let item = reader.number()?;
    // Clamped, so that sums do not overflow: far outside the alphabet is an error anyway.
    let bounded = |folded| unzigzag(folded).clamp(-(1 << 40), 1 << 40);
    let terminal = |number: i64| match u32::try_from(number) {
        Ok(terminal) if (terminal as usize) < terminals => Ok(terminal),
        _ => Err(GrammarError::UnknownTerminal { rule, terminal: number, terminals }),
    };
    if item & 1 == 0 {
        let number = terminal(*before + 1 + bounded(item >> 1))?;
        *before = i64::from(number);
        body.push(Symbol::terminal(number, 1));
        return Ok(());
    }
    let difference = bounded(item >> 3);
    let kind = item & 0b111;
    if kind == RUN {
        let first = terminal(*before + 1 + difference)?;
        let length = usize::try_from(reader.number()?).unwrap_or(usize::MAX);
        let length = length.saturating_add(LEAST_RUN);
        *pairs = pairs.checked_sub(length - 1).ok_or(GrammarError::RunsTooLong { rule })?;
        *before = i64::from(first).saturating_add(length as i64 - 1);
        let last = terminal(*before)?;
        body.extend((first..=last).map(|terminal| Symbol::terminal(terminal, 1)));
        return Ok(());
    }
    let mut count = 1;
    if kind != RULE {
        let at = reader.at();
        count = reader.number()?.checked_add(2).ok_or(GrammarError::NumberTooLarge { at })?;
    }
    if kind == TERMINAL_REPEATED {
        let number = terminal(*before + 1 + difference)?;
        *before = i64::from(number);
        body.push(Symbol::terminal(number, count));
    } else {
        let names = rule as i64 + 1 + difference;
        match u32::try_from(names) {
            Ok(inner) if (inner as usize) < rules => body.push(Symbol::rule(inner, count)),
            _ => return Err(GrammarError::UnknownRule { rule, names, rules }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_is_right() {
        let rules = vec![
            vec![Symbol::rule(1, 1000), Symbol::terminal(5, 1)],
            vec![
                Symbol::terminal(0, 1),
                Symbol::terminal(1, 1),
                Symbol::terminal(2, 1),
                Symbol::terminal(3, 4),
            ],
        ];
        let mut bytes = Vec::new();
        encode(&rules, &mut bytes);
        let expected = [0x02, 0x02, 0x03, 0xe6, 0x07, 0x14, 0x02, 0x5f, 0x00, 0x05, 0x02];
        assert_eq!(bytes, expected);
        assert_eq!(decode(&mut Reader::new(&bytes), 6), Ok(rules));
    }

    #[test]
    fn a_sequence_of_new_terminals_is_one_item() {
        let rules = vec![(0..1_000_000).map(|terminal| Symbol::terminal(terminal, 1)).collect()];
        let mut bytes = Vec::new();
        encode(&rules, &mut bytes);
        assert_eq!(bytes.len(), 6);
        assert_eq!(decode(&mut Reader::new(&bytes), 1_000_000), Ok(rules));
    }

    #[test]
    fn runs_cannot_claim_more_than_the_alphabet() {
        // One rule, two items: twice the run 0, 1, 2, 3.
        let bytes = [1, 2, 0b111, 1, 7 << 3 | 0b111, 1];
        let runs_too_long = Err(GrammarError::RunsTooLong { rule: 0 });
        assert_eq!(decode(&mut Reader::new(&bytes), 5), runs_too_long);
        assert!(decode(&mut Reader::new(&bytes), 6).is_ok());
    }

    #[test]
    fn rules_whose_runs_repeat_can_be_written_too() {
        let body: Vec<_> = [0, 1, 2, 3, 0, 1, 2, 3].map(|t| Symbol::terminal(t, 1)).into();
        let rules = vec![body; 3];
        let mut bytes = Vec::new();
        encode(&rules, &mut bytes);
        assert_eq!(decode(&mut Reader::new(&bytes), 4), Ok(rules));
    }
}
