//! How fast grammars are folded into loop nests, and what memory that takes: a billion regular calls, and ten million
//! irregular ones of several kinds. Every case runs in a process of its own, whose peak memory is measured. Folding has one
//! thread, so its time is that of the processor: other programs on the machine do not count.

use crate::Figure;
use crate::ends::processor_time;
use crate::scale::peak;
use refrain_grammar::{Grammar, Sequitur, Symbol};
use refrain_nest::{Folded, Nest, Options, fold};
use std::process::Command;
use std::time::Instant;

/// Calls of the irregular sequences.
const CALLS: usize = 10_000_000;
/// Seconds that the regular sequence may take.
const MOST_SECONDS: f64 = 1.0;
/// Microseconds for each call of an irregular one.
const MOST_PER_CALL: f64 = 1.0;
/// Bytes for each call of an irregular one, beside the grammar.
const MOST_BYTES: f64 = 512.0;

/// Sequences of calls: the skeleton in the upper bits, a value in the lower eight.
type Make = fn(usize, &mut Random) -> Vec<u32>;

/// The irregular sequences.
const IRREGULAR: [(&str, Make); 6] = [
    ("steps with a varying number of inner iterations", solver),
    ("neighbours that change with every step", refinement),
    ("levels with varying numbers of messages", multigrid),
    ("random calls of 4 places", |calls, random| random.places(calls, 4)),
    ("random calls of 100 places", |calls, random| random.places(calls, 100)),
    ("random calls of 10,000 places", |calls, random| random.places(calls, 10_000)),
];

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % limit
    }

    fn places(&mut self, calls: usize, places: u64) -> Vec<u32> {
        (0..calls).map(|_| (self.below(places) as u32) << 8).collect()
    }
}

/// A solver that needs another number of iterations in every step.
fn solver(calls: usize, random: &mut Random) -> Vec<u32> {
    let mut all = Vec::new();
    while all.len() < calls {
        all.push(1 << 8);
        (0..1 + random.below(20)).for_each(|_| all.extend([2 << 8, 3 << 8, 4 << 8]));
        all.push(5 << 8);
    }
    all
}

/// Receives and sends of a mesh whose neighbours change.
fn refinement(calls: usize, random: &mut Random) -> Vec<u32> {
    let mut all = Vec::new();
    while all.len() < calls {
        for begin in [10, 40] {
            all.push(begin << 8);
            for neighbour in 1..=20 {
                if random.below(3) > 0 {
                    all.push((begin + neighbour) << 8 | random.below(50) as u32);
                }
            }
        }
        if random.below(10) == 0 {
            all.extend([70 << 8, 71 << 8]);
        }
        all.push(5 << 8);
    }
    all
}

/// Levels of a multigrid solver with few or many neighbours.
fn multigrid(calls: usize, random: &mut Random) -> Vec<u32> {
    let mut all = Vec::new();
    while all.len() < calls {
        for level in 0..6 {
            for place in [1, 2] {
                (0..=random.below(6)).for_each(|_| all.push(place << 8 | level));
            }
            all.push(3 << 8);
        }
        for level in 0..6 {
            (0..=random.below(6)).for_each(|_| all.push(4 << 8 | level));
            all.push(6 << 8);
        }
        all.push(5 << 8);
    }
    all
}

/// `for 1000 { A; for 1000 { B; for 500 { C D } } }`
fn regular() -> Grammar {
    let rules = vec![
        vec![Symbol::rule(1, 1000)],
        vec![Symbol::terminal(0x100, 1), Symbol::rule(2, 1000)],
        vec![Symbol::terminal(0x200, 1), Symbol::rule(3, 500)],
        vec![Symbol::terminal(0x300, 1), Symbol::terminal(0x400, 1)],
    ];
    Grammar::new(rules).expect("a grammar")
}

/// Folds all sequences, each in a process of its own.
pub fn measure() -> Vec<Figure> {
    let mut figures = Vec::new();
    for case in 0..=IRREGULAR.len() {
        let program = std::env::current_exe().expect("this program has a path");
        let output = Command::new(program).args(["nest-one", &case.to_string()]).output();
        let output = output.expect("this program starts again");
        let said = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> =
            said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [calls, symbols, nodes, seconds, elapsed, bytes] = numbers.as_slice() else {
            panic!("case {case}: {said}{}", String::from_utf8_lossy(&output.stderr));
        };
        let detail = format!(
            "{calls} calls, {symbols} symbols: {nodes} nodes in {seconds:.3} s ({elapsed:.3} s elapsed), {:.1} MB",
            bytes / 1e6
        );
        let Some((name, _)) = case.checked_sub(1).map(|irregular| IRREGULAR[irregular]) else {
            figures.push(Figure {
                name: "a billion regular calls: time to fold".to_owned(),
                detail,
                value: *seconds,
                bound: MOST_SECONDS,
                unit: "s",
            });
            continue;
        };
        figures.push(Figure {
            name: format!("{name}: time"),
            detail,
            value: seconds / calls * 1e6,
            bound: MOST_PER_CALL,
            unit: "µs a call",
        });
        figures.push(Figure {
            name: format!("{name}: memory"),
            detail: String::new(),
            value: bytes / calls,
            bound: MOST_BYTES,
            unit: "bytes a call",
        });
    }
    figures
}

/// Folds one sequence, and prints calls, symbols, nodes, seconds of the processor, seconds that elapsed, and bytes.
pub fn measure_one(case: usize) {
    let grammar = match case.checked_sub(1) {
        None => regular(),
        Some(irregular) => {
            let mut sequitur = Sequitur::new();
            let calls = IRREGULAR[irregular].1(CALLS, &mut Random(88_172_645_463_325_252));
            calls.iter().for_each(|call| sequitur.push(*call));
            sequitur.grammar()
        }
    };
    let (calls, symbols) = (grammar.len(), grammar.symbols());
    // From here on, the peak counts anew.
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
    let before = peak();
    let (begin, spent) = (Instant::now(), processor_time(libc::RUSAGE_SELF));
    let nest = fold(&[grammar], Options::default(), |terminal| Some(terminal >> 8));
    let seconds = processor_time(libc::RUSAGE_SELF) - spent;
    let elapsed = begin.elapsed().as_secs_f64();
    let bytes = peak().saturating_sub(before);
    println!("{calls} {symbols} {} {seconds} {elapsed} {bytes}", nodes(&nest));
}

fn nodes(body: &[Folded]) -> usize {
    let node = |node: &Folded| match node {
        Nest::Loop { body, .. } => 1 + nodes(body),
        _ => 1,
    };
    body.iter().map(node).sum()
}
