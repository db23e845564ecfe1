//! Merged threads: each thread's stream can be decoded, and the size does not grow with the number of threads.

use crate::kernels::*;
use refrain_memory::{Blocks, Chunk, Compressor, Merged, Name, Player, Processes, Segments, Trace};

/// How many records the words are.
fn records(words: &[u64], blocks: &Blocks) -> u64 {
    let (mut at, mut records) = (0, 0);
    while at < words.len() {
        at += 1 + blocks.get(words[at] as u32).unwrap().len();
        records += 1;
    }
    records
}

/// Compresses the stream of each thread.
fn chunks(tapes: &[Tape<'_>], blocks: &Blocks, memory: &Memory) -> Vec<(u32, Chunk)> {
    let compress = |tape: &Tape<'_>| {
        let mut compressor = Compressor::new();
        compressor.push_words(&tape.words, blocks, &memory.segments).unwrap();
        assert_eq!(compressor.executed(), records(&tape.words, blocks));
        let (sealed, chunk) = compressor.finish(blocks);
        assert!(sealed.is_empty());
        chunk
    };
    (0..).zip(tapes.iter().map(compress)).collect()
}

/// Merges the threads, checks that every thread can be decoded, and returns the size and the groups' threads.
fn merged(tapes: &[Tape<'_>], table: &[&str], memory: &Memory) -> (usize, Vec<String>) {
    let blocks = blocks(table);
    let merged = Merged::merge(&chunks(tapes, &blocks, memory));
    let mut bytes = Vec::new();
    merged.encode(&mut bytes);
    let decoded = Merged::decode(&mut &bytes[..]).unwrap();
    assert_eq!(decoded, merged);
    let mut addresses = memory.segments.addresses();
    for (thread, tape) in tapes.iter().enumerate() {
        let mut player = Player::new(decoded.chunk(thread as u32, &blocks).unwrap().unwrap());
        let (mut words, mut places) = (Vec::new(), Vec::new());
        while let Some(block) = player.next_block(&mut places).unwrap() {
            words.push(u64::from(block));
            words.extend(places.iter().map(|&place| addresses.address(place)));
        }
        assert!(words == tape.words, "thread {thread} of {}", tapes.len());
    }
    (bytes.len(), merged.groups.iter().map(|group| group.threads.to_string()).collect())
}

fn team(
    threads: u64,
    memory: &mut Memory,
    kernel: impl Fn(&mut Tape<'_>, u64, u64),
) -> Vec<Tape<'static>> {
    (0..threads)
        .map(|thread| {
            let stack = memory.stack(thread as u32);
            let mut tape = Tape::default();
            kernel(&mut tape, thread, stack);
            tape
        })
        .collect()
}

/// Names in the structure: plain numbers.
fn plain(name: Name) -> String {
    match name {
        Name::Instruction(pc) => format!("at pc {pc:#x}"),
        Name::Context(block) => format!("block {block}"),
        Name::Data { .. } => String::new(),
    }
}

fn check(name: &str, sizes: &[(String, usize)], most: usize) {
    let least = sizes.iter().map(|(_, size)| *size).min().unwrap();
    let largest = sizes.iter().map(|(_, size)| *size).max().unwrap();
    println!("{name}: {least} to {largest} bytes; {sizes:?}");
    assert!(largest <= most, "{name}: {sizes:?}");
    assert!(largest - least <= 64.max(least / 20), "{name}: {sizes:?}");
}

#[test]
fn the_size_of_kernels_does_not_depend_on_the_number_of_threads() {
    let (mut adds, mut multiplications, mut solves) = (Vec::new(), Vec::new(), Vec::new());
    for n in [48, 100] {
        for threads in [1, 2, 3, 4, 7, 8, 16, 31, 32] {
            let mut memory = Memory::new(0);
            let at = [0; 3].map(|_| memory.allocate(8 * n * n));
            let tapes = team(threads, &mut memory, |tape, thread, _| {
                vector_add(tape, at, share(n, threads, thread));
            });
            let (size, groups) = merged(&tapes, VECTOR_ADD, &memory);
            adds.push((format!("{n}/{threads} {groups:?}"), size));
            let tapes = team(threads, &mut memory, |tape, thread, stack| {
                matmul(tape, at, n, share(n, threads, thread), stack);
            });
            let (size, groups) = merged(&tapes, MATMUL, &memory);
            multiplications.push((format!("{n}/{threads} {groups:?}"), size));
            let tapes = team(threads, &mut memory, |tape, thread, _| {
                triangular(tape, at, n, share(48, threads, thread));
            });
            let (size, groups) = merged(&tapes, TRIANGULAR, &memory);
            solves.push((format!("{n}/{threads} {groups:?}"), size));
        }
    }
    check("vector add", &adds, 2000);
    check("matmul", &multiplications, 2000);
    check("triangular", &solves, 2000);
}

#[test]
fn processes_are_joined_in_a_tree_and_each_can_be_decoded() {
    let (n, threads) = (24, 4);
    let mut sizes = Vec::new();
    for ranks in [1u32, 2, 4, 8] {
        let blocks = blocks(MATMUL);
        let mut parts: Vec<(Processes, Merged)> = Vec::new();
        for rank in 0..ranks {
            // Each process has its own layout, and works on its own rows.
            let mut memory = Memory::new(u64::from(rank) * 0x1234_0000);
            let at = [0; 3].map(|_| memory.allocate(8 * n * n * 8));
            let tapes = team(threads, &mut memory, |tape, thread, stack| {
                let rows = share(n, threads, thread);
                let first = u64::from(rank) * n;
                matmul(tape, at, n, first + rows.start..first + rows.end, stack);
            });
            let merged = Merged::merge(&chunks(&tapes, &blocks, &memory));
            parts.push((Processes::of(rank, &merged), merged));
        }
        let mut round: Vec<Processes> = parts.iter().map(|(part, _)| part.clone()).collect();
        while round.len() > 1 {
            let mut pairs = round.into_iter();
            round = Vec::new();
            while let Some(one) = pairs.next() {
                round.push(match pairs.next() {
                    Some(other) => one.join(other),
                    None => one,
                });
            }
        }
        let all = round.remove(0);
        let mut bytes = Vec::new();
        all.encode(&mut bytes);
        let decoded = Processes::decode(&mut &bytes[..]).unwrap();
        assert_eq!(decoded, all);
        assert_eq!(decoded.groups().len(), 1);
        for (rank, (_, merged)) in (0..).zip(&parts) {
            assert_eq!(decoded.process(rank).unwrap(), *merged);
        }
        sizes.push((format!("{ranks} ranks {}", all.groups()[0].ranks), bytes.len()));
    }
    check("matmul over ranks", &sizes, 2000);
}

#[test]
fn a_trace_streams_the_references_of_each_thread() {
    let n = 40;
    let mut memory = Memory::new(0);
    let at = [0; 3].map(|_| memory.allocate(8 * n * n));
    let tapes = team(3, &mut memory, |tape, thread, stack| {
        matmul(tape, at, n, share(n, 3, thread), stack);
    });
    let blocks = blocks(MATMUL);
    // Thread 1 has one sealed chunk.
    let mut trace = Trace::default();
    let mut last = Vec::new();
    for (thread, tape) in (0u32..).zip(&tapes) {
        let mut compressor = Compressor::new();
        let half = tape.words.len() / 2;
        let used = compressor.push_words(&tape.words[..half], &blocks, &memory.segments).unwrap();
        if thread == 1 {
            compressor.seal(&blocks);
            trace.sealed.insert(thread, compressor.take_sealed());
        }
        compressor.push_words(&tape.words[used..], &blocks, &memory.segments).unwrap();
        last.push((thread, compressor.finish(&blocks).1));
    }
    trace.merged = Merged::merge(&last);
    let mut bytes = Vec::new();
    blocks.encode(&mut bytes);
    memory.segments.encode(&mut bytes);
    let input = &mut &bytes[..];
    trace.blocks = Blocks::decode(input).unwrap();
    trace.segments = Segments::decode(input).unwrap();
    assert!(input.is_empty());
    assert_eq!(trace.threads(), [0, 1, 2]);
    for (thread, tape) in (0u32..).zip(&tapes) {
        let mut references = trace.references(thread);
        let mut words = tape.words.iter();
        while let Some(&block) = words.next() {
            for reference in blocks.get(block as u32).unwrap() {
                let access = references.next().unwrap().unwrap();
                assert_eq!(Some(&access.address), words.next());
                assert_eq!((access.kind, access.pc), (reference.kind, reference.pc));
            }
        }
        assert_eq!(references.next(), None);
    }
}

#[test]
fn damaged_merged_traces_are_refused_or_end() {
    let mut memory = Memory::new(0);
    let at = [0; 3].map(|_| memory.allocate(8 * 30 * 30));
    let tapes = team(5, &mut memory, |tape, thread, stack| {
        matmul(tape, at, 12, share(12, 5, thread), stack);
    });
    let blocks = blocks(MATMUL);
    let merged = Merged::merge(&chunks(&tapes, &blocks, &memory));
    let (mut threads, mut ranks) = (Vec::new(), Vec::new());
    merged.encode(&mut threads);
    Processes::of(0, &merged).join(Processes::of(1, &merged)).encode(&mut ranks);
    let play = |merged: &Merged| {
        let Some(Ok(chunk)) = merged.chunk(3, &blocks) else { return };
        let mut player = Player::new(chunk);
        let mut places = Vec::new();
        for _ in 0..5000 {
            if !matches!(player.next_block(&mut places), Ok(Some(_))) {
                return;
            }
        }
    };
    for bit in 0..8 * threads.len() {
        let mut bytes = threads.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(merged) = Merged::decode(&mut &bytes[..]) {
            play(&merged);
            let _ = merged.structure_text(&blocks, &memory.segments.addresses(), &mut plain);
        }
        assert!(Merged::decode(&mut &threads[..bit / 8]).is_err());
    }
    for bit in 0..8 * ranks.len() {
        let mut bytes = ranks.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(processes) = Processes::decode(&mut &bytes[..])
            && let Ok(merged) = processes.process(1)
        {
            play(&merged);
        }
    }
}

#[test]
fn randomised_addresses_change_only_the_table() {
    let encoded = |shift: u64| {
        let mut memory = Memory::new(shift);
        let at = [0; 3].map(|_| memory.allocate(8 * 30 * 30));
        let tapes = team(3, &mut memory, |tape, thread, stack| {
            matmul(tape, at, 30, share(30, 3, thread), stack);
        });
        let mut bytes = Vec::new();
        Merged::merge(&chunks(&tapes, &blocks(MATMUL), &memory)).encode(&mut bytes);
        bytes
    };
    assert_eq!(encoded(0), encoded(0x7_1234_5000));
}

#[test]
fn the_structure_shows_loops_strides_and_threads() {
    let mut memory = Memory::new(0);
    let at = [0; 3].map(|_| memory.allocate(8 * 48 * 48));
    let tapes = team(5, &mut memory, |tape, thread, stack| {
        matmul(tape, at, 48, share(48, 5, thread), stack);
    });
    let blocks = blocks(MATMUL);
    let merged = Merged::merge(&chunks(&tapes, &blocks, &memory));
    let text = merged.structure_text(&blocks, &memory.segments.addresses(), &mut plain).unwrap();
    println!("{text}");
    assert!(text.contains("threads <0,5,1>"));
    assert!(text.contains("loop 48 times"));
    assert!(text.contains("[+384, +0, +8]"), "{text}");
    assert!(text.contains("+384 * b3"), "{text}");
    assert!(text.contains("load 8 own stack + 0xfffc0, of thread 0 stack of 0"), "{text}");
}

/// As in OpenMP: the first thread also initialises and reduces, and has other call paths.
#[test]
fn the_first_thread_is_aligned_with_its_team_where_both_execute_the_same() {
    const TABLE: &[&str] = &["L", "", "LL", "S", "S", "SS", "L", "", ""];
    let mut memory = Memory::new(0);
    let at = [0; 3].map(|_| memory.allocate(8 * 48 * 48));
    let tapes = team(8, &mut memory, |tape, thread, stack| {
        if thread == 0 {
            (0..48).for_each(|i| tape.run(5, &[at[0] + 8 * i, at[1] + 8 * i]));
        }
        tape.run(if thread == 0 { 7 } else { 8 }, &[]);
        matmul(tape, at, 48, share(48, 8, thread), stack - if thread == 0 { 4096 } else { 64 });
        if thread == 0 {
            (0..48).for_each(|i| tape.run(6, &[at[2] + 8 * i]));
        }
    });
    let (_, groups) = merged(&tapes, TABLE, &memory);
    assert_eq!(groups, ["0", "0-7"]);
    let blocks = blocks(TABLE);
    let merged = Merged::merge(&chunks(&tapes, &blocks, &memory));
    let text = merged.structure_text(&blocks, &memory.segments.addresses(), &mut plain).unwrap();
    assert!(text.contains("threads <0,8,1>, part 1"), "{text}");
    assert!(text.contains("where threads <1,7,1> are block 8, not block 7"), "{text}");
}
