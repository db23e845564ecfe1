//! The state of a compressor survives a round trip through its bytes; damaged bytes are refused or harmless.

use proptest::prelude::*;
use refrain_memory::{Blocks, Compressor, Kind, Merged, Reference};
use refrain_memrecord::state::State;
use refrain_memrecord::tables::Tables;
use refrain_memtrace::code::{Code, Context, Module};
use refrain_memtrace::process::{Ended, ProcessFacts};
use refrain_memtrace::trace::Facts;
use refrain_rings::record::{NO_CONTEXT, Record, Reference as LedgerReference, pc};
use std::path::Path;

/// The state of a process that executes a loop over two blocks.
fn state(tables: &Tables) -> State {
    let (code, numbers) = tables.code.canonical();
    let mut compressor = Compressor::new();
    for i in 0..100 {
        for block in 1..tables.code.blocks.len() as u32 {
            let references = tables.code.blocks.get(block).unwrap().len() as u64;
            let addresses: Vec<u64> = (0..references).map(|r| 0x10_0000 + 64 * r + 8 * i).collect();
            let (blocks, segments) = (&tables.code.blocks, &tables.segments);
            compressor.push(block, &addresses, blocks, segments).unwrap();
        }
    }
    let chunk = compressor.finish(&tables.code.blocks).1;
    let chunk = chunk.renumbered(&numbers, &code.blocks).unwrap();
    let facts = ProcessFacts {
        rank: Some(3),
        pid: 77,
        host: "here".into(),
        program: "/bin/app".into(),
        time: (5, 9),
        ended: Ended::Died,
        threads: 1,
        references: 1234,
        ..ProcessFacts::default()
    };
    let merged = Merged::merge(&[(0, chunk)]);
    let (segments, open_coded) = (tables.segments.clone(), vec![0, 3, 0x49, 0, 0]);
    State { facts, code, segments, merged, sealed: 0, open_coded, numbers }
}

/// Tables of a process that executed blocks first in this order. A block is given by its number of references.
fn tables(order: &[u64]) -> Tables {
    let mut tables = Tables::default();
    let path = b"/bin/app";
    let module =
        Record::Module { module: 1, is_main: true, base: 0, size: 1, path, build_id: b"id" };
    tables.apply(&module).unwrap();
    let root = Record::Context { block: 0, parent: NO_CONTEXT, call: 0, function: 0 };
    tables.apply(&root).unwrap();
    for (block, which) in (1u32..).zip(order) {
        let told =
            |r: u64| LedgerReference { pc: pc(1, 100 * which + r), size: 8, kind: (r % 2) as u32 };
        let references: Vec<u8> = (0..1 + which % 3).flat_map(|r| told(r).to_bytes()).collect();
        tables.apply(&Record::Block { block, references: &references }).unwrap();
    }
    let segment = Record::Segment { kind: 1, owner: 0, base: 0x10_0000, size: 4096 };
    tables.apply(&segment).unwrap();
    tables
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_first_executions_of_blocks_does_not_matter(
        order in Just((1..9u64).collect::<Vec<_>>()).prop_shuffle(),
        left_out in prop::collection::btree_set(1..9u64, 0..4),
    ) {
        let sorted: Vec<u64> = (1..9).collect();
        let (whole, _) = tables(&sorted).code.canonical();
        let (other, numbers) = tables(&order).code.canonical();
        prop_assert_eq!(&other, &whole);
        // Every block is found by its new number.
        let met = tables(&order).code;
        for (old, new) in (0..).zip(&numbers) {
            prop_assert_eq!(met.blocks.get(old), whole.blocks.get(*new));
        }
        // A process that did not meet all of them has the same numbers in the union.
        let some: Vec<u64> = order.iter().copied().filter(|b| !left_out.contains(b)).collect();
        let some = tables(&some).code;
        let (union, numbers) = Code::union(&[&some, &met]);
        prop_assert_eq!(&union, &whole);
        for (old, new) in (0..).zip(&numbers[0]) {
            prop_assert_eq!(some.blocks.get(old), union.blocks.get(*new));
        }
    }

    #[test]
    fn damaged_states_are_refused_or_harmless(at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = state(&tables(&[3, 1, 2])).to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let _ = State::from_bytes(&bytes);
        prop_assert!(State::from_bytes(&bytes[..at]).is_err());
    }
}

#[test]
fn a_redacted_state_has_neither_host_nor_folders() {
    let folder = Path::new("/secret/run.refrain.parts");
    let mut state = state(&tables(&[1, 2]));
    state.facts.host = "secret-host".into();
    state.facts.program = "/secret/bin/app".into();
    state.facts.lost =
        "cannot write /secret/run.refrain.parts/0.1.0.sealed: the disk is full".into();
    let (path, build_id) = ("/secret/lib/libx.so".to_owned(), vec![1, 2]);
    state.code.modules.insert(0, Module { path, build_id: build_id.clone(), is_main: true });
    state.redact(folder);
    assert!(!format!("{state:?}").contains("secret"), "{state:?}");
    assert_eq!(state.facts.program, "app");
    assert_eq!(state.facts.lost, "cannot write 0.1.0.sealed: the disk is full");
    let module = &state.code.modules[&0];
    assert_eq!((module.path.as_str(), &module.build_id), ("libx.so", &build_id));
}

#[test]
fn a_state_comes_back() {
    let tables = tables(&[5, 1, 4]);
    let state = state(&tables);
    let back = State::from_bytes(&state.to_bytes()).unwrap();
    assert_eq!((&back.facts, &back.code), (&state.facts, &state.code));
    assert_eq!((&back.merged, &back.numbers), (&state.merged, &state.numbers));
    assert_eq!(back.open_coded, state.open_coded);
    assert_eq!(back.to_bytes(), state.to_bytes());
}

#[test]
fn renumbering_a_merged_trace_is_renumbering_its_chunks() {
    let state = state(&tables(&[5, 1, 4]));
    let all = tables(&[6, 5, 4, 3, 2, 1]);
    let (union, numbers) = Code::union(&[&state.code, &all.code]);
    let merged = state.merged.renumbered(&numbers[0], &state.code.blocks).unwrap();
    let chunk = |merged: &Merged, blocks: &Blocks| {
        let mut player = refrain_memory::Player::new(merged.chunk(0, blocks).unwrap().unwrap());
        let (mut all, mut places) = (Vec::new(), Vec::new());
        while let Some(block) = player.next_block(&mut places).unwrap() {
            all.push((blocks.get(block).unwrap().to_vec(), places.clone()));
        }
        all
    };
    let before: Vec<(Vec<Reference>, Vec<u64>)> = chunk(&state.merged, &state.code.blocks);
    assert_eq!(chunk(&merged, &union.blocks), before);
    assert_eq!(before.len(), 300);
}

#[test]
fn facts_come_back() {
    let facts = Facts {
        refrain: "1".into(),
        command: vec!["a".into(), "b c".into()],
        exit_code: Some(137),
        selected: vec!["--from f".into()],
        lost: vec!["x".into()],
        codes: 1,
        processes: vec![ProcessFacts {
            threads: 4,
            references: 99,
            stages: (1_500_000, 7),
            ..ProcessFacts::default()
        }],
        merging: 250_000,
    };
    assert_eq!(Facts::from_bytes(&facts.to_bytes()).unwrap(), facts);
    for end in 0..facts.to_bytes().len() {
        assert!(Facts::from_bytes(&facts.to_bytes()[..end]).is_err());
    }
}

#[test]
fn only_segments_that_overlap_others_are_delayed() {
    let mut tables = Tables::default();
    let segment = |base, size| Record::Segment { kind: 1, owner: 0, base, size };
    assert!(!tables.replaces_segment(&segment(100, 50)));
    tables.apply(&segment(100, 50)).unwrap();
    assert!(!tables.replaces_segment(&segment(100, 50)), "the same segment again");
    assert!(
        !tables.replaces_segment(&segment(150, 50)) && !tables.replaces_segment(&segment(50, 50))
    );
    assert!(
        tables.replaces_segment(&segment(100, 51)) && tables.replaces_segment(&segment(149, 1))
    );
    assert!(tables.replaces_segment(&segment(0, 101)));
}

#[test]
fn decoding_ends_if_damaged_contexts_form_a_cycle() {
    let mut code = Code::default();
    code.modules.insert(1, Module::default());
    for block in 0..2u32 {
        code.blocks.add(Vec::new());
        let parent = Some(1 - block);
        code.contexts.insert(block, Context { parent, call: 1, function: 2 });
    }
    code.blocks.add(vec![Reference { kind: Kind::Load, size: 1, pc: 3 }]);
    assert_eq!(code.canonical().0.blocks.len(), 3);
}
