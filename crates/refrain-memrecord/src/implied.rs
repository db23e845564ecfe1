//! Removes calling contexts that follow from others.
//!
//! Threads that execute the same code on different call paths have different contexts, which are stored as pairs
//! ([`refrain_memory::Substitutes`]). Example: `main` calls `compute` in the first thread, the runtime calls it
//! in the others. The contexts of the functions that `compute` calls differ too, but follow from this pair.
//! So their pairs are left out, and also the contexts themselves if no other thread is in them.

use refrain_memory::Merged;
use refrain_memtrace::TraceError;
use refrain_memtrace::code::Code;
use refrain_memtrace::error::within;
use std::collections::BTreeSet;

/// The code without contexts, and the threads without pairs of contexts, that follow from others.
pub fn without_implied(code: &Code, merged: &Merged) -> Result<(Code, Merged), TraceError> {
    let mut merged = merged.clone();
    for group in &mut merged.groups {
        for substitutes in &mut group.substitutes {
            let all: BTreeSet<(u32, u32)> = substitutes.blocks.iter().copied().collect();
            substitutes.blocks.retain(|pair| !is_implied(code, &all, *pair));
        }
    }
    let mut used = within("threads", merged.executed(&code.blocks))?;
    for context in used.clone() {
        let mut at = context;
        while let Some(parent) = code.contexts.get(&at).and_then(|context| context.parent)
            && used.insert(parent)
        {
            at = parent;
        }
    }
    let is_kept = |block: u32| used.contains(&block) || !code.contexts.contains_key(&block);
    if (0..code.blocks.len() as u32).all(is_kept) {
        return Ok((code.clone(), merged));
    }
    let (rest, numbers) = code.only(is_kept);
    // Blocks that are left out are not used, so their numbers do not matter.
    let numbers: Vec<u32> = numbers.into_iter().map(|number| number.unwrap_or(0)).collect();
    let merged = within("threads", merged.renumbered(&numbers, &code.blocks))?;
    Ok((rest, merged))
}

/// Whether both contexts are entered by the same call, from contexts that are a pair too.
fn is_implied(code: &Code, pairs: &BTreeSet<(u32, u32)>, (ours, theirs): (u32, u32)) -> bool {
    let (Some(a), Some(b)) = (code.contexts.get(&ours), code.contexts.get(&theirs)) else {
        return false;
    };
    let (Some(ours), Some(theirs)) = (a.parent, b.parent) else { return false };
    (a.call, a.function) == (b.call, b.function) && pairs.contains(&(ours, theirs))
}
