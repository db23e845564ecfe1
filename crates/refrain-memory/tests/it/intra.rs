//! One thread's stream: decoding returns what was compressed, and regular kernels take few bytes.

use crate::kernels::*;
use refrain_memory::{Blocks, Compressor, Finished, Player, Records, SegmentKind, Segments};

/// Compresses a tape, checks that decoding returns it, and returns the size.
fn size(tape: &Tape<'_>, blocks: &Blocks, segments: &Segments) -> usize {
    let mut compressor = Compressor::new();
    let mut at = 0;
    // In pieces of odd sizes, as a ring delivers them.
    for piece in (1..).map(|i| 7 + 13 * (i % 101)) {
        let end = tape.words.len().min(at + piece);
        at += compressor.push_words(&tape.words[at..end], blocks, segments).unwrap();
        if end == tape.words.len() {
            break;
        }
    }
    assert_eq!(at, tape.words.len());
    let (sealed, last) = compressor.finish(blocks);
    let chunks: Vec<Vec<u8>> = sealed.into_iter().chain([last.to_bytes()]).collect();
    let mut addresses = segments.addresses();
    let mut words = tape.words.iter();
    let mut places = Vec::new();
    let mut count = 0;
    for bytes in &chunks {
        let mut records = Records::of(bytes, blocks, None).unwrap();
        while let Some(block) = records.next_block(&mut places, blocks).unwrap() {
            assert_eq!(words.next(), Some(&u64::from(block)), "block {count}");
            for &place in &places {
                assert_eq!(words.next(), Some(&addresses.address(place)), "block {count}");
            }
            count += 1;
        }
    }
    assert_eq!(words.next(), None);
    chunks.iter().map(Vec::len).sum()
}

#[test]
fn regular_kernels_take_the_same_at_every_size() {
    let sizes = |kernel: &dyn Fn(u64) -> usize, ns: &[u64]| -> Vec<usize> {
        ns.iter().map(|&n| kernel(n)).collect()
    };
    let check = |name: &str, sizes: Vec<usize>, most: usize| {
        println!("{name}: {sizes:?}");
        let (least, largest) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(*largest <= most && largest - least <= 16, "{name}: {sizes:?}");
    };
    let arrays = |n: u64| {
        let mut memory = Memory::new(0);
        let at = [0; 3].map(|_| memory.allocate(8 * n));
        (memory, at)
    };
    let run = |n, table: &[&str], kernel: &dyn Fn(&mut Tape<'_>, [u64; 3], u64)| {
        let (mut memory, at) = arrays(n);
        let stack = memory.stack(0);
        let mut tape = Tape::default();
        kernel(&mut tape, at, stack);
        size(&tape, &blocks(table), &memory.segments)
    };
    let ns = [48, 100, 150];
    check(
        "vector add",
        sizes(&|n| run(n * n, VECTOR_ADD, &|t, at, _| vector_add(t, at, 0..n * n)), &ns),
        100,
    );
    check(
        "matmul",
        sizes(&|n| run(n * n, MATMUL, &|t, at, s| matmul(t, at, n, 0..n, s)), &ns),
        200,
    );
    check(
        "matmul, bare",
        sizes(&|n| run(n * n, MATMUL_BARE, &|t, at, _| matmul_bare(t, at, n, 0..n)), &ns),
        200,
    );
    check(
        "jacobi",
        sizes(&|n| run(n * n, JACOBI, &|t, [a, b, _], _| jacobi(t, [a, b], n, 0..n, 10)), &ns),
        300,
    );
    check(
        "triangular",
        sizes(&|n| run(8 * n * n, TRIANGULAR, &|t, at, _| triangular(t, at, n, 0..8)), &ns),
        400,
    );
    check("lu", sizes(&|n| run(n * n, LU, &|t, [a, ..], _| lu(t, a, n)), &ns), 500);
    check(
        "unoptimised",
        sizes(&|n| run(n * n, UNOPTIMISED, &|t, [a, ..], s| unoptimised(t, a, n, n, s)), &ns),
        300,
    );
    check(
        "tiled",
        sizes(&|n| run(n * n, TILED, &|t, [a, b, _], _| tiled(t, a, b, n, 13)), &ns),
        500,
    );
}

#[test]
fn fft_takes_a_little_for_each_stage() {
    for log in [6, 10, 14] {
        let mut memory = Memory::new(0);
        let (data, twiddles) = (memory.allocate(16 << log), memory.allocate(16 << log));
        let mut tape = Tape::default();
        fft(&mut tape, data, twiddles, log);
        let size = size(&tape, &blocks(FFT), &memory.segments);
        println!("fft 2^{log}: {size}");
        assert!(size < 60 * log as usize);
    }
}

#[test]
fn sorts_are_decoded_as_they_were_compressed() {
    for n in [100, 1000, 10_000, 100_000] {
        let mut memory = Memory::new(0);
        let (a, b) = (memory.allocate(8 * n), memory.allocate(8 * n));
        let stack = memory.stack(0);
        let mut dice = Dice(77);
        let data: Vec<u64> = (0..n).map(|_| dice.below(1 << 31)).collect();
        let mut tape = Tape::default();
        mergesort(&mut tape, a, b, &mut data.clone());
        println!("mergesort {n}: {}", size(&tape, &blocks(SORT), &memory.segments));
        let mut tape = Tape::default();
        quicksort(&mut tape, a, &mut data.clone(), 0, stack);
        println!("quicksort {n}: {}", size(&tape, &blocks(SORT), &memory.segments));
    }
}

/// `zstd -3` of records of sixteen bytes: address, program counter, kind and size.
fn packed_raw(tape: &Tape<'_>, blocks: &Blocks) -> usize {
    let mut raw = Vec::new();
    let mut words = tape.words.iter();
    while let Some(&block) = words.next() {
        for reference in blocks.get(block as u32).unwrap() {
            raw.extend(words.next().unwrap().to_le_bytes());
            raw.extend((reference.pc as u32).to_le_bytes());
            raw.extend([reference.kind as u8, reference.size as u8, 0, 0]);
        }
    }
    zstd::bulk::compress(&raw, 3).unwrap().len()
}

#[test]
fn irregular_kernels_are_much_smaller_than_packed_records() {
    let mut memory = Memory::new(0);
    let at = [0; 5].map(|_| memory.allocate(8 << 18));
    let stack = memory.stack(0);
    let mut dice = Dice(12345);
    let matrix = Sparse::unstructured(10_000, 3, 25, 500, &mut dice);
    let levels: Vec<(Sparse, [u64; 5])> = (0..4)
        .map(|level| {
            let rows = 4_000 >> (2 * level);
            (Sparse::unstructured(rows, 3, 10 + 5 * level, rows / 10 + 20, &mut dice), at)
        })
        .collect();
    let numbers: Vec<u64> = (0..20_000).map(|_| dice.below(1 << 31)).collect();
    let mut nodes: Vec<u64> = (0..20_000).map(|i| at[0] + 48 * i).collect();
    (1..nodes.len()).for_each(|i| nodes.swap(i, dice.below(i as u64 + 1) as usize));
    let check = |name: &str, table: &[&str], least: f64, kernel: &mut dyn FnMut(&mut Tape<'_>)| {
        let mut tape = Tape::default();
        kernel(&mut tape);
        let blocks = blocks(table);
        let (size, packed) = (size(&tape, &blocks, &memory.segments), packed_raw(&tape, &blocks));
        let ratio = packed as f64 / size as f64;
        println!("{name}: {size} bytes, {ratio:.1} times smaller");
        assert!(ratio >= least, "{name}: {size} bytes, {ratio:.1} times smaller");
    };
    check("spmv", SPMV, 4.0, &mut |tape| spmv(tape, &matrix, at, 0..matrix.rows()));
    check("amg", SPMV, 4.0, &mut |tape| amg(tape, &levels, 3, (1, 0)));
    let [a, b, ..] = at;
    check("quicksort", SORT, 1.5, &mut |t| quicksort(t, a, &mut numbers.clone(), 0, stack));
    check("mergesort", SORT, 1.5, &mut |t| mergesort(t, a, b, &mut numbers.clone()));
    check("list", LIST, 1.1, &mut |t| list(t, &nodes, at[2]));
    check("histogram", HISTOGRAM, 1.5, &mut |t| histogram(t, a, b, 0..50_000, &mut Dice(5)));
}

#[test]
fn a_snapshot_is_decoded_as_it_was_compressed_and_does_not_grow() {
    let mut memory = Memory::new(0);
    let at = [0; 3].map(|_| memory.allocate(8 * 200 * 200));
    let stack = memory.stack(0);
    let mut tape = Tape::default();
    matmul(&mut tape, at, 100, 0..100, stack);
    let blocks = blocks(MATMUL);
    let mut compressor = Compressor::new();
    let mut addresses = memory.segments.addresses();
    let mut sizes = Vec::new();
    let mut at = 0;
    for cut in (1..=8).map(|part| tape.words.len() * part / 8) {
        at += compressor.push_words(&tape.words[at..cut], &blocks, &memory.segments).unwrap();
        let bytes = compressor.open_chunk(&blocks).to_bytes();
        sizes.push(bytes.len());
        let mut player = Player::new(Finished::decode(&mut &bytes[..], &blocks).unwrap());
        let (mut words, mut places) = (0, Vec::new());
        while let Some(block) = player.next_block(&mut places).unwrap() {
            assert_eq!(tape.words[words], u64::from(block));
            for (i, &place) in places.iter().enumerate() {
                assert_eq!(tape.words[words + 1 + i], addresses.address(place));
            }
            words += 1 + places.len();
        }
        assert_eq!(words, at);
    }
    assert!(sizes.iter().all(|&size| size < 300), "{sizes:?}");
}

#[test]
fn any_stream_of_signatures_and_values_can_be_compressed() {
    let mut table = Blocks::new();
    let mut signatures = refrain_memory::Signatures::default();
    let segments = Segments::identity();
    let mut compressor = Compressor::new();
    let mut stream = Vec::new();
    for i in 0..50u64 {
        for j in 0..100u64 {
            stream.push((0xabc, i * 1000 + j));
            stream.push((0xdef, 7));
        }
        stream.push((0x123, i));
    }
    for &(signature, value) in &stream {
        let block = signatures.block(&mut table, signature, 8).unwrap();
        compressor.push(block, &[value], &table, &segments).unwrap();
    }
    let (_, chunk) = compressor.finish(&table);
    assert!(chunk.to_bytes().len() < 100);
    let mut player = Player::new(chunk.finish());
    let mut places = Vec::new();
    for &(signature, value) in &stream {
        let block = player.next_block(&mut places).unwrap().unwrap();
        assert_eq!((table.get(block).unwrap()[0].pc, &places[..]), (signature, &[value][..]));
    }
    assert_eq!(player.next_block(&mut places), Ok(None));
}

#[test]
fn walks_across_segments_and_reused_memory_are_decoded() {
    let table = blocks(&["L", "LS"]);
    let mut segments = Segments::new();
    let mut compressor = Compressor::new();
    let mut expected = Vec::new();
    let mut run = |segments: &Segments, record: &[u64]| {
        expected.extend_from_slice(record);
        compressor.push_words(record, &table, segments).unwrap();
    };
    // First no segment is known; then there are segments with gaps between them; then one replaces another.
    for round in 0..6u64 {
        match round {
            1 => (0..5)
                .for_each(|i| segments.begin(SegmentKind::Heap, 0, 0x10000 + 0x400 * i, 0x300)),
            3 => segments.end(0x10400),
            4 => segments.begin(SegmentKind::Heap, 1, 0x10380, 0x200),
            _ => {}
        }
        let mut words = Vec::new();
        for i in 0..800 {
            words.extend([0, 0x10000 + 8 * i]);
        }
        for i in (0..500).rev() {
            words.extend([1, 0x10000 + 16 * i, 0xffff_ffff_ff60_0000 + 8 * i]);
        }
        run(&segments, &words);
    }
    let (sealed, chunk) = compressor.finish(&table);
    assert!(sealed.is_empty());
    let mut player = Player::new(chunk.finish());
    let mut addresses = segments.addresses();
    let (mut words, mut places) = (Vec::new(), Vec::new());
    while let Some(block) = player.next_block(&mut places).unwrap() {
        words.push(u64::from(block));
        words.extend(places.iter().map(|&place| addresses.address(place)));
    }
    assert!(words == expected);
}

/// Random walks over nodes, a long regular loop, random walks: the walks are coded, the loop is a nest.
#[test]
fn a_stream_that_is_irregular_twice_and_regular_between_is_small_and_decoded() {
    let table = blocks(&["ll", "lls"]);
    let (walk, copy) = (0, 1);
    let mut state = 7u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % below
    };
    let nodes: Vec<u64> = (0..4096).map(|_| 0x10_0000 + 48 * random(1 << 20)).collect();
    let mut words = Vec::new();
    let mut irregular = |words: &mut Vec<u64>| {
        for _ in 0..3_000_000 / 3 {
            let node = nodes[random(4096) as usize];
            words.extend([walk, node, node + 16]);
        }
    };
    irregular(&mut words);
    for i in 0..6_000_000u64 {
        words.extend([copy, 0x9000_0000 + 8 * i, 0xa000_0000 + 8 * i, 0xb000_0000 + 8 * i]);
    }
    irregular(&mut words);
    let segments = Segments::identity();
    let mut compressor = Compressor::new();
    let (mut at, mut end) = (0, 0);
    while at < words.len() {
        // Pieces end within records.
        end = words.len().min(end + 65_537);
        at += compressor.push_words(&words[at..end], &table, &segments).unwrap();
    }
    let (sealed, last) = compressor.finish(&table);
    let chunks: Vec<Vec<u8>> = sealed.into_iter().chain([last.to_bytes()]).collect();
    let coded = chunks.iter().filter(|bytes| refrain_memory::irregular::Reader::is_coded(bytes));
    assert!(coded.count() >= 2);
    let mut expected = words.iter().copied();
    let mut logical = Vec::new();
    for bytes in &chunks {
        let mut records = Records::of(bytes, &table, None).unwrap();
        while let Some(block) = records.next_block(&mut logical, &table).unwrap() {
            assert_eq!(expected.next(), Some(u64::from(block)));
            assert!(logical.iter().all(|address| expected.next() == Some(*address)));
        }
    }
    assert_eq!(expected.next(), None);
    // A node is one of 4,096: twelve bits, and little else.
    let size: usize = chunks.iter().map(Vec::len).sum();
    assert!(size < 2_000_000 * 2, "{size} bytes");
}
