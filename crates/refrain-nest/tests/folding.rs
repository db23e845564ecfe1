//! Folded nests decode to the calls that they were made from, and find the loops of the program.

use proptest::collection::vec;
use proptest::prelude::*;
use refrain_grammar::{Grammar, Sequitur};
use refrain_nest::{Folded, Nest, Options, Play, Seq, fold, of_one, over_groups};

/// A program: what it does depends on how often it was done before.
#[derive(Clone, Debug)]
enum Program {
    /// A call whose value has that many variants.
    Call(u32, u32),
    /// A loop: trip count, its variation, body.
    Loop(u64, u64, Vec<Program>),
    /// Executed each so many times.
    If(u64, Vec<Program>),
}

fn program() -> impl Strategy<Value = Vec<Program>> {
    let leaf = (0..6_u32, 1..5_u32).prop_map(|(skeleton, values)| Program::Call(skeleton, values));
    let node = leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            (1..6_u64, 0..4_u64, vec(inner.clone(), 1..5))
                .prop_map(|(count, more, body)| Program::Loop(count, more, body)),
            (2..5_u64, vec(inner, 1..3)).prop_map(|(each, body)| Program::If(each, body)),
        ]
    });
    vec(node, 1..6)
}

/// The terminals of a program: the value in the lower half, the skeleton in the upper half of 16 bits.
fn execute(body: &[Program], clock: &mut u64, out: &mut Vec<u32>) {
    for node in body {
        *clock =
            clock.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = *clock >> 33;
        match node {
            Program::Call(skeleton, values) => {
                out.push(skeleton << 8 | (random % u64::from(*values)) as u32);
            }
            Program::Loop(count, more, inner) => {
                for _ in 0..count + random % (more + 1) {
                    execute(inner, clock, out);
                }
            }
            Program::If(each, inner) => {
                if random.is_multiple_of(*each) {
                    execute(inner, clock, out);
                }
            }
        }
    }
}

fn grammar(sequence: &[u32]) -> Grammar {
    let mut sequitur = Sequitur::new();
    sequence.iter().for_each(|terminal| sequitur.push(*terminal));
    sequitur.grammar()
}

fn folded(sequence: &[u32], options: Options) -> Vec<Folded> {
    fold(&[grammar(sequence)], options, |terminal| Some(terminal >> 8))
}

const ALL: [Options; 4] = [
    Options { partial: true, delayed: true },
    Options { partial: true, delayed: false },
    Options { partial: false, delayed: true },
    Options { partial: false, delayed: false },
];

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
        let common = over_groups(nests.collect());
        for (group, sequence) in sequences.iter().enumerate() {
            let nest = of_one(&common, group);
            let decoded: Vec<u32> = Play::new(&nest).map(|(_, value)| value).collect();
            prop_assert_eq!(&decoded, sequence);
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

/// A nest as text: `3*[0 1?(1 0 1)]`: trip counts, then what is repeated.
fn text(body: &[Folded]) -> String {
    let node = |node: &Folded| match node {
        Nest::Leaf(visits) => visits.skeleton.to_string(),
        Nest::Loop { count, body } => {
            let counts = match count.constant() {
                Some(count) => count.to_string(),
                None => {
                    let counts: Vec<String> = count.iter().map(|count| count.to_string()).collect();
                    format!("({})", counts.join(" "))
                }
            };
            format!("{counts}*[{}]", text(body))
        }
        Nest::Block(_) => String::new(),
    };
    body.iter().map(node).collect::<Vec<_>>().join(" ")
}

/// The nest of a sequence of skeletons, as text.
fn nest_of(skeletons: &[u32]) -> String {
    let sequence: Vec<u32> = skeletons.iter().map(|skeleton| skeleton << 8).collect();
    text(&folded(&sequence, Options::default()))
}

#[test]
fn figure_1_a_loop_with_iteration_specific_behavior() {
    // Barrier, Isend in the first iteration, Irecv in the second, Barrier elsewhere.
    assert_eq!(nest_of(&[1, 2, 4, 1, 3, 4]), "2*[1 (1 0)*[2] (0 1)*[3] 4]");
}

#[test]
fn figure_2_a_loop_with_trailing_iterations() {
    // Time steps with a varying number of inner iterations at their end.
    let mut calls = Vec::new();
    for step in 0..6 {
        calls.push(1);
        for _ in 0..3 + step % 3 {
            calls.extend([2, 3, 4]);
        }
    }
    assert_eq!(nest_of(&calls), "6*[1 (3 4 5 3 4 5)*[2 3 4]]");
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
