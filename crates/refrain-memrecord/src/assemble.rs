//! Makes one trace of the parts of all processes.

use crate::part::PartFiles;
use crate::state::State;
use refrain_bytes::varint::{put, put_bytes};
use refrain_container::{Codec, Writer};
use refrain_memory::Processes;
use refrain_memtrace::TraceError;
use refrain_memtrace::code::Code;
use refrain_memtrace::error::within;
use refrain_memtrace::process::{ProcessFacts, encode_numbers};
use refrain_memtrace::sections;
use refrain_memtrace::trace::Facts;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

/// Larger sections are packed with a faster setting.
const LARGE: usize = 1 << 17;

/// Reads the parts of a folder and writes a trace. Returns the trace's facts and its size. See `sort` for how
/// processes are numbered.
pub fn assemble(
    folder: &Path,
    output: &Path,
    mut facts: Facts,
) -> Result<(Facts, u64), TraceError> {
    let mut processes = Vec::new();
    for files in PartFiles::all(folder)? {
        match std::fs::read(files.state()).map_err(Into::into).and_then(|b| State::from_bytes(&b)) {
            Ok(state) => match missing_chunks(&files, &state) {
                0 => processes.push((files, state)),
                missing => facts.lost.push(format!(
                    "process {} is left out: {}.sealed lacks {missing} of {} bytes",
                    state.facts.pid,
                    files.name(),
                    state.sealed
                )),
            },
            Err(error) => facts.lost.push(format!("{}.memory: {error}", files.name())),
        }
    }
    if let Ok(problems) = std::fs::read_to_string(folder.join("problems")) {
        facts.lost.extend(problems.lines().map(str::to_owned));
    }
    sort(&mut processes);
    let began = Instant::now();
    share_code(&mut processes)?;
    let mut threads = Vec::new();
    merge(&processes).encode(&mut threads);
    facts.merging = began.elapsed().as_micros() as u64;
    let mut writer = Writer::create(output)?;
    let codes = distinct_codes(&processes);
    facts.codes = codes.iter().flat_map(|(_, users)| users.iter().copied()).count() as u64;
    facts.processes = processes.iter().map(|(_, state)| state.facts.clone()).collect();
    writer.add_bytes(sections::MEMORY, &facts.to_bytes())?;
    let mut code = Vec::new();
    put(&mut code, codes.len() as u64);
    for (bytes, users) in &codes {
        put(&mut code, users.len() as u64);
        users.iter().for_each(|user| put(&mut code, u64::from(*user)));
        put_bytes(&mut code, bytes);
    }
    writer.add_bytes(sections::CODE, &code)?;
    match threads.len() {
        ..LARGE => writer.add_bytes(sections::THREADS, &threads)?,
        // Most of a large section is irregular streams, which are already packed.
        _ => writer.add(sections::THREADS, Codec::Zstd, &mut &threads[..])?,
    }
    for (number, (files, state)) in processes.iter().enumerate() {
        let mut segments = Vec::new();
        state.segments.encode(&mut segments);
        writer.add_bytes(&format!("{}{number}", sections::SEGMENTS), &segments)?;
        write_sealed(&mut writer, number, files, state)?;
        let raw = File::open(files.raw());
        if state.has_chunks() || raw.is_ok() {
            let mut numbers = Vec::new();
            encode_numbers(&state.numbers, &mut numbers);
            writer.add_bytes(&format!("{}{number}", sections::NUMBERS), &numbers)?;
        }
        if let Ok(mut raw) = raw {
            writer.add(&format!("{}{number}", sections::RAW), Codec::Zstd, &mut raw)?;
        }
    }
    let bytes = writer.finish()?;
    Ok((facts, bytes))
}

/// How many bytes of sealed chunks the state counts and the file does not have. The file is complete unless
/// somebody has changed the folder.
fn missing_chunks(files: &PartFiles, state: &State) -> u64 {
    let there = std::fs::metadata(files.sealed()).map_or(0, |metadata| metadata.len());
    state.sealed.saturating_sub(there)
}

/// Sorts the first process of each rank to the front, by rank, so that process numbers equal ranks. Processes
/// that these have started follow.
fn sort(processes: &mut [(PartFiles, State)]) {
    let age = |facts: &ProcessFacts| (facts.time.0, facts.pid, facts.image);
    let mut firsts = BTreeMap::new();
    for (_, state) in processes.iter() {
        let first = firsts.entry(state.facts.rank).or_insert_with(|| age(&state.facts));
        *first = (*first).min(age(&state.facts));
    }
    processes.sort_by_key(|(_, state)| {
        let is_later = firsts.get(&state.facts.rank) != Some(&age(&state.facts));
        (is_later, state.facts.rank.unwrap_or(u32::MAX), age(&state.facts))
    });
}

/// Gives blocks the same numbers in all processes of the same program. Without this they differ, because a
/// process may execute code that others do not.
fn share_code(processes: &mut [(PartFiles, State)]) -> Result<(), TraceError> {
    let mut alike: Vec<Vec<usize>> = Vec::new();
    for (at, (_, state)) in processes.iter().enumerate() {
        let modules = &state.code.modules;
        let is_alike = |group: &&mut Vec<usize>| {
            let others = &processes[group[0]].1.code.modules;
            modules.iter().all(|(n, module)| others.get(n).is_none_or(|other| other == module))
        };
        match alike.iter_mut().find(is_alike) {
            Some(group) => group.push(at),
            None => alike.push(vec![at]),
        }
    }
    for group in alike {
        let codes: Vec<&Code> = group.iter().map(|at| &processes[*at].1.code).collect();
        let (union, numbers) = Code::union(&codes);
        for (at, numbers) in group.into_iter().zip(numbers) {
            let state = &mut processes[at].1;
            let renumbered = state.merged.renumbered(&numbers, &state.code.blocks);
            state.merged = within(sections::THREADS, renumbered)?;
            let last = numbers.len().saturating_sub(1);
            for number in &mut state.numbers {
                *number = numbers.get((*number as usize).min(last)).copied().unwrap_or(0);
            }
            state.code = union.clone();
        }
    }
    Ok(())
}

/// The different codes, as bytes, each with the processes that have it. Processes of the same program usually
/// have the same code.
fn distinct_codes(processes: &[(PartFiles, State)]) -> Vec<(Vec<u8>, Vec<u32>)> {
    let mut codes: Vec<(Vec<u8>, Vec<u32>)> = Vec::new();
    let mut known = BTreeMap::new();
    for (number, (_, state)) in (0u32..).zip(processes) {
        let mut bytes = Vec::new();
        state.code.encode(&mut bytes);
        let at = *known.entry(bytes.clone()).or_insert_with(|| {
            codes.push((bytes, Vec::new()));
            codes.len() - 1
        });
        codes[at].1.push(number);
    }
    codes
}

/// Joins processes in a binary tree (ScalaMemTrace §2.3).
fn merge(processes: &[(PartFiles, State)]) -> Processes {
    let all = (0u32..).zip(processes);
    let all = all.map(|(number, (_, state))| Processes::of(number, &state.merged));
    Processes::join_all(all)
}

fn write_sealed(
    writer: &mut Writer,
    number: usize,
    files: &PartFiles,
    state: &State,
) -> Result<(), TraceError> {
    if !state.has_chunks() {
        return Ok(());
    }
    let bytes = std::fs::read(files.sealed())?;
    // Chunks that were sealed after the state was written are left out: the state's open chunks include them.
    let counted = bytes.get(..state.sealed as usize).ok_or(TraceError::Short)?;
    let mut chunks = counted.chain(&state.open_coded[..]);
    writer.add(&format!("{}{number}", sections::SEALED), Codec::Stored, &mut chunks)?;
    Ok(())
}
