//! Random nests and random noise are decoded as they were compressed, and damaged bytes do no harm.

use crate::kernels::{Tape, blocks};
use proptest::prelude::*;
use refrain_memory::{
    Blocks, Chunk, Compressor, Merged, Player, Processes, Records, Segments, Trace,
};
use std::collections::BTreeMap;

/// The last block has no references, and no generated program executes it: [`with_other_block`] inserts it.
const TABLE: &[&str] = &["L", "LS", "", "LLS", "A", ""];

/// A generated program.
#[derive(Clone, Debug)]
enum Program {
    /// A block whose addresses move with the loops around it.
    Block { block: u32, base: u64, strides: [u64; 3] },
    /// A block at irregular addresses.
    Noise { block: u32, addresses: [u64; 3] },
    /// A loop whose trip count is a number, plus, if `grows`, the index of the loop around it.
    Loop { trips: u64, grows: bool, body: Vec<Program> },
    /// One of two bodies, chosen by the bits of a number.
    Choice { bits: u64, one: Vec<Program>, other: Vec<Program> },
}

fn program() -> impl Strategy<Value = Vec<Program>> {
    let stride = || prop_oneof![Just(0u64), Just(8), Just(u64::MAX - 7), Just(800)];
    let block = (0u32..5, 0u64..4, [stride(), stride(), stride()])
        .prop_map(|(block, base, strides)| Program::Block { block, base: base << 20, strides });
    let noise = (0u32..5, any::<[u16; 3]>())
        .prop_map(|(block, places)| Program::Noise { block, addresses: places.map(u64::from) });
    let leaf = prop_oneof![4 => block, 1 => noise];
    let tree = leaf.prop_recursive(4, 24, 4, |inner| {
        let body = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => (0u64..7, any::<bool>(), body())
                .prop_map(|(trips, grows, body)| Program::Loop { trips, grows, body }),
            1 => (any::<u64>(), body(), body())
                .prop_map(|(bits, one, other)| Program::Choice { bits, one, other }),
        ]
    });
    prop::collection::vec(tree, 1..6)
}

struct Machine<'a> {
    /// The thread. Its addresses differ from those of other threads, and every other thread has one more iteration.
    thread: u64,
    tape: Tape<'a>,
    indices: Vec<u64>,
    table: Blocks,
    steps: usize,
}

impl Machine<'_> {
    fn run(&mut self, programs: &[Program]) {
        for program in programs {
            self.steps += 1;
            if self.steps > 20_000 {
                return;
            }
            match program {
                Program::Block { block, base, strides } => {
                    let indices = self.indices.iter().rev().zip(strides);
                    let moved = indices.fold(*base + (self.thread << 14), |at, (i, stride)| {
                        at.wrapping_add(i.wrapping_mul(*stride))
                    });
                    let count = self.table.get(*block).unwrap().len() as u64;
                    let all: Vec<u64> = (0..count).map(|i| moved.wrapping_add(i << 12)).collect();
                    self.tape.run(*block, &all);
                }
                Program::Noise { block, addresses } => {
                    let count = self.table.get(*block).unwrap().len();
                    self.tape.run(*block, &addresses[..count]);
                }
                Program::Loop { trips, grows, body } => {
                    let more = if *grows { self.indices.last().copied().unwrap_or(0) } else { 0 };
                    let odd = if trips % 3 == 1 { self.thread % 2 } else { 0 };
                    for index in 0..trips + more + odd {
                        self.indices.push(index);
                        self.run(body);
                        self.indices.pop();
                    }
                }
                Program::Choice { bits, one, other } => {
                    let which = bits >> (self.steps % 64) & 1;
                    self.run(if which == 1 { one } else { other });
                }
            }
        }
    }
}

fn words_of(programs: &[Program]) -> Vec<u64> {
    words_of_thread(programs, 0)
}

fn words_of_thread(programs: &[Program], thread: u64) -> Vec<u64> {
    let (tape, indices, table) = (Tape::default(), Vec::new(), blocks(TABLE));
    let mut machine = Machine { thread, tape, indices, table, steps: 0 };
    machine.run(programs);
    machine.tape.words
}

fn compress(words: &[u64], table: &Blocks, piece: usize, chunk: usize) -> Vec<Vec<u8>> {
    let segments = Segments::identity();
    let mut compressor = Compressor::with_chunks_of(chunk);
    let mut at = 0;
    let mut end = 0;
    while at < words.len() {
        end = words.len().min(end + piece);
        at += compressor.push_words(&words[at..end], table, &segments).unwrap();
    }
    let (mut at, mut records) = (0, 0);
    while at < words.len() {
        at += 1 + table.get(words[at] as u32).unwrap().len();
        records += 1;
    }
    assert_eq!(compressor.executed(), records);
    let mut chunks = compressor.take_sealed();
    let (more, last) = compressor.finish(table);
    chunks.extend(more);
    chunks.push(last.to_bytes());
    chunks
}

fn play(chunks: &[Vec<u8>], table: &Blocks) -> Vec<u64> {
    let records = |bytes| Records::of(bytes, table, None).unwrap();
    chunks.iter().flat_map(|bytes| play_one(records(bytes), table)).collect()
}

fn play_one(mut records: Records<'_>, table: &Blocks) -> Vec<u64> {
    let (mut words, mut places) = (Vec::new(), Vec::new());
    while let Some(block) = records.next_block(&mut places, table).unwrap() {
        words.push(u64::from(block));
        words.extend_from_slice(&places);
    }
    words
}

fn chunks_of(words: &[Vec<u64>], table: &Blocks) -> Vec<(u32, Chunk)> {
    let chunk = |words: &Vec<u64>| {
        let mut compressor = Compressor::new();
        compressor.push_words(words, table, &Segments::identity()).unwrap();
        compressor.finish(table).1
    };
    (0..).zip(words.iter().map(chunk)).collect()
}

/// The trace of these threads, with chunks of about `numbers` numbers.
fn trace_of(words: &[Vec<u64>], numbers: usize) -> Trace {
    let blocks = blocks(TABLE);
    let (mut sealed, mut last) = (BTreeMap::new(), Vec::new());
    for (thread, words) in (0..).zip(words) {
        let mut compressor = Compressor::with_chunks_of(numbers);
        compressor.push_words(words, &blocks, &Segments::identity()).unwrap();
        let (chunks, chunk) = compressor.finish(&blocks);
        if !chunks.is_empty() {
            sealed.insert(thread, chunks);
        }
        last.push((thread, chunk));
    }
    Trace { blocks, sealed, merged: Merged::merge(&last), ..Trace::default() }
}

/// The records with another block in place of the block without references.
fn with_other_block(words: &[u64], table: &Blocks) -> Vec<u64> {
    let (mut words, mut at) = (words.to_vec(), 0);
    while at < words.len() {
        let references = table.get(words[at] as u32).unwrap().len();
        if words[at] == 2 {
            words[at] = 5;
        }
        at += 1 + references;
    }
    words
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_nests_are_decoded(programs in program(), piece in 4usize..100, small in any::<bool>()) {
        let table = blocks(TABLE);
        let words = words_of(&programs);
        let chunk = if small { 256 } else { 1 << 20 };
        prop_assert_eq!(play(&compress(&words, &table, piece, chunk), &table), words);
    }

    #[test]
    fn teams_of_threads_are_decoded(programs in program(), threads in 1u32..7) {
        let table = blocks(TABLE);
        let words: Vec<Vec<u64>> =
            (0..threads).map(|thread| words_of_thread(&programs, u64::from(thread))).collect();
        let merged = Merged::merge(&chunks_of(&words, &table));
        let mut bytes = Vec::new();
        Processes::of(4, &merged).join(Processes::of(7, &merged)).encode(&mut bytes);
        let processes = Processes::decode(&mut &bytes[..]).unwrap();
        for (thread, words) in (0..).zip(&words) {
            let process = processes.process(7).unwrap();
            let chunk = process.chunk(thread, &table).unwrap().unwrap();
            prop_assert_eq!(&play_one(Records::Nests(Player::new(chunk)), &table), words);
        }
    }

    #[test]
    fn a_thread_that_does_more_than_the_others_is_decoded(
        before in program(),
        kernel in program(),
        after in program(),
        twice in any::<bool>(),
        threads in 2u32..5,
    ) {
        let table = blocks(TABLE);
        let words: Vec<Vec<u64>> = (0..threads)
            .map(|thread| {
                let kernel = words_of_thread(&kernel, u64::from(thread));
                let again = if twice { kernel.clone() } else { Vec::new() };
                match thread {
                    0 => [words_of(&before), kernel, words_of(&after), again].concat(),
                    _ => with_other_block(&[kernel, again].concat(), &table),
                }
            })
            .collect();
        let merged = Merged::merge(&chunks_of(&words, &table));
        let mut bytes = Vec::new();
        merged.encode(&mut bytes);
        prop_assert_eq!(&Merged::decode(&mut &bytes[..]).unwrap(), &merged);
        bytes.clear();
        Processes::of(4, &merged).join(Processes::of(7, &merged)).encode(&mut bytes);
        let processes = Processes::decode(&mut &bytes[..]).unwrap();
        let process = processes.process(7).unwrap();
        for (thread, words) in (0..).zip(&words) {
            let chunk = process.chunk(thread, &table).unwrap().unwrap();
            prop_assert_eq!(&play_one(Records::Nests(Player::new(chunk)), &table), words);
        }
        process.structure_text(&table, &Segments::identity().addresses(), &mut |_| String::new()).unwrap();
    }

    #[test]
    fn the_structure_does_not_depend_on_where_chunks_were_sealed(
        programs in program(),
        threads in 1u32..4,
    ) {
        let words: Vec<Vec<u64>> =
            (0..threads).map(|thread| words_of_thread(&programs, u64::from(thread))).collect();
        let (parts, whole) = (trace_of(&words, 256), trace_of(&words, 1 << 21));
        let outline = parts.outline().unwrap();
        prop_assert!(outline.left_out.is_empty());
        prop_assert_eq!(outline.merged.threads(), parts.threads());
        // Threads with and without sealed chunks are not in one group.
        if parts.sealed.len() == words.len() && whole.sealed.is_empty() {
            let addresses = Segments::identity().addresses();
            let text = |merged: &Merged| {
                merged.structure_text(&parts.blocks, &addresses, &mut |name| format!("{name:?}"))
            };
            prop_assert_eq!(text(&outline.merged).unwrap(), text(&whole.merged).unwrap());
        }
    }

    #[test]
    fn noise_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..2000), values in 1u64..5) {
        let table = blocks(TABLE);
        let mut tape = Tape::default();
        for pair in bytes.chunks_exact(2) {
            let block = u32::from(pair[0]) % 5;
            let count = table.get(block).unwrap().len() as u64;
            let at = (u64::from(pair[1]) % values) * 8;
            tape.run(block, &(0..count).map(|i| at + 100 * i).collect::<Vec<_>>());
        }
        let words = tape.words;
        prop_assert_eq!(play(&compress(&words, &table, 64, 1 << 20), &table), words);
    }

    #[test]
    fn damaged_bytes_are_refused_or_end(
        programs in program(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let table = blocks(TABLE);
        let mut chunk = compress(&words_of(&programs), &table, 1000, 1 << 20).remove(0);
        for (at, byte) in changes {
            let at = at.index(chunk.len());
            chunk[at] = byte;
        }
        if let Ok(mut records) = Records::of(&chunk, &table, None) {
            let mut places = Vec::new();
            for _ in 0..100_000 {
                if !matches!(records.next_block(&mut places, &table), Ok(Some(_))) {
                    break;
                }
            }
        }
    }
}
