//! Whether signatures, grammars and outcomes fit together.

use refrain_reader::{CallTrace, TraceError};

/// The structure of a trace, checked.
#[derive(Debug, Default)]
pub struct Structure {
    /// Groups of tasks that do the same.
    pub groups: usize,
    /// Their grammars.
    pub grammars: usize,
    /// The rules of these.
    pub rules: usize,
    /// Their signatures.
    pub signatures: usize,
    /// What does not hold.
    pub problems: Vec<String>,
}

/// Reads `structure`, `timing` and all of `own`, and checks that they hold what they promise.
pub fn check_structure(trace: &CallTrace) -> Result<Structure, TraceError> {
    let merged = trace.structure()?;
    let mut found = Structure { groups: merged.groups.len(), ..Structure::default() };
    for (number, group) in merged.groups.iter().enumerate() {
        found.grammars += group.grammars.len();
        found.signatures += group.rows.len();
        let mut say = |what: String| found.problems.push(format!("group {number}: {what}"));
        for row in &group.rows {
            let function = row.head().map(|head| head.function);
            let is_defined = function.is_some_and(|f| merged.functions.contains_key(&f));
            if !is_defined {
                say(format!("a signature of function {function:?}, which is not defined"));
            }
        }
        for (place, grammar) in group.grammars.iter().enumerate() {
            found.rules += grammar.rules().len();
            if let Err(violation) = grammar.verify() {
                say(format!("grammar {place}: {violation}"));
            }
            // Terminals that are not defined are not counted.
            let counted =
                grammar.counts(group.rows.len()).iter().fold(0u64, |sum, n| sum.saturating_add(*n));
            if counted != grammar.len() {
                let length = grammar.len();
                say(format!("grammar {place}: {counted} of its {length} calls are defined"));
            }
        }
    }
    check_own(trace, &mut found)?;
    Ok(found)
}

/// What ranks have of their own belongs to signatures that are there, and is as long as it
/// should be.
fn check_own(trace: &CallTrace, found: &mut Structure) -> Result<(), TraceError> {
    let merged = trace.structure()?;
    let counts: Vec<Vec<u64>> = merged.groups.iter().map(|group| group.occurrences()).collect();
    for (place, thread, residue) in trace.residues()? {
        let mut say = |what: &str| {
            found.problems.push(format!("own data of rank {place}, thread {thread}: {what}"));
        };
        let groups = &mut merged.groups.iter();
        let group = groups.position(|g| g.thread == thread && g.ranks.contains(place));
        let Some(counts) = group.map(|g| &counts[g]) else {
            say("it has no calls");
            continue;
        };
        for (signature, outcomes) in &residue.outcomes {
            match counts.get(*signature as usize) {
                Some(calls) if outcomes.counts(*calls).is_some() => {}
                Some(_) => say(&format!("the outcomes of signature {signature} do not read")),
                None => say(&format!("there is no signature {signature}")),
            }
        }
        if let Some(signature) = residue.polls.keys().find(|s| **s as usize >= counts.len()) {
            say(&format!("there is no signature {signature}"));
        }
    }
    Ok(())
}
