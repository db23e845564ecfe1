//! What the tests share: sequences as grammars, nests as text, and random programs.

use proptest::collection::vec;
use proptest::prelude::*;
use refrain_grammar::{Grammar, Sequitur};
use refrain_nest::{Folded, Grouped, Nest, Options, Seq, fold};
use std::fmt::Display;

/// The grammar of a sequence.
pub fn grammar(sequence: &[u32]) -> Grammar {
    let mut sequitur = Sequitur::new();
    sequence.iter().for_each(|terminal| sequitur.push(*terminal));
    sequitur.grammar()
}

/// The folded nest of terminals: the value in the lower 8 bits, the skeleton above.
pub fn folded(sequence: &[u32], options: Options) -> Vec<Folded> {
    fold(&[grammar(sequence)], options, |terminal| Some(terminal >> 8))
}

fn counts<T: Copy + Eq + Display>(count: &Seq<T>) -> String {
    match count.constant() {
        Some(count) => count.to_string(),
        None => count.iter().map(|count| count.to_string()).collect::<Vec<_>>().join(" "),
    }
}

/// A nest as text: `3*[0 (1 0 1)*[1] 2]`: trip counts, then what is repeated.
pub fn text(body: &[Folded]) -> String {
    let node = |node: &Folded| match node {
        Nest::Leaf(visits) => visits.skeleton.to_string(),
        Nest::Loop { count, body } if count.constant().is_some() => {
            format!("{}*[{}]", counts(count), text(body))
        }
        Nest::Loop { count, body } => format!("({})*[{}]", counts(count), text(body)),
        Nest::Block(_) => String::new(),
    };
    body.iter().map(node).collect::<Vec<_>>().join(" ")
}

/// The nest of several ranks as text: `{0: 3; 1: 2}*[5 1:6]`. Ranks stand before what only they have.
pub fn grouped_text(body: &[Grouped]) -> String {
    fn all(body: &[Grouped], around: &[usize]) -> String {
        let node = |node: &Grouped| {
            let groups = node.groups();
            let names = groups.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            let guard = if groups == around { String::new() } else { format!("{names}:") };
            match node {
                Nest::Leaf(places) => format!("{guard}{}", places.skeleton),
                Nest::Loop { count, body } => {
                    let mut trips: Vec<(usize, String)> =
                        count.iter().map(|(group, trips)| (*group, counts(trips))).collect();
                    trips.sort();
                    let trips = match trips.windows(2).all(|pair| pair[0].1 == pair[1].1) {
                        true if trips[0].1.contains(' ') => format!("({})", trips[0].1),
                        true => trips[0].1.clone(),
                        false => {
                            let each =
                                |(group, trips): &(usize, String)| format!("{group}: {trips}");
                            format!("{{{}}}", trips.iter().map(each).collect::<Vec<_>>().join("; "))
                        }
                    };
                    format!("{guard}{trips}*[{}]", all(body, &groups))
                }
                Nest::Block(_) => String::new(),
            }
        };
        body.iter().map(node).collect::<Vec<_>>().join(" ")
    }
    let mut groups: Vec<usize> = body.iter().flat_map(Grouped::groups).collect();
    groups.sort_unstable();
    groups.dedup();
    all(body, &groups)
}

/// The nest of a sequence of skeletons, as text.
pub fn nest_of(skeletons: &[u32]) -> String {
    let sequence: Vec<u32> = skeletons.iter().map(|skeleton| skeleton << 8).collect();
    text(&folded(&sequence, Options::default()))
}

/// A program: what it does depends on how often it was done before.
#[derive(Clone, Debug)]
pub enum Program {
    /// A call whose value has that many variants.
    Call(u32, u32),
    /// A loop: trip count, its variation, body.
    Loop(u64, u64, Vec<Program>),
    /// Executed each so many times.
    If(u64, Vec<Program>),
}

/// Random programs; the same call occurs in several places.
pub fn program() -> impl Strategy<Value = Vec<Program>> {
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

/// The terminals of a program.
pub fn execute(body: &[Program], clock: &mut u64, out: &mut Vec<u32>) {
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

/// A program in which every call has a place of its own.
#[derive(Clone, Debug)]
pub enum Clean {
    /// A call of the ranks with these bits, with so many values.
    Call(u32, u32),
    /// A loop: trip count, by how much it varies from visit to visit and from rank to rank, body.
    Loop(u64, u64, u64, Vec<Clean>),
}

/// Random programs whose loops have at least two iterations and begin with a call of all ranks.
pub fn clean() -> impl Strategy<Value = Vec<Clean>> {
    let call = (1..8_u32, 1..4_u32).prop_map(|(ranks, values)| Clean::Call(ranks, values));
    let node = call.prop_recursive(3, 16, 4, |inner| {
        (2..5_u64, 0..3_u64, 0..2_u64, vec(inner, 0..4)).prop_map(
            |(count, varies, ranks, mut body)| {
                body.insert(0, Clean::Call(7, 1));
                // Loops in two others, or with loops in them, do not vary: such programs have other readings.
                let is_inner = loops(&body) == 0;
                let loops_in =
                    |body: &mut [Clean], change: &mut dyn FnMut(&mut u64, &mut [Clean])| {
                        for node in body {
                            if let Clean::Loop(_, varies, _, inner) = node {
                                change(varies, inner);
                            }
                        }
                    };
                loops_in(&mut body, &mut |_, inner| {
                    loops_in(inner, &mut |varies, _| *varies = 0);
                });
                Clean::Loop(count, if is_inner { varies } else { 0 }, ranks, body)
            },
        )
    });
    vec(node, 1..5)
}

/// The calls of a rank; `visits` counts the executions of each place, numbered in the order of the source.
pub fn execute_clean(
    body: &[Clean],
    rank: u32,
    place: &mut u32,
    visits: &mut Vec<u64>,
    out: &mut Vec<u32>,
) {
    for node in body {
        let this = *place;
        *place += 1;
        if visits.len() <= this as usize {
            visits.resize(this as usize + 1, 0);
        }
        let visit = visits[this as usize];
        visits[this as usize] += 1;
        match node {
            Clean::Call(ranks, values) => {
                if ranks >> rank & 1 == 1 {
                    out.push(this << 8 | (visit as u32 % values));
                }
            }
            Clean::Loop(count, varies, ranks, inner) => {
                let trips = count + visit % (varies + 1) + u64::from(rank) * ranks;
                let first = *place;
                for _ in 0..trips {
                    *place = first;
                    execute_clean(inner, rank, place, visits, out);
                }
            }
        }
    }
}

/// How many loops a program has.
pub fn loops(body: &[Clean]) -> usize {
    let node = |node: &Clean| match node {
        Clean::Call(..) => 0,
        Clean::Loop(.., inner) => 1 + loops(inner),
    };
    body.iter().map(node).sum()
}
