//! Input: the sections of a memory trace (code, segments, threads), each preceded by its length (`u16`). The target
//! decodes some references of each thread, and prints the structure. It also decodes the same bytes as the state
//! of a compressor.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain_memory::{Processes, Segments, Trace};
use refrain_memrecord::state::State;
use refrain_memtrace::code::Code;

/// How many references of each thread are decoded.
const REFERENCES: usize = 2000;
const THREADS: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let _ = sections(bytes);
    if let Ok(state) = State::from_bytes(bytes) {
        let again = State::from_bytes(&state.to_bytes()).expect("what was written can be read");
        assert_eq!(again.facts, state.facts);
        play(state.code, state.segments, state.merged);
    }
});

fn sections(mut bytes: &[u8]) -> Option<()> {
    let mut section = || {
        let (length, rest) = bytes.split_first_chunk()?;
        let (section, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        bytes = rest;
        Some(section)
    };
    let code = Code::decode(&mut section()?).ok()?;
    let segments = Segments::decode(&mut section()?).ok()?;
    let processes = Processes::decode(&mut section()?).ok()?;
    let ranks = processes.groups().iter().filter_map(|group| group.ranks.first());
    for rank in ranks.take(THREADS) {
        if let Ok(merged) = processes.process(rank) {
            play(code.clone(), segments.clone(), merged);
        }
    }
    Some(())
}

fn play(code: Code, segments: Segments, merged: refrain_memory::Merged) {
    let addresses = segments.addresses();
    let _ = merged.structure_text(&code.blocks, &addresses, &mut |name| format!("{name:?}"));
    let trace = Trace { blocks: code.blocks, segments, merged, ..Trace::default() };
    for thread in trace.threads().into_iter().take(THREADS) {
        let _ = trace.references(thread).take(REFERENCES).count();
    }
}
