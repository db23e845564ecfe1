//! Any bytes as a structure, as its statistics, or as the residue of a rank; the tasks in it are decoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain_mpi::abi::Family;
use refrain_reader::view::SingleTask;
use refrain_structure::{read, times, write};

fuzz_target!(|bytes: &[u8]| {
    let residue = read::residue(bytes);
    let Ok(merged) = read::structure_of_rows(bytes, 4096) else { return };
    let _ = times::read(&merged, bytes);
    for group in &merged.groups {
        for rank in group.ranks.iter().take(3) {
            let Some(mut task) = merged.task(rank, group.thread) else { continue };
            for (signature, outcomes) in residue.iter().flat_map(|residue| &residue.outcomes) {
                if let Some(signature) = task.signatures.get_mut(*signature as usize) {
                    signature.varying = Some(outcomes.clone());
                }
            }
            for (signature, calls) in task.signatures.iter().zip(task.occurrences()) {
                signature.varying.as_ref().map(|outcomes| outcomes.counts(calls));
            }
            if let Ok(task) = SingleTask::new(task, Family::Mpich, group.thread) {
                task.view().decode().take(300).for_each(drop);
            }
        }
    }
    // What was read can be written.
    if merged.groups.iter().map(|group| group.ranks.len()).sum::<usize>() < 1000 {
        let _ = read::structure(&write::write(&merged).structure);
    }
});
