//! A trace that the ranks merged themselves in `MPI_Finalize`.
//!
//! It is used if every rank's part says that merging succeeded, and no rank has called MPI since.

use crate::parts::{Part, State};
use refrain_format::record::{HEAD, Tag};
use refrain_reader::meta::Meta;
use refrain_signature::cells::Cells;
use refrain_structure::merged::Merged;
use refrain_structure::{read, transit};
use std::io::Read;
use std::path::Path;

/// The merged trace of a folder of parts, with calls counted in `meta`.
pub fn of(folder: &Path, parts: &[Part], meta: &mut Meta) -> Option<Merged> {
    if parts.is_empty() || !parts.iter().all(|part| part.merged) || !meta.lost.is_empty() {
        return None;
    }
    let processes = meta.processes();
    let by_rank = processes.iter().all(|p| meta.streams[p.streams[0]].rank == p.rank_index as i32);
    let size = meta.streams.first()?.size;
    if !by_rank || processes.len() as i64 != i64::from(size) {
        return None;
    }
    for process in &processes {
        let positions = State::positions_of(&parts[process.streams[0]])?;
        for stream in &process.streams {
            let part = &parts[*stream];
            let from = positions.get(&part.stream.thread).copied().unwrap_or(0);
            if calls_since(part, from)? {
                return None;
            }
        }
    }
    let mut merged = transit::from_bytes(&std::fs::read(folder.join("merged")).ok()?)?;
    let residues = std::fs::read(folder.join("merged.own")).unwrap_or_default();
    let mut cells = Cells::new(&residues);
    while !cells.is_empty() {
        let (rank, thread) = (cells.get_u32()?, cells.get_u32()?);
        let residue = read::residue(cells.get_bytes()?).ok()?;
        let mut groups = merged.groups.iter_mut();
        let group = groups.find(|g| g.thread == thread && g.ranks.contains(rank))?;
        // A rank's residue may be in several pieces: ranks that merged its trace wrote some of it.
        let all = group.residues.entry(rank).or_default();
        all.outcomes.extend(residue.outcomes);
        all.polls.extend(residue.polls);
    }
    for process in &processes {
        for stream in &process.streams {
            let thread = meta.streams[*stream].thread;
            let calls = merged.task(process.rank_index, thread).map(|task| task.calls());
            meta.streams[*stream].calls = calls.unwrap_or_default();
        }
    }
    Some(merged)
}

/// Whether a log has calls after a position.
fn calls_since(part: &Part, from: u64) -> Option<bool> {
    let mut rest = Vec::new();
    part.records(from).ok()?.read_to_end(&mut rest).ok()?;
    let mut at = rest.as_slice();
    while let Some(head) = at.first_chunk::<HEAD>() {
        match Tag::from_byte(head[2])? {
            Tag::End => break,
            Tag::Enter | Tag::EnterAt => return Some(true),
            _ => {}
        }
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        at = at.get(length.max(HEAD)..)?;
    }
    Some(false)
}
