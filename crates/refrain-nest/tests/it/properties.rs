//! A loop nest executes what its grammar yields, and is no larger than the grammar.

use crate::programs::grammar;
use proptest::collection::vec;
use proptest::prelude::*;
use refrain_grammar::{Grammar, Symbol};
use refrain_nest::{LoopNest, Nest};

/// Sequences with loops in loops and surprises between them.
fn sequence() -> impl Strategy<Value = Vec<u32>> {
    let runs = vec((vec(0..5_u32, 1..6), 1..6_usize), 1..6);
    (vec((runs, 1..5_usize), 1..4), vec(0..7_u32, 0..4)).prop_map(|(loops, surprises)| {
        let mut sequence = Vec::new();
        for ((runs, times), surprise) in
            loops.into_iter().zip(surprises.into_iter().cycle().chain([9; 9]))
        {
            for _ in 0..times {
                for (body, times) in &runs {
                    (0..*times).for_each(|_| sequence.extend(body));
                }
            }
            sequence.push(surprise);
        }
        sequence
    })
}

/// Rules that use only later rules: a valid grammar, and one that Sequitur would not make.
fn any_rules() -> impl Strategy<Value = Vec<Vec<Symbol>>> {
    vec(vec((any::<prop::sample::Index>(), 0..4_u32, 1..4_u64, any::<bool>()), 0..4), 1..7)
        .prop_map(|rules| {
            let n = rules.len();
            let body = |(rule, symbols): (usize, Vec<(prop::sample::Index, u32, u64, bool)>)| {
                let symbol =
                    |(inner, terminal, count, is_rule): (prop::sample::Index, u32, u64, bool)| {
                        match is_rule && rule + 1 < n {
                            true => {
                                Symbol::rule((rule + 1 + inner.index(n - rule - 1)) as u32, count)
                            }
                            false => Symbol::terminal(terminal, count),
                        }
                    };
                symbols.into_iter().map(symbol).collect()
            };
            rules.into_iter().enumerate().map(body).collect()
        })
}

proptest! {
    #[test]
    fn a_nest_executes_the_sequence_of_its_grammar(sequence in sequence()) {
        let grammar = grammar(&sequence);
        let nest = LoopNest::from_grammar(&grammar, |terminal| terminal);
        prop_assert_eq!(nest.leaves().copied().collect::<Vec<_>>(), sequence);
        prop_assert_eq!(nest.len(), grammar.len());
        prop_assert!(nest.nodes() <= 2 * grammar.symbols());
    }

    #[test]
    fn any_grammar_makes_a_nest_of_the_same_sequence(rules in any_rules()) {
        let Ok(grammar) = Grammar::new(rules) else { return Ok(()) };
        let nest = LoopNest::from_grammar(&grammar, |terminal| terminal);
        prop_assert_eq!(nest.leaves().copied().collect::<Vec<_>>(), grammar.iter().collect::<Vec<_>>());
        prop_assert_eq!(nest.len(), grammar.len());
        prop_assert!(nest.nodes() <= 2 * grammar.symbols());
    }

    #[test]
    fn grammars_that_follow_each_other_make_one_nest(first in sequence(), second in sequence()) {
        let grammars = [grammar(&first), grammar(&second)];
        let nest = LoopNest::from_grammars(&grammars, |terminal| terminal);
        let both: Vec<u32> = first.into_iter().chain(second).collect();
        prop_assert_eq!(nest.leaves().copied().collect::<Vec<_>>(), both);
    }
}

#[test]
fn a_rule_that_is_used_twice_stays_shared() {
    // (a b)^2 c (a b)^3
    let rules = vec![
        vec![Symbol::rule(1, 2), Symbol::terminal(2, 1), Symbol::rule(1, 3)],
        vec![Symbol::terminal(0, 1), Symbol::terminal(1, 1)],
    ];
    let nest = LoopNest::from_grammar(&Grammar::new(rules).unwrap(), |terminal| terminal);
    assert_eq!(nest.blocks, [[Nest::Leaf(0), Nest::Leaf(1)]]);
    let twice = Nest::Loop { count: 2, body: vec![Nest::Block(0)] };
    let thrice = Nest::Loop { count: 3, body: vec![Nest::Block(0)] };
    assert_eq!(nest.body, [twice, Nest::Leaf(2), thrice]);
    let named = nest.map(|leaf| format!("f{leaf}"), |count| *count as i64);
    assert_eq!(named.blocks[0][1], Nest::Leaf("f1".to_owned()));
    assert_eq!(named.nodes(), nest.nodes());
}

#[test]
fn a_nest_of_a_sequence_of_astronomical_length_is_small() {
    let mut rules: Vec<Vec<Symbol>> = (1..=60).map(|rule| vec![Symbol::rule(rule, 2)]).collect();
    rules.push(vec![Symbol::terminal(1, 1), Symbol::terminal(2, 1)]);
    let nest = LoopNest::from_grammar(&Grammar::new(rules).unwrap(), |terminal| terminal);
    assert_eq!((nest.len(), nest.nodes()), (1 << 61, 62));
}
