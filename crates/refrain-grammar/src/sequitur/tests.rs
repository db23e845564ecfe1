use super::*;
use crate::grammar::{Grammar, Symbol, What};

fn pushed(sequence: impl IntoIterator<Item = u32>) -> Sequitur {
    let mut sequitur = Sequitur::new();
    for terminal in sequence {
        sequitur.push(terminal);
        sequitur.check().unwrap();
    }
    sequitur
}

fn letters(text: &str) -> Sequitur {
    pushed(text.bytes().map(u32::from))
}

/// Rules as text: letters, rule numbers in brackets, counts after `^`.
fn text(grammar: &Grammar) -> String {
    let symbol = |symbol: &Symbol| {
        let what = match symbol.what {
            What::Terminal(terminal) => char::from_u32(terminal).unwrap().to_string(),
            What::Rule(rule) => format!("[{rule}]"),
        };
        match symbol.count {
            1 => what,
            count => format!("{what}^{count}"),
        }
    };
    let rule = |body: &Vec<Symbol>| body.iter().map(symbol).collect::<String>();
    grammar.rules().iter().map(rule).collect::<Vec<_>>().join(", ")
}

fn grammar_of(letters_: &str) -> String {
    let grammar = letters(letters_).grammar();
    grammar.verify().unwrap();
    let expanded: String = grammar.iter().map(|letter| letter as u8 as char).collect();
    assert_eq!(expanded, letters_);
    text(&grammar)
}

#[test]
fn the_empty_sequence_is_an_empty_start_rule() {
    assert_eq!(grammar_of(""), "");
    assert_eq!(Sequitur::new().grammar(), Grammar::default());
}

#[test]
fn a_repeated_terminal_is_one_symbol() {
    assert_eq!(grammar_of("aaaaa"), "a^5");
    assert_eq!(grammar_of("baaaab"), "ba^4b");
}

#[test]
fn a_repeated_digram_is_a_rule() {
    assert_eq!(grammar_of("abcdbc"), "a[1]d[1], bc");
}

#[test]
fn a_rule_used_once_is_inlined() {
    assert_eq!(grammar_of("abcdabceabc"), "[1]d[1]e[1], abc");
}

#[test]
fn a_loop_is_one_rule_with_a_count() {
    assert_eq!(grammar_of("abcabcabcabcabc"), "[1]^5, abc");
}

#[test]
fn an_unfinished_iteration_shares_its_part_with_the_loop() {
    assert_eq!(grammar_of("abcabcabcab"), "[1]^3[2], [2]c, ab");
}

#[test]
fn an_inner_loop_is_a_rule_inside_the_outer_loop() {
    assert_eq!(grammar_of(&"xabababy".repeat(7)), "[1]^7, x[2]^3y, ab");
}

#[test]
fn digrams_with_different_counts_are_different() {
    assert_eq!(grammar_of("xaayxaaay"), "xa^2yxa^3y");
}

#[test]
fn a_shorter_loop_does_not_tear_a_longer_one_apart() {
    // Were `xa` matched before it is known how often `a` is repeated, `xaay` would not be found.
    assert_eq!(grammar_of("xaay.xa,xa;xaay"), "[1].[2],[2];[1], xa^2y, xa");
}

#[test]
fn a_loop_that_runs_a_varying_number_of_times_keeps_its_shape() {
    let grammar = grammar_of("sababe.sabababe,sababe;sabababe");
    assert_eq!(grammar, "[1].[3],[1];[3], s[2]^2e, ab, s[2]^3e");
}

#[test]
fn the_last_iteration_of_an_inner_loop_may_end_early() {
    assert_eq!(grammar_of(&"abcabcabcabd".repeat(9)), "[1]^9, [2]^3[3]d, [3]c, ab");
}

#[test]
fn more_iterations_change_only_a_count() {
    let body = || {
        let mut body: Vec<u32> = vec![1, 2, 3];
        body.extend([4; 5]);
        body.extend([5, 6, 7, 5, 6, 7, 5, 6, 7]);
        body.extend([8, 4, 4]);
        body
    };
    assert_eq!(body().len(), 20);
    let grammar = |times: u64| {
        let mut sequitur = Sequitur::new();
        for _ in 0..times {
            body().into_iter().for_each(|terminal| sequitur.push(terminal));
        }
        sequitur.check().unwrap();
        sequitur.grammar()
    };
    let (short, long) = (grammar(300), grammar(100_000));
    assert_eq!(short.rules()[0], [Symbol::rule(1, 300)]);
    assert_eq!(long.rules()[0], [Symbol::rule(1, 100_000)]);
    assert_eq!(short.rules()[1..], long.rules()[1..]);
    assert_eq!(short.rules().len(), 3);
}

#[test]
fn a_loop_predicts_its_next_terminal() {
    let mut sequitur = letters("abcabcabc");
    for letter in "abcabcab".bytes() {
        sequitur.push(letter.into());
    }
    assert_eq!(sequitur.predicted(), Some(b'c'.into()));
    assert_eq!(letters("abcd").predicted(), None);
}

#[test]
fn a_known_sequence_predicts_its_continuation() {
    assert_eq!(letters("abcdefg.abc").predicted(), Some(b'd'.into()));
}

#[test]
fn a_snapshot_does_not_change_what_follows() {
    let sequence: Vec<u32> = "xabababyxababy".repeat(20).bytes().map(u32::from).collect();
    let mut snapped = Sequitur::new();
    for &terminal in &sequence {
        snapped.push(terminal);
        snapped.grammar();
    }
    assert_eq!(snapped.grammar(), pushed(sequence).grammar());
}

#[test]
fn violated_invariants_of_a_grammar_are_repaired() {
    let [a, b] = [0, 1].map(|terminal| Symbol::terminal(terminal, 1));
    let chain = vec![
        vec![Symbol::rule(1, 1), a, a, Symbol::rule(2, 3), a, b, a, b],
        vec![Symbol::rule(3, 2)],
        vec![Symbol::rule(3, 1)],
        vec![b],
    ];
    let grammar = Grammar::new(chain).unwrap();
    let sequitur = Sequitur::from_grammar(&grammar);
    sequitur.check().unwrap();
    let mended = sequitur.grammar();
    mended.verify().unwrap();
    assert!(mended.iter().eq(grammar.iter()));
}

#[test]
fn counts_near_2_to_the_64_do_not_overflow() {
    let body = vec![Symbol::terminal(0, u64::MAX - 1), Symbol::terminal(1, 1)];
    let grammar = Grammar::new(vec![body]).unwrap();
    let mut sequitur = Sequitur::from_grammar(&grammar);
    for terminal in [1, 1, 0, 1, 0, 1, 0, 2] {
        sequitur.push(terminal);
    }
    assert_eq!(sequitur.len(), u64::MAX);
    sequitur.grammar();
}

#[test]
fn a_million_different_terminals_fit_into_80_megabytes() {
    let mut sequitur = Sequitur::new();
    (0..1_000_000).for_each(|terminal| sequitur.push(terminal));
    assert!(sequitur.memory() < 80_000_000, "{} bytes", sequitur.memory());
}

#[test]
fn deeply_nested_rules_work() {
    // A staircase: each step is the one before and a bit more, so rules nest deeply.
    let mut sequitur = Sequitur::new();
    let mut pushed = Vec::new();
    for height in 0..600 {
        for step in (0..height).chain([1_000_000 + height]) {
            sequitur.push(step);
            pushed.push(step);
        }
    }
    sequitur.check().unwrap();
    let grammar = sequitur.grammar();
    assert!(grammar.iter().eq(pushed));
    grammar.verify().unwrap();
}
