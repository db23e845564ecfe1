//! Sharing between threads, decided on sections, against every reference.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use refrain_cache::sections;
use refrain_cache::sharing::{Remedy, sharing};
use refrain_memory::{Kind, Trace};

use crate::exact::{BLOCKS, Program, trace};
use crate::kernels::*;

/// The uses of a line: by thread and reference, the bytes, and whether they are written.
type Uses = BTreeMap<(u32, u64), (BTreeSet<u64>, bool)>;

/// By line: whether it is shared falsely and truly, from every reference.
fn naive(trace: &Trace, line: u64) -> BTreeMap<u64, (bool, bool)> {
    let mut lines: BTreeMap<u64, Uses> = BTreeMap::new();
    for thread in trace.threads() {
        for access in trace.references(thread).map(Result::unwrap) {
            for byte in access.address..access.address + u64::from(access.size) {
                let of_line = lines.entry(byte / line).or_default();
                let (bytes, is_store) = of_line.entry((thread, access.pc)).or_default();
                bytes.insert(byte);
                *is_store |= access.kind != Kind::Load;
            }
        }
    }
    let decide = |uses: &Uses| {
        let written = |thread: u32| -> BTreeSet<u64> {
            let own = uses.iter().filter(|((other, _), (_, store))| *other == thread && *store);
            own.flat_map(|(_, (bytes, _))| bytes.iter().copied()).collect()
        };
        let mut kinds = (false, false);
        for ((thread, _), (bytes, _)) in uses {
            for other in trace.threads().into_iter().filter(|other| other != thread) {
                let written = written(other);
                kinds.0 |= !written.is_empty() && written.is_disjoint(bytes);
                kinds.1 |= !written.is_disjoint(bytes);
            }
        }
        kinds
    };
    lines.iter().map(|(line, uses)| (*line, decide(uses))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn sections_have_all_accesses(seed: u64) {
        let mut memory = Memory::new(0);
        let arrays = [20_000, 50_000].map(|bytes| memory.allocate(bytes));
        let mut program = Program::new(seed, &arrays, BLOCKS, 64);
        program.run();
        let trace = trace(&[&program.tape.words], &blocks(BLOCKS), &memory.segments, 1 << 20);
        let mut expected: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for access in trace.references(0).map(Result::unwrap) {
            *expected.entry((access.pc, access.address)).or_insert(0) += 1;
        }
        let mut found: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for section in sections(&trace, 0).unwrap() {
            let pc = trace.blocks.get(section.block).unwrap()[section.reference as usize].pc;
            let mut addresses = vec![section.address];
            for (stride, count) in &section.loops {
                let shift = |address: &u64, i: u64| address.wrapping_add_signed(stride * i as i64);
                addresses = (0..*count)
                    .flat_map(|i| addresses.iter().map(move |address| shift(address, i)))
                    .collect();
            }
            prop_assert_eq!(addresses.len() as u64, section.accesses());
            for address in addresses {
                *found.entry((pc, address)).or_insert(0) += 1;
            }
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn shared_lines_are_those_of_all_references(seed: u64, threads in 2u64..5) {
        let mut memory = Memory::new(0);
        let arrays = [3_000, 800].map(|bytes| memory.allocate(bytes));
        let tapes: Vec<Vec<u64>> = (0..threads)
            .map(|thread| {
                let mut program = Program::new(seed ^ thread, &arrays, BLOCKS, 64);
                program.limit = 1_000;
                program.run();
                program.tape.words
            })
            .collect();
        let tapes: Vec<&[u64]> = tapes.iter().map(Vec::as_slice).collect();
        let trace = trace(&tapes, &blocks(BLOCKS), &memory.segments, 1 << 20);
        let expected = naive(&trace, 64);
        let found = sharing(&trace, &trace.threads(), 64, 1).unwrap();
        for is_false in [true, false] {
            let count = found.iter().filter(|s| s.is_false == is_false).map(|s| s.lines).sum::<u64>();
            let expected = expected.values().filter(|(f, t)| if is_false { *f } else { *t });
            prop_assert_eq!(count, expected.count() as u64, "false: {}", is_false);
        }
    }
}

#[test]
fn counters_side_by_side_are_to_be_padded() {
    let mut memory = Memory::new(0);
    let counters = memory.allocate(4096) & !63;
    let tape = |thread: u64, stride: u64| {
        let mut tape = Tape::default();
        (0..1000).for_each(|_| tape.run(1, &[counters + 64 + stride * thread; 2]));
        tape.words
    };
    for (stride, expected) in [(8, Some(Remedy::Pad { from: 8, to: 64 })), (64, None)] {
        let tapes: Vec<Vec<u64>> = (0..4).map(|thread| tape(thread, stride)).collect();
        let tapes: Vec<&[u64]> = tapes.iter().map(Vec::as_slice).collect();
        let trace = trace(&tapes, &blocks(BLOCKS), &memory.segments, 1 << 20);
        let found = sharing(&trace, &[0, 1, 2, 3], 64, 100).unwrap();
        assert_eq!(found.first().map(|sharing| sharing.remedy), expected, "{found:?}");
        assert!(found.iter().all(|s| s.is_false && s.lines == 1 && s.threads.len() == 4));
    }
}
