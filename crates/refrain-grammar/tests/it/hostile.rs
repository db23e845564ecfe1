//! Malformed grammars are refused with a reason.

use refrain_grammar::{Grammar, GrammarError, Symbol};

fn terminal(terminal: u32) -> Symbol {
    Symbol::terminal(terminal, 1)
}

fn error(rules: Vec<Vec<Symbol>>) -> GrammarError {
    Grammar::new(rules).unwrap_err()
}

#[test]
fn a_grammar_needs_a_start() {
    assert_eq!(error(vec![]), GrammarError::NoStart);
    assert_eq!(Grammar::decode(&[0], 9), Err(GrammarError::NoStart));
}

#[test]
fn a_rule_must_not_contain_itself() {
    let rules = vec![
        vec![Symbol::rule(1, 1), terminal(0)],
        vec![Symbol::rule(2, 1), terminal(1)],
        vec![Symbol::rule(1, 1), terminal(2)],
    ];
    assert_eq!(error(rules), GrammarError::Cycle { rule: 1 });
    assert_eq!(error(vec![vec![Symbol::rule(0, 1)]]), GrammarError::Cycle { rule: 0 });
}

#[test]
fn a_rule_that_is_used_must_exist() {
    let unknown = GrammarError::UnknownRule { rule: 0, names: 7, rules: 1 };
    assert_eq!(error(vec![vec![Symbol::rule(7, 1)]]), unknown);
    assert_eq!(unknown.to_string(), "rule 0 uses rule 7; there are 1");
    // One rule, one item: rule 0 + 1 + 6.
    assert_eq!(Grammar::decode(&[1, 1, 12 << 3 | 1], 9), Err(unknown));
}

#[test]
fn a_rule_that_is_used_must_not_be_empty() {
    let rules = vec![vec![Symbol::rule(1, 1)], vec![]];
    assert_eq!(error(rules), GrammarError::TooFewSymbols { rule: 1 });
}

#[test]
fn a_symbol_must_not_be_repeated_zero_times() {
    let rules = vec![vec![terminal(1), Symbol::terminal(0, 0)]];
    assert_eq!(error(rules), GrammarError::ZeroCount { rule: 0, position: 1 });
}

#[test]
fn a_sequence_must_be_shorter_than_two_to_the_64() {
    let power = |rules: u32| {
        let double = |rule: u32| vec![Symbol::rule(rule + 1, 2)];
        Grammar::new((0..rules).map(double).chain([vec![terminal(0)]]).collect())
    };
    assert_eq!(power(63).unwrap().len(), 1 << 63);
    assert_eq!(power(64), Err(GrammarError::TooLong { rule: 0 }));
}

#[test]
fn a_terminal_must_be_in_the_alphabet() {
    let mut bytes = Vec::new();
    Grammar::new(vec![vec![terminal(5)]]).unwrap().encode(&mut bytes);
    assert!(Grammar::decode(&bytes, 6).is_ok());
    let unknown = GrammarError::UnknownTerminal { rule: 0, terminal: 5, terminals: 5 };
    assert_eq!(Grammar::decode(&bytes, 5), Err(unknown));
    assert_eq!(unknown.to_string(), "rule 0 has terminal 5; there are 5");
}

#[test]
fn claimed_lengths_beyond_the_bytes_are_refused_before_allocation() {
    let promise = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    assert_eq!(Grammar::decode(&promise, 9), Err(GrammarError::Truncated));
    // A run of four billion.
    let run = [1, 1, 0b111, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(Grammar::decode(&run, 1 << 20), Err(GrammarError::RunsTooLong { rule: 0 }));
}

#[test]
fn truncated_bytes_and_trailing_bytes_are_errors() {
    let mut bytes = Vec::new();
    let body = vec![terminal(0), terminal(300), Symbol::rule(1, 500)];
    let inner = vec![terminal(7), terminal(8), terminal(9)];
    Grammar::new(vec![body, inner]).unwrap().encode(&mut bytes);
    for length in 0..bytes.len() {
        assert!(Grammar::decode(&bytes[..length], 1000).is_err(), "{length}");
    }
    bytes.push(0);
    let trailing = GrammarError::TrailingBytes { at: bytes.len() - 1 };
    assert_eq!(Grammar::decode(&bytes, 1000), Err(trailing));
}

#[test]
fn a_long_chain_of_rules_does_not_overflow_the_stack() {
    let rules = 200_000;
    let chain = |rule: u32| vec![Symbol::rule(rule + 1, 1), terminal(rule)];
    let bodies: Vec<_> = (0..rules).map(chain).chain([vec![terminal(0)]]).collect();
    let grammar = Grammar::new(bodies).unwrap();
    assert_eq!(grammar.len(), 200_001);
    assert_eq!(grammar.iter().count(), 200_001);
    assert_eq!(grammar.counts(1), [2]);
    let mut bytes = Vec::new();
    grammar.encode(&mut bytes);
    assert_eq!(Grammar::decode(&bytes, rules as usize), Ok(grammar));
}
