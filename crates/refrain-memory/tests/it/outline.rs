//! The structure of threads whose chunks were sealed: it covers all chunks, and loops continue from one chunk
//! to the next.

use crate::kernels::*;
use refrain_memory::{Blocks, Compressor, Merged, Segments, Trace};
use std::collections::BTreeMap;

/// Loop heads and random loads.
const TABLE: &[&str] = &["", "L", "LS", "S"];

/// A trace of these threads, with chunks of about `numbers` numbers.
fn trace(tapes: &[Tape<'_>], numbers: usize) -> Trace {
    let blocks: Blocks = blocks(TABLE);
    let (mut sealed, mut last) = (BTreeMap::new(), Vec::new());
    for (thread, tape) in (0..).zip(tapes) {
        let mut compressor = Compressor::with_chunks_of(numbers);
        compressor.push_words(&tape.words, &blocks, &Segments::identity()).unwrap();
        let (chunks, chunk) = compressor.finish(&blocks);
        if !chunks.is_empty() {
            sealed.insert(thread, chunks);
        }
        last.push((thread, chunk));
    }
    Trace { blocks, sealed, merged: Merged::merge(&last), ..Trace::default() }
}

fn text(trace: &Trace) -> String {
    let addresses = Segments::identity().addresses();
    let outline = trace.outline().unwrap();
    outline
        .merged
        .structure_text(&trace.blocks, &addresses, &mut |name| format!("{name:?}"))
        .unwrap()
}

fn lines<'a>(text: &'a str, of: &str) -> Vec<&'a str> {
    text.lines().map(str::trim).filter(|line| line.starts_with(of)).collect()
}

#[test]
fn a_loop_over_many_chunks_has_its_whole_trip_count() {
    let mut tape = Tape::default();
    let mut dice = Dice(1);
    (0..50_000).for_each(|_| tape.run(2, &[dice.below(1 << 20) * 8, 0x4000_0000]));
    let trace = trace(&[tape], 4096);
    assert!(trace.sealed[&0].len() > 5, "{} chunks", trace.sealed[&0].len());
    let text = text(&trace);
    assert_eq!(lines(&text, "loop"), ["loop 50000 times"], "{text}");
    assert_eq!(lines(&text, "load").len(), 1, "{text}");
    assert!(lines(&text, "store 8 0x40000000 [+0]").len() == 1, "{text}");
}

#[test]
fn a_nest_that_is_sealed_in_its_inner_loop_stays_one_nest() {
    let mut tape = Tape::default();
    let mut dice = Dice(2);
    for i in 0..200 {
        tape.run(3, &[0x1000 + 16 * i]);
        (0..300).for_each(|_| tape.run(1, &[dice.below(1 << 20) * 8]));
    }
    let trace = trace(&[tape], 2048);
    assert!(trace.sealed[&0].len() > 5);
    let text = text(&trace);
    assert_eq!(lines(&text, "loop"), ["loop 200 times", "loop 300 times [+0]"], "{text}");
    assert!(text.contains("  store 8 0x1000 [+16]"), "{text}");
}

#[test]
fn threads_with_sealed_chunks_are_one_group() {
    let tapes: Vec<Tape<'_>> = (0..4)
        .map(|thread| {
            let (mut tape, mut dice) = (Tape::default(), Dice(7 + thread));
            (0..3000).for_each(|_| tape.run(1, &[dice.below(1 << 20) * 8]));
            (0..500).for_each(|i| tape.run(3, &[(1 << 30) + 4000 * thread + 8 * i]));
            tape
        })
        .collect();
    let trace = trace(&tapes, 1024);
    assert_eq!(trace.sealed.len(), 4);
    let text = text(&trace);
    assert_eq!(lines(&text, "threads"), ["threads <0,4,1>"], "{text}");
    assert_eq!(lines(&text, "loop"), ["loop 3000 times", "loop 500 times"], "{text}");
    assert!(text.contains("store 8 0x40000000 +4000 * thread [+8]"), "{text}");
}

#[test]
fn a_thread_without_sealed_chunks_keeps_its_structure_beside_a_thread_with_some() {
    let tape = |n: u64, seed: u64| {
        let (mut tape, mut dice) = (Tape::default(), Dice(seed));
        (0..40).for_each(|i| tape.run(3, &[(1 << 30) + 8 * i]));
        (0..n).for_each(|_| tape.run(1, &[dice.below(1 << 20) * 8]));
        tape
    };
    let trace = trace(&[tape(5, 1), tape(5, 2), tape(9000, 3), tape(5, 4)], 2048);
    assert_eq!(trace.sealed.keys().copied().collect::<Vec<_>>(), [2]);
    let outline = trace.outline().unwrap();
    assert_eq!(outline.merged.threads(), [0, 1, 2, 3]);
    let text = text(&trace);
    assert!(text.contains("loop 9000 times"), "{text}");
    assert_eq!(lines(&text, "loop 40 times").len(), outline.merged.groups.len(), "{text}");
}
