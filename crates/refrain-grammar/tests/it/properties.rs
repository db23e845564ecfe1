//! What holds for every sequence, every grammar and every string of bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use refrain_grammar::{Grammar, Saving, Sequitur, Shared, Symbol, Visitor, share};

/// A program: terminals, and loops over programs.
#[derive(Clone, Debug)]
enum Program {
    Call(u32),
    Loop(Vec<Program>, usize),
}

impl Program {
    fn run(&self, out: &mut Vec<u32>) {
        match self {
            Program::Call(terminal) => out.push(*terminal),
            Program::Loop(body, times) => {
                for _ in 0..*times {
                    body.iter().for_each(|part| part.run(out));
                }
            }
        }
    }
}

fn program() -> impl Strategy<Value = Program> {
    let call = (0..6_u32).prop_map(Program::Call);
    call.prop_recursive(4, 24, 5, |inner| {
        (vec(inner, 1..5), 1..7_usize).prop_map(|(body, times)| Program::Loop(body, times))
    })
}

fn small_alphabet() -> impl Strategy<Value = Vec<u32>> {
    (1..6_u32).prop_flat_map(|size| vec(0..size, 0..300))
}

/// Nested loops in which a few terminals are missing, surplus or different.
fn perturbed_loops() -> impl Strategy<Value = Vec<u32>> {
    let surprise = (any::<prop::sample::Index>(), 0..8_u32, 0..3);
    (vec(program(), 1..6), 1..5_usize, vec(surprise, 0..6)).prop_map(|(parts, times, changes)| {
        let mut sequence = Vec::new();
        Program::Loop(parts, times).run(&mut sequence);
        sequence.truncate(800);
        for (at, terminal, what) in changes {
            let at = at.index(sequence.len().max(1));
            match what {
                0 => sequence.insert(at.min(sequence.len()), terminal),
                1 if at < sequence.len() => sequence[at] = terminal,
                _ if at < sequence.len() => drop(sequence.remove(at)),
                _ => {}
            }
        }
        sequence
    })
}

fn long_runs() -> impl Strategy<Value = Vec<u32>> {
    vec((0..3_u32, 1..40_usize), 0..20)
        .prop_map(|runs| runs.into_iter().flat_map(|(what, times)| vec![what; times]).collect())
}

/// Terminals numbered by first occurrence, as callers do it.
fn first_occurrences() -> impl Strategy<Value = Vec<u32>> {
    vec(0..40_u32, 0..300).prop_map(|steps| {
        let mut known = 0_u32;
        let name = |step| {
            let terminal = if step < 20 { known } else { known.saturating_sub(step - 19) };
            known = known.max(terminal + 1);
            terminal
        };
        steps.into_iter().map(name).collect()
    })
}

fn sequence() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        2 => small_alphabet(),
        4 => perturbed_loops(),
        1 => long_runs(),
        1 => first_occurrences(),
        1 => vec(any::<u32>(), 0..20),
    ]
}

fn pushed(sequence: &[u32]) -> Sequitur {
    let mut sequitur = Sequitur::new();
    sequence.iter().for_each(|&terminal| sequitur.push(terminal));
    sequitur
}

fn grammar() -> impl Strategy<Value = Grammar> {
    sequence().prop_map(|sequence| pushed(&sequence).grammar())
}

/// Any rules without cycles, Sequitur's or not.
fn any_rules() -> impl Strategy<Value = Vec<Vec<Symbol>>> {
    let symbol = (any::<bool>(), 0..8_u32, prop_oneof![4 => Just(1), 1 => 2..5_u64]);
    vec(vec(symbol, 1..8), 1..8).prop_map(|rules| {
        let amount = rules.len() as u32;
        let body = |(number, body): (u32, Vec<(bool, u32, u64)>)| {
            let symbol = |(rule, value, count)| match amount - number - 1 {
                later if rule && later > 0 => Symbol::rule(number + 1 + value % later, count),
                _ => Symbol::terminal(value, count),
            };
            body.into_iter().map(symbol).collect()
        };
        (0..).zip(rules).map(body).collect()
    })
}

fn encoded(grammar: &Grammar) -> Vec<u8> {
    let mut bytes = Vec::new();
    grammar.encode(&mut bytes);
    bytes
}

const EVERY_TERMINAL: usize = 1 << 32;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_grammar_yields_its_sequence(sequence in sequence()) {
        let grammar = pushed(&sequence).grammar();
        prop_assert_eq!(grammar.verify(), Ok(()));
        prop_assert_eq!(grammar.len(), sequence.len() as u64);
        prop_assert_eq!(grammar.iter().collect::<Vec<_>>(), sequence);
    }

    #[test]
    fn the_invariants_hold_after_every_push(sequence in sequence()) {
        let mut sequitur = Sequitur::new();
        for (position, &terminal) in sequence.iter().enumerate() {
            sequitur.push(terminal);
            prop_assert_eq!(sequitur.check(), Ok(()), "at {}", position);
        }
        prop_assert_eq!(sequitur.len(), sequence.len() as u64);
    }

    #[test]
    fn every_snapshot_yields_what_was_pushed(sequence in sequence()) {
        let mut sequitur = Sequitur::new();
        for (position, &terminal) in sequence.iter().enumerate() {
            sequitur.push(terminal);
            let grammar = sequitur.grammar();
            prop_assert_eq!(grammar.verify(), Ok(()));
            prop_assert!(grammar.iter().eq(sequence[..=position].iter().copied()));
        }
        prop_assert_eq!(sequitur.grammar(), pushed(&sequence).grammar());
    }

    #[test]
    fn a_finished_grammar_can_be_extended(before in sequence(), after in sequence()) {
        let grammar = pushed(&before).grammar();
        let mut sequitur = Sequitur::from_grammar(&grammar);
        prop_assert_eq!(sequitur.check(), Ok(()));
        prop_assert_eq!(sequitur.grammar(), grammar);
        for &terminal in &after {
            sequitur.push(terminal);
            prop_assert_eq!(sequitur.check(), Ok(()));
        }
        let grammar = sequitur.grammar();
        prop_assert_eq!(grammar.verify(), Ok(()));
        let whole: Vec<u32> = before.into_iter().chain(after).collect();
        prop_assert_eq!(grammar.iter().collect::<Vec<_>>(), whole);
    }

    #[test]
    fn a_growing_grammar_is_saved_in_pieces(
        before in sequence(), after in sequence(), piece in 1..20_usize,
    ) {
        let sequitur = pushed(&before);
        let (mut bytes, mut saving) = (Vec::new(), Saving::default());
        loop {
            let enough = bytes.len() + piece;
            if sequitur.save_some(&mut saving, &mut bytes, enough) {
                break;
            }
        }
        // A long search for the next rule is a piece of its own.
        let (mut whole, mut saving) = (Vec::new(), Saving::default());
        while !sequitur.save_some(&mut saving, &mut whole, usize::MAX) {}
        prop_assert_eq!(&whole, &bytes);
        whole.extend([1, 2, 3]);
        let (mut again, length) = Sequitur::saved(&whole, EVERY_TERMINAL).unwrap();
        prop_assert_eq!(length, bytes.len());
        prop_assert_eq!(again.check(), Ok(()));
        prop_assert_eq!(again.len(), before.len() as u64);
        prop_assert_eq!(again.grammar().verify(), Ok(()));
        after.iter().for_each(|&terminal| again.push(terminal));
        prop_assert_eq!(again.check(), Ok(()));
        let all: Vec<u32> = before.iter().chain(&after).copied().collect();
        prop_assert_eq!(again.grammar().iter().collect::<Vec<_>>(), all);
        let terminals = before.iter().max().map_or(0, |most| *most as usize + 1);
        prop_assert!(Sequitur::saved(&bytes, terminals).is_ok());
        prop_assert!(terminals == 0 || Sequitur::saved(&bytes, terminals - 1).is_err());
        prop_assert!(Sequitur::saved(&bytes[..bytes.len() - 1], terminals).is_err());
    }

    #[test]
    fn any_bytes_are_a_saved_grammar_or_an_error(bytes: Vec<u8>) {
        if let Ok((sequitur, length)) = Sequitur::saved(&bytes, 8) {
            prop_assert!(length <= bytes.len());
            prop_assert_eq!(sequitur.check(), Ok(()));
        }
    }

    #[test]
    fn extending_any_grammar_repairs_its_invariants(rules in any_rules(), after in small_alphabet()) {
        let grammar = Grammar::new(rules).unwrap();
        prop_assume!(grammar.len() < 1 << 32);
        let mut sequitur = Sequitur::from_grammar(&grammar);
        prop_assert_eq!(sequitur.check(), Ok(()));
        after.iter().for_each(|&terminal| sequitur.push(terminal));
        prop_assert_eq!(sequitur.check(), Ok(()));
        let mended = sequitur.grammar();
        prop_assert_eq!(mended.verify(), Ok(()));
        prop_assert_eq!(mended.len(), grammar.len() + after.len() as u64);
        prop_assert!(mended.iter().zip(grammar.iter()).take(10_000).all(|(one, other)| one == other));
        prop_assert!(mended.iter_from(grammar.len()).eq(after));
    }

    #[test]
    fn a_grammar_reads_back_as_written(grammar in grammar()) {
        let bytes = encoded(&grammar);
        prop_assert_eq!(Grammar::decode(&bytes, EVERY_TERMINAL), Ok(grammar.clone()));
        let terminals = grammar.iter().max().map_or(0, |most| most as usize + 1);
        prop_assert_eq!(Grammar::decode(&bytes, terminals), Ok(grammar.clone()));
        if terminals > 0 {
            prop_assert!(Grammar::decode(&bytes, terminals - 1).is_err());
        }
    }

    #[test]
    fn any_rules_read_back_as_written(rules in any_rules()) {
        let grammar = Grammar::new(rules).unwrap();
        let again = Grammar::new(grammar.rules().to_vec());
        prop_assert_eq!(again.as_ref(), Ok(&grammar));
        prop_assert_eq!(Grammar::decode(&encoded(&grammar), 8), Ok(grammar));
    }

    #[test]
    fn random_bytes_are_refused_or_read(bytes in vec(any::<u8>(), 0..60), terminals in 0..300_usize) {
        if let Ok(grammar) = Grammar::decode(&bytes, terminals) {
            exercise(&grammar);
        }
        if let Ok(shared) = Shared::decode(&bytes, terminals) {
            (0..shared.len()).filter_map(|at| shared.grammar(at).ok()).for_each(|g| exercise(&g));
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_read(
        grammars in vec(grammar(), 1..4),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let damaged = |mut bytes: Vec<u8>| {
            for (at, byte) in &damage {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            bytes
        };
        if let Ok(grammar) = Grammar::decode(&damaged(encoded(&grammars[0])), 1000) {
            exercise(&grammar);
        }
        let mut bytes = Vec::new();
        share(&grammars).encode(&mut bytes);
        if let Ok(shared) = Shared::decode(&damaged(bytes), 1000) {
            (0..shared.len()).filter_map(|at| shared.grammar(at).ok()).for_each(|g| exercise(&g));
        }
    }

    #[test]
    fn counts_equal_those_of_the_expanded_sequence(sequence in sequence()) {
        let mut counts = vec![0; 300];
        for &terminal in &sequence {
            if let Some(count) = counts.get_mut(terminal as usize) {
                *count += 1;
            }
        }
        prop_assert_eq!(pushed(&sequence).grammar().counts(300), counts);
    }

    #[test]
    fn any_position_is_found(sequence in sequence()) {
        let grammar = pushed(&sequence).grammar();
        for n in 0..=sequence.len() + 1 {
            let rest = sequence.iter().skip(n).copied();
            prop_assert!(grammar.iter_from(n as u64).eq(rest), "from {}", n);
        }
    }

    #[test]
    fn relabelling_changes_only_the_terminals(grammar in grammar()) {
        let other = grammar.relabel(|terminal| terminal ^ 0x5555);
        prop_assert_eq!(other.verify(), Ok(()));
        prop_assert!(other.iter().eq(grammar.iter().map(|terminal| terminal ^ 0x5555)));
        prop_assert_eq!(other.relabel(|terminal| terminal ^ 0x5555), grammar);
    }

    #[test]
    fn relabelling_two_terminals_as_one_keeps_the_sequence(grammar in grammar()) {
        let fewer = grammar.relabel(|terminal| terminal / 2);
        prop_assert!(fewer.iter().eq(grammar.iter().map(|terminal| terminal / 2)));
    }

    #[test]
    fn different_grammars_have_different_hashes(one in grammar(), other in grammar()) {
        prop_assert_eq!(one == other, one.hash() == other.hash());
    }

    #[test]
    fn sharing_restores_every_grammar(
        common in vec(sequence(), 1..4),
        choices in vec(vec(0..4_usize, 0..5), 0..6),
        own in vec(small_alphabet(), 6),
    ) {
        let grammars: Vec<Grammar> = choices
            .iter()
            .zip(&own)
            .map(|(choice, own)| {
                let parts = choice.iter().map(|&at| common.get(at).unwrap_or(own));
                pushed(&parts.flatten().copied().collect::<Vec<_>>()).grammar()
            })
            .collect();
        let shared = share(&grammars);
        prop_assert!(shared.symbols() <= grammars.iter().map(Grammar::symbols).sum());
        let mut bytes = Vec::new();
        shared.encode(&mut bytes);
        prop_assert_eq!(shared.grammars(), Ok(grammars));
        prop_assert_eq!(Shared::decode(&bytes, EVERY_TERMINAL), Ok(shared));
    }

    #[test]
    fn sharing_restores_any_rules(rules in vec(any_rules(), 0..5)) {
        let grammars: Vec<Grammar> =
            rules.into_iter().map(|rules| Grammar::new(rules).unwrap()).collect();
        let shared = share(&grammars);
        let mut bytes = Vec::new();
        shared.encode(&mut bytes);
        prop_assert_eq!(Shared::decode(&bytes, 8), Ok(shared.clone()));
        prop_assert_eq!(shared.grammars(), Ok(grammars));
    }
}

/// Calls everything that must neither panic nor take long.
fn exercise(grammar: &Grammar) {
    let _ = grammar.verify();
    grammar.counts(300);
    grammar.hash();
    grammar.iter().take(100).for_each(drop);
    grammar.iter_from(grammar.len() / 2).take(100).for_each(drop);
    grammar.iter_from(grammar.len().saturating_sub(3)).for_each(drop);
    let mut sequitur = Sequitur::from_grammar(grammar);
    (0..50).for_each(|terminal| sequitur.push(terminal % 3));
    sequitur.predicted();
    sequitur.grammar();
}

fn grammar_of(sequence: &[u32]) -> Grammar {
    let mut sequitur = Sequitur::new();
    sequence.iter().for_each(|terminal| sequitur.push(*terminal));
    sequitur.grammar()
}

/// A visitor that walks through every body and expands the sequence.
#[derive(Default)]
struct Unrolled {
    open: Vec<(u64, Vec<u32>)>,
    out: Vec<u32>,
}

impl Visitor for Unrolled {
    fn enter_loop(&mut self, _: u32, count: u64) -> bool {
        self.open.push((count, std::mem::take(&mut self.out)));
        true
    }

    fn terminal(&mut self, terminal: u32, count: u64) {
        (0..count).for_each(|_| self.out.push(terminal));
    }

    fn leave_loop(&mut self, _: u32) {
        if let Some((count, before)) = self.open.pop() {
            let body = std::mem::replace(&mut self.out, before);
            (0..count).for_each(|_| self.out.extend(&body));
        }
    }
}

proptest! {
    #[test]
    fn a_walk_through_all_loops_visits_the_sequence(sequence in perturbed_loops()) {
        let mut seen = Unrolled::default();
        grammar_of(&sequence).walk(&mut seen);
        prop_assert_eq!(seen.out, sequence);
    }

    #[test]
    fn advancing_a_cursor_equals_stepping(
        sequence in perturbed_loops(), skips in vec((0..40_u64, 0..5_usize), 0..12),
    ) {
        let grammar = grammar_of(&sequence);
        let mut cursor = grammar.cursor();
        let mut at = 0;
        for (skip, steps) in skips {
            cursor.advance(skip);
            at = sequence.len().min(at + skip as usize);
            for _ in 0..steps {
                prop_assert_eq!(cursor.position(), at as u64);
                let path = cursor.path();
                prop_assert_eq!(path.is_empty(), at == sequence.len());
                if let Some(innermost) = path.last() {
                    let symbol = grammar.rules()[innermost.rule as usize][innermost.symbol];
                    prop_assert_eq!(symbol.what, refrain_grammar::What::Terminal(sequence[at]));
                    prop_assert_eq!(position_of(&grammar, &path, cursor.position()), at as u64);
                }
                prop_assert_eq!(cursor.next(), sequence.get(at).copied());
                at = sequence.len().min(at + 1);
            }
        }
    }
}

/// The position of a path. A path does not have the repetitions of its last terminal; `near` is one of them.
fn position_of(grammar: &Grammar, path: &[refrain_grammar::Level], near: u64) -> u64 {
    let mut position = 0;
    for level in path {
        assert!(level.iteration < level.count);
        let length = |symbol: &Symbol| match symbol.what {
            refrain_grammar::What::Terminal(_) => symbol.count,
            refrain_grammar::What::Rule(rule) => symbol.count * grammar.length(rule),
        };
        let body = &grammar.rules()[level.rule as usize];
        position += level.iteration * grammar.length(level.rule);
        position += body[..level.symbol].iter().map(length).sum::<u64>();
    }
    let last =
        path.last().map_or(0, |level| grammar.rules()[level.rule as usize][level.symbol].count);
    assert!((position..position + last).contains(&near), "{position} + {last}, {near}");
    near
}
