//! The examples, as a stranger would run them, on a trace of a real program.

use crate::golden;
use refrain_reader::{Peer, open};
use std::collections::BTreeMap;
use std::process::Command;

/// What an example prints. Examples are built together with the tests.
fn run(example: &str, trace: &str) -> String {
    let test = std::env::current_exe().expect("this test has a path");
    let folder = test.ancestors().nth(2).expect("target/PROFILE").join("examples");
    let output = Command::new(folder.join(example)).arg(golden(trace)).output().expect("it starts");
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The message matrix of a trace, and its text.
fn matrix(trace: &str) -> (BTreeMap<(i32, u32), u64>, String) {
    let text = run("message_matrix", trace);
    let line = |line: &str| {
        let (pair, bytes) = line.strip_suffix(" bytes")?.split_once(": ")?;
        let (from, to) = pair.split_once(" -> ")?;
        Some(((from.parse::<i32>().ok()?, to.parse::<u32>().ok()?), bytes.parse::<u64>().ok()?))
    };
    (text.lines().map(|l| line(l).expect("a line")).collect(), text)
}

#[test]
fn the_message_matrix_has_what_threads_send_on_communicators_of_the_first_thread() {
    let (sent, text) = matrix("threads-calls");
    let pairs = sent.keys().copied().collect::<Vec<_>>();
    assert_eq!(pairs, [(0, 1), (1, 0)], "{text}");
    assert_eq!(sent[&(0, 1)], sent[&(1, 0)], "{text}");
}

#[test]
fn the_message_matrix_has_every_pair_that_sends() {
    let (sent, text) = matrix("stencil");
    // A grid of 2 x 2 ranks on which each exchanges a row or a column of 64 doubles with two others, a hundred times.
    let pairs = [(0, 1), (0, 2), (1, 0), (1, 3), (2, 0), (2, 3), (3, 1), (3, 2)];
    assert_eq!(sent, pairs.map(|pair| (pair, 100 * 64 * 8)).into_iter().collect(), "{text}");
}

#[test]
fn symbolic_peers_are_those_of_every_call() {
    let text = run("symbolic_peers", "stencil");
    assert!(text.contains("ranks 0-3: 50 x MPI_Isend to 0: -1; else rank - 2\n"), "{text}");
    // As many sends as are decoded, rank by rank.
    let times = |line: &str| -> u64 {
        let (ranks, rest) =
            line.strip_prefix("ranks ").expect("ranks").split_once(": ").expect(":");
        let count = rest.split(' ').next().expect("a number").parse::<u64>().expect("a number");
        let list = |part: &str| match part.split_once('-') {
            Some((first, last)) => {
                last.parse::<u64>().expect("a rank") - first.parse::<u64>().expect("a rank") + 1
            }
            None => 1,
        };
        count * ranks.split(',').map(list).sum::<u64>()
    };
    let symbolic: u64 = text.lines().map(times).sum();
    let trace = open(&golden("stencil")).expect("a trace").calls().expect("of calls");
    let mut decoded = 0;
    for task in trace.tasks() {
        for call in task.calls().expect("calls") {
            let call = call.expect("a call");
            decoded +=
                u64::from(matches!(call.peer_in("dest"), Some(Peer::Rank(_) | Peer::ProcNull)));
        }
    }
    assert_eq!(symbolic, decoded, "{text}");
}
