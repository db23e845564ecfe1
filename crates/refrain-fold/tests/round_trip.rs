//! A trace that is stored as loop nests, or as grammars with coded rows, reads back as it was.

use proptest::prelude::*;
use refrain_encode::encoder::{Batch, Encoder};
use refrain_fold::{Facts, Form, read, write};
use refrain_grammar::{Grammar, Sequitur};
use refrain_signature::cells;
use refrain_signature::head::Head;
use refrain_signature::tasktrace::{SignatureTrace, TaskTrace};
use refrain_structure::group::{Group, Residue};
use refrain_structure::merged::Merged;
use refrain_testing::program::{Op, Process, THREADS, programs};
use refrain_testing::records::FAMILY;

/// A simulated run, merged.
fn merged(program: &[Op], size: u32) -> Merged {
    let task = |rank: u32| {
        let process = Process::run(program, rank, size);
        let mut encoder = Encoder::new(FAMILY);
        let batches: Vec<Batch<'_>> = (0..THREADS as u32)
            .zip(&process.threads)
            .map(|(thread, of)| Batch { thread, records: &of.log.bytes })
            .collect();
        assert_eq!(encoder.feed(&batches), []);
        encoder.finish();
        let task = |thread: u32| Some(Merged::of(rank, thread, encoder.task_trace(thread)?));
        (0..THREADS as u32).filter_map(task).collect::<Vec<_>>()
    };
    Merged::merge_all((0..size).flat_map(task))
}

/// Asserts that a group is the same, but for statistics and residues.
fn assert_same(ours: &Group, theirs: &Group) {
    let ranks = theirs.ranks.to_vec();

    assert_eq!((ours.thread, &ours.ranks, ours.lost), (theirs.thread, &theirs.ranks, theirs.lost));
    assert_eq!((&ours.predefined, &ours.strings), (&theirs.predefined, &theirs.strings));
    let residue = |(rank, residue): (&u32, &Residue)| {
        let mut bytes = Vec::new();
        residue.put(&mut bytes);
        (*rank, bytes)
    };
    let residues = |group: &Group| group.residues.iter().map(residue).collect::<Vec<_>>();
    assert_eq!(residues(ours), residues(theirs));
    let sequence = |group: &Group| -> Vec<u32> { group.grammars.iter().flatten().collect() };
    assert_eq!(sequence(ours), sequence(theirs));
    assert_eq!(ours.rows.len(), theirs.rows.len());
    for (ours, theirs) in ours.rows.iter().zip(&theirs.rows) {
        for &rank in &ranks {
            assert_eq!(ours.cells.cells(rank), theirs.cells.cells(rank));
            assert_eq!(ours.outcome.cells(rank), theirs.outcome.cells(rank));
        }
        assert_eq!(ours.outcomes, theirs.outcomes);
    }
}

/// Writes a trace in both forms and reads it.
fn check(merged: &Merged) {
    for form in [Form::Nests, Form::Grammars, Form::Calls] {
        let bytes = write(merged, form, Facts::default()).expect("every row has a call");
        let again = read(&bytes).expect("it reads");
        assert_eq!(again.functions, merged.functions);
        assert_eq!(again.groups.len(), merged.groups.len());
        again
            .groups
            .iter()
            .zip(&merged.groups)
            .for_each(|(ours, theirs)| assert_same(ours, theirs));
    }
}

/// A random program: loops whose trip counts follow a rule, around calls whose values follow another.
#[derive(Clone, Debug)]
enum Node {
    Call { function: u16, rule: u8 },
    Loop { trips: u8, rule: u8, body: Vec<Node> },
    OnRanks { every: u32, body: Vec<Node> },
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let leaf = (0u16..6, 0u8..6).prop_map(|(function, rule)| Node::Call { function, rule });
    let node = leaf.prop_recursive(3, 24, 5, |inner| {
        let body = proptest::collection::vec(inner, 1..5);
        prop_oneof![
            3 => (0u16..6, 0u8..6).prop_map(|(function, rule)| Node::Call { function, rule }),
            2 => (0u8..6, 0u8..6, body.clone())
                .prop_map(|(trips, rule, body)| Node::Loop { trips, rule, body }),
            1 => (1u32..4, body).prop_map(|(every, body)| Node::OnRanks { every, body }),
        ]
    });
    proptest::collection::vec(node, 1..5)
}

/// The number that a rule gives on the n-th visit.
fn number(rule: u8, n: u64, rank: u32) -> i64 {
    match rule {
        0 => 7,
        1 => n as i64 * 3,
        2 => (n % 4) as i64,
        3 => i64::from(rank) + (n % 2) as i64,
        4 => (n * n % 17) as i64,
        _ => (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as i64,
    }
}

struct Task {
    rank: u32,
    visits: u64,
    sequence: Vec<u32>,
    signatures: Vec<Vec<u8>>,
}

impl Task {
    fn execute(&mut self, body: &[Node]) {
        for node in body {
            self.visits += 1;
            let visits = self.visits;
            match node {
                Node::Call { function, rule } if self.sequence.len() < 3000 => {
                    let mut bytes = Vec::new();
                    Head { function: *function, returned: true, depth: 0, site: None }
                        .put(&mut bytes);
                    cells::put(&mut bytes, number(*rule, visits, self.rank));
                    (0..*rule % 3).for_each(|more| cells::put(&mut bytes, more.into()));
                    let known = self.signatures.iter().position(|known| *known == bytes);
                    let signature = known.unwrap_or_else(|| {
                        self.signatures.push(bytes);
                        self.signatures.len() - 1
                    });
                    self.sequence.push(signature as u32);
                }
                Node::Call { .. } => {}
                Node::Loop { trips, rule, body } => {
                    let more = number(*rule, visits, self.rank).rem_euclid(5) as u8;
                    (0..trips + more).for_each(|_| self.execute(body));
                }
                Node::OnRanks { every, body } if self.rank.is_multiple_of(*every) => {
                    self.execute(body);
                }
                Node::OnRanks { .. } => {}
            }
        }
    }

    fn trace(self) -> TaskTrace {
        let mut sequitur = Sequitur::new();
        self.sequence.iter().for_each(|signature| sequitur.push(*signature));
        let signature = |cells| SignatureTrace { cells, ..SignatureTrace::default() };
        TaskTrace {
            signatures: self.signatures.into_iter().map(signature).collect(),
            grammars: vec![sequitur.grammar()],
            ..TaskTrace::default()
        }
    }
}

fn loops(body: &[Node], size: u32) -> Merged {
    Merged::merge_all((0..size).map(|rank| {
        let mut task = Task { rank, visits: 0, sequence: Vec::new(), signatures: Vec::new() };
        task.execute(body);
        Merged::of(rank, 0, task.trace())
    }))
}

fn settings(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(settings(96))]

    #[test]
    fn programs_read_back_as_written(program in programs(60), size in 1u32..8) {
        check(&merged(&program, size));
    }

    #[test]
    fn loop_nests_read_back_as_written(body in nodes(), size in 1u32..6) {
        check(&loops(&body, size));
    }
}

proptest! {
    #![proptest_config(settings(1000))]

    #[test]
    fn damaged_bytes_are_refused_or_read(
        body in nodes(), size in 1u32..4, form in 0usize..3,
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4), length: u16,
    ) {
        let form = [Form::Nests, Form::Grammars, Form::Calls][form];
        let mut bytes = write(&loops(&body, size), form, Facts::default()).expect("every row has a call");
        for (at, byte) in &changes {
            // The limits stay: a machine with much memory may read a large section.
            let at = 6 + usize::from(*at) % bytes.len();
            if let Some(slot) = bytes.get_mut(at) {
                *slot = *byte;
            }
        }
        if length < 16384 {
            bytes.truncate(usize::from(length) % (bytes.len() + 1));
        }
        let _ = read(&bytes);
    }

    #[test]
    fn any_bytes_are_refused_or_read(mut bytes: Vec<u8>) {
        let _ = read(&bytes);
        // A valid beginning, so that the rest is parsed.
        for form in [0, 1, 2] {
            bytes.splice(0..0, [1, form << 1, 0, 12, 12, 12, 0, 1]);
            let _ = read(&bytes);
        }
    }
}

#[test]
fn a_long_regular_loop_is_not_expanded() {
    use refrain_grammar::Symbol;
    let steps = 1 << 28;
    let rules = vec![
        vec![Symbol::terminal(0, 1), Symbol::rule(1, steps), Symbol::terminal(4, 1)],
        vec![Symbol::terminal(1, 1), Symbol::terminal(2, 3), Symbol::terminal(3, 1)],
    ];
    let signatures = (0..5u16).map(|function| {
        let mut cells = Vec::new();
        Head { function, returned: true, depth: 0, site: None }.put(&mut cells);
        SignatureTrace { cells, ..SignatureTrace::default() }
    });
    let trace = TaskTrace {
        signatures: signatures.collect(),
        grammars: vec![Grammar::new(rules).expect("a grammar")],
        ..TaskTrace::default()
    };
    let merged = Merged::of(0, 0, trace);
    let bytes = write(&merged, Form::Nests, Facts::default()).expect("it can be stored");
    assert!(bytes.len() < 100, "{} bytes", bytes.len());
    let again = read(&bytes).expect("it reads");
    assert_eq!(again.groups[0].grammars[0].len(), 2 + 5 * steps);
    assert!(again.groups[0].grammars[0].symbols() < 12);
}
