//! Folded nests decode to the calls that they were made from, and find the loops of the program.

use crate::programs::{
    clean, execute, execute_clean, folded, grouped_text, loops, nest_of, program, text,
};
use proptest::collection::vec;
use proptest::prelude::*;
use refrain_grammar::Grammar;
use refrain_nest::{
    Folded, Grouped, Nest, Options, Play, Seq, fold, of_one, over_groups, over_groups_with,
};
use std::collections::BTreeMap;

const fn options(partial: bool, delayed: bool) -> Options {
    Options { partial, delayed, agnostic: true, frames: 0 }
}

const ALL: [Options; 4] =
    [options(true, true), options(true, false), options(false, true), options(false, false)];

proptest! {
    #[test]
    fn a_folded_nest_decodes_to_the_calls_of_the_program(program in program(), seed: u64) {
        let mut sequence = Vec::new();
        execute(&program, &mut { seed }, &mut sequence);
        for options in ALL {
            let nest = folded(&sequence, options);
            let decoded: Vec<u32> = Play::new(&nest).map(|(_, value)| value).collect();
            prop_assert_eq!(&decoded, &sequence);
            prop_assert!(Play::new(&nest).all(|(skeleton, value)| skeleton == value >> 8));
            prop_assert_eq!(nest.iter().map(Folded::calls).sum::<u64>(), sequence.len() as u64);
        }
    }

    #[test]
    fn any_sequence_is_decoded(sequence in vec(0..4_u32, 0..200)) {
        let sequence: Vec<u32> = sequence.into_iter().map(|skeleton| skeleton << 8).collect();
        for options in ALL {
            let nest = folded(&sequence, options);
            let decoded: Vec<u32> = Play::new(&nest).map(|(_, value)| value).collect();
            prop_assert_eq!(decoded, sequence.clone());
        }
    }

    #[test]
    fn groups_of_ranks_keep_their_calls_in_the_common_nest(
        program in program(), others in vec(program(), 0..3), seeds in vec(any::<u64>(), 1..4),
    ) {
        // Groups of one program that take other branches, and groups of other programs.
        let mut sequences = Vec::new();
        for seed in seeds {
            for program in [&program].into_iter().chain(&others) {
                let mut sequence = Vec::new();
                execute(program, &mut { seed }, &mut sequence);
                sequences.push(sequence);
            }
        }
        let nests = sequences.iter().map(|sequence| folded(sequence, Options::default()));
        let nests: Vec<Vec<Folded>> = nests.collect();
        for agnostic in [true, false] {
            let options = Options { agnostic, ..Options::default() };
            let common = over_groups_with(nests.clone(), options);
            for (group, sequence) in sequences.iter().enumerate() {
                let nest = of_one(&common, group);
                let decoded: Vec<u32> = Play::new(&nest).map(|(_, value)| value).collect();
                prop_assert_eq!(&decoded, sequence);
            }
        }
    }

    #[test]
    fn sequences_split_and_repeat_like_lists(
        parts in vec((vec(0..3_u8, 0..5), 0..4_u64), 0..6), at in any::<prop::sample::Index>(),
    ) {
        let (mut seq, mut list) = (Seq::default(), Vec::new());
        for (part, times) in &parts {
            seq.append(part.iter().copied().collect::<Seq<u8>>().repeat(*times));
            (0..*times).for_each(|_| list.extend(part));
        }
        prop_assert_eq!(seq.iter().collect::<Vec<_>>(), list.clone());
        prop_assert_eq!(seq.len(), list.len() as u64);
        let at = at.index(list.len() + 1);
        let tail = seq.split_off(at as u64);
        let after = list.split_off(at);
        prop_assert_eq!((seq.len(), tail.len()), (list.len() as u64, after.len() as u64));
        prop_assert_eq!(seq.iter().collect::<Vec<_>>(), list);
        prop_assert_eq!(tail.iter().collect::<Vec<_>>(), after);
    }
}

#[test]
fn an_inner_loop_that_is_executed_once_at_first_is_still_a_loop() {
    let mut calls = Vec::new();
    for trips in [1, 1, 2, 1, 3, 0, 2] {
        calls.push(1);
        (0..trips).for_each(|_| calls.extend([2, 3]));
        calls.push(4);
    }
    assert_eq!(nest_of(&calls), "7*[1 (1 1 2 1 3 0 2)*[2 3] 4]");
}

#[test]
fn a_call_in_each_tenth_step_is_a_condition() {
    let mut calls = vec![9];
    for step in 0..40 {
        calls.push(1);
        if step % 10 == 0 {
            calls.push(5);
        }
        calls.extend([2, 3]);
    }
    calls.push(8);
    let condition: Vec<&str> = (0..40).map(|step| if step % 10 == 0 { "1" } else { "0" }).collect();
    assert_eq!(nest_of(&calls), format!("9 40*[1 ({})*[5] 2 3] 8", condition.join(" ")));
}

#[test]
fn a_loop_begins_where_its_source_begins() {
    // Sequitur's rules begin anywhere in the iteration.
    let mut calls = vec![7, 6];
    for _ in 0..1000 {
        calls.extend([1, 2, 3, 3, 4]);
    }
    calls.extend([8, 9]);
    assert_eq!(nest_of(&calls), "7 6 1000*[1 2 2*[3] 4] 8 9");
}

#[test]
fn iterations_that_differ_are_a_loop_inside_of_loops_too() {
    // Three axes; each sends from its own line. Levels around them, cycles around these.
    let axes = |calls: &mut Vec<u32>| (0..3).for_each(|axis| calls.extend([1, 2, 5 + axis, 3, 4]));
    let inner = "3*[1 2 (1 0 0)*[5] (0 1 0)*[6] (0 0 1)*[7] 3 4]";
    let mut calls = Vec::new();
    axes(&mut calls);
    assert_eq!(nest_of(&calls), inner);
    let mut calls = Vec::new();
    (0..4).for_each(|_| {
        calls.push(8);
        (0..3).for_each(|_| axes(&mut calls));
    });
    let each = |pattern: &str| [pattern; 12].join(" ");
    let inner = format!(
        "3*[1 2 ({})*[5] ({})*[6] ({})*[7] 3 4]",
        each("1 0 0"),
        each("0 1 0"),
        each("0 0 1")
    );
    assert_eq!(nest_of(&calls), format!("4*[8 3*[{inner}]]"));
}

#[test]
fn a_billion_calls_fold_in_the_time_of_their_grammar() {
    use refrain_grammar::Symbol;
    // for 1000 { A; for 1000 { B; for 500 { C D } } }
    let rules = vec![
        vec![Symbol::rule(1, 1000)],
        vec![Symbol::terminal(0x100, 1), Symbol::rule(2, 1000)],
        vec![Symbol::terminal(0x200, 1), Symbol::rule(3, 500)],
        vec![Symbol::terminal(0x300, 1), Symbol::terminal(0x400, 1)],
    ];
    let grammar = Grammar::new(rules).unwrap();
    assert!(grammar.len() > 1_000_000_000);
    let nest = fold(&[grammar], Options::default(), |terminal| Some(terminal >> 8));
    assert_eq!(text(&nest), "1000*[1 1000*[2 500*[3 4]]]");
}

/// 10 steps with the same two exchanges, then a reduction, five times; then `rest` steps.
fn steps(rest: u32, value: impl Fn(u32) -> u32) -> Vec<u32> {
    let mut calls = Vec::new();
    for step in 0..50 + rest {
        calls.extend([0x100 | value(step), 0x200]);
        if step % 10 == 9 {
            calls.push(0x300);
        }
    }
    calls
}

fn nest_of_values(calls: &[u32]) -> String {
    text(&folded(calls, Options::default()))
}

#[test]
fn a_call_after_each_tenth_of_alike_steps_is_a_condition() {
    let condition = |steps: u32| {
        let holds = (0..steps).map(|step| if step % 10 == 9 { "1" } else { "0" });
        format!("{steps}*[1 2 ({})*[3]]", holds.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(nest_of_values(&steps(0, |_| 0)), condition(50));
    // Two buffers alternate.
    assert_eq!(nest_of_values(&steps(0, |step| step % 2)), condition(50));
    assert_eq!(nest_of_values(&steps(7, |step| step % 2)), condition(57));
}

#[test]
fn an_inner_loop_whose_iterations_differ_stays_a_loop() {
    // Ten neighbours, one after the other.
    assert_eq!(nest_of_values(&steps(0, |step| step % 10)), "5*[10*[1 2] 3]");
}

/// How many loops a nest has that are more than conditions, and how often each skeleton occurs.
fn shape(body: &[Grouped], places: &mut BTreeMap<u32, usize>) -> usize {
    let mut loops = 0;
    for node in body {
        match node {
            Nest::Leaf(leaf) => *places.entry(leaf.skeleton).or_default() += 1,
            Nest::Loop { count, body } => {
                let mut most = 0;
                count.iter().for_each(|(_, trips)| {
                    trips.tally(&mut |trips, _| most = trips.max(most));
                });
                loops += usize::from(most > 1) + shape(body, places);
            }
            Nest::Block(_) => {}
        }
    }
    loops
}

proptest! {
    #[test]
    fn a_clean_program_has_its_loops_and_every_call_once(program in clean()) {
        let mut nests = Vec::new();
        let mut sequences = Vec::new();
        for rank in 0..3 {
            let mut sequence = Vec::new();
            execute_clean(&program, rank, &mut 0, &mut Vec::new(), &mut sequence);
            let nest = folded(&sequence, Options::default());
            let decoded: Vec<u32> = Play::new(&nest).map(|(_, value)| value).collect();
            prop_assert_eq!(&decoded, &sequence);
            let mut places = BTreeMap::new();
            let alone = shape(&over_groups(vec![nest.clone()]), &mut places);
            prop_assert_eq!(alone, loops(&program), "rank {}: {}", rank, text(&nest));
            prop_assert!(places.values().all(|times| *times == 1), "{}", text(&nest));
            nests.push(nest);
            sequences.push(sequence);
        }
        let common = over_groups(nests);
        let mut places = BTreeMap::new();
        let all = shape(&common, &mut places);
        prop_assert_eq!(all, loops(&program), "{}", grouped_text(&common));
        prop_assert!(places.values().all(|times| *times == 1), "{}", grouped_text(&common));
        for (rank, sequence) in sequences.iter().enumerate() {
            let decoded: Vec<u32> =
                Play::new(&of_one(&common, rank)).map(|(_, value)| value).collect();
            prop_assert_eq!(&decoded, sequence);
        }
    }
}
