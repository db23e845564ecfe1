//! Finished grammars, by example.

use refrain_grammar::{Grammar, Symbol};

/// `0 → 1 a 2^3`, `1 → b 2`, `2 → b c^2`, with `a`, `b`, `c` for 0, 1, 2.
fn example() -> Grammar {
    let [a, b] = [0, 1].map(|terminal| Symbol::terminal(terminal, 1));
    Grammar::new(vec![
        vec![Symbol::rule(1, 1), a, Symbol::rule(2, 3)],
        vec![b, Symbol::rule(2, 1)],
        vec![b, Symbol::terminal(2, 2)],
    ])
    .unwrap()
}

#[test]
fn a_grammar_yields_its_sequence_from_any_position() {
    let sequence = [1, 1, 2, 2, 0, 1, 2, 2, 1, 2, 2, 1, 2, 2];
    assert_eq!(example().len(), 14);
    assert_eq!(example().iter().collect::<Vec<_>>(), sequence);
    assert_eq!(example().iter_from(9).collect::<Vec<_>>(), sequence[9..]);
    assert_eq!(example().iter_from(14).next(), None);
    assert_eq!(example().counts(3), [1, 5, 8]);
}

#[test]
fn rules_are_numbered_by_first_visit() {
    let terminals = |first| vec![Symbol::terminal(first, 1), Symbol::terminal(first + 1, 1)];
    let shuffled = Grammar::new(vec![
        vec![Symbol::rule(3, 1), Symbol::rule(1, 1)],
        terminals(10),
        terminals(99),
        vec![Symbol::rule(4, 2), Symbol::rule(1, 2)],
        terminals(20),
    ])
    .unwrap();
    let canonical = [
        vec![Symbol::rule(1, 1), Symbol::rule(3, 1)],
        vec![Symbol::rule(2, 2), Symbol::rule(3, 2)],
        terminals(20),
        terminals(10),
    ];
    assert_eq!(shuffled.rules(), canonical);
}

#[test]
fn rules_with_the_same_body_are_one() {
    let body = vec![Symbol::terminal(0, 1), Symbol::terminal(1, 1)];
    let outer = |inner| vec![Symbol::rule(inner, 1), Symbol::terminal(2, 1)];
    let start = vec![Symbol::rule(1, 1), Symbol::rule(2, 1)];
    let grammar = Grammar::new(vec![start, outer(3), outer(4), body.clone(), body.clone()]);
    let start = vec![Symbol::rule(1, 1), Symbol::rule(1, 1)];
    assert_eq!(grammar.unwrap().rules(), [start, outer(2), body]);
}

#[test]
fn the_hash_is_the_same_everywhere_and_for_ever() {
    assert_eq!(example().hash(), 0xc464_7f0a_00c6_e6a7);
    assert_eq!(Grammar::default().hash(), 0xf8bb_92ce_dee3_ca88);
}

#[test]
fn a_distant_position_is_found_without_a_walk() {
    let double = |rule: u32| vec![Symbol::rule(rule + 1, 2)];
    let last = vec![Symbol::terminal(0, 1), Symbol::terminal(1, 1)];
    let grammar = Grammar::new((0..60).map(double).chain([last]).collect()).unwrap();
    assert_eq!(grammar.iter_from((1 << 61) - 3).collect::<Vec<_>>(), [1, 0, 1]);
    assert_eq!(grammar.counts(2), [1 << 60, 1 << 60]);
}
