//! Checks that signatures, grammars and outcomes are consistent.

use refrain_reader::trace::StoredForm;
use refrain_reader::{CallTrace, TraceError};

/// The result of [`check_structure`].
#[derive(Debug, Default)]
pub struct Structure {
    /// The number of groups.
    pub groups: usize,
    /// The number of grammars.
    pub grammars: usize,
    /// The number of rules.
    pub rules: usize,
    /// The number of signatures.
    pub signatures: usize,
    /// What is wrong.
    pub problems: Vec<String>,
}

/// Reads `structure`, `timing` and all sections `own/…`, and checks that they are consistent.
pub fn check_structure(trace: &CallTrace) -> Result<Structure, TraceError> {
    let merged = trace.structure()?;
    // Sequences that are stored as grammars come from Sequitur and have its invariants. Others become grammars of any
    // form when they are read.
    let has_invariants = trace.form()? == StoredForm::Grammar;
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
        for (index, grammar) in group.grammars.iter().enumerate() {
            found.rules += grammar.rules().len();
            if has_invariants && let Err(violation) = grammar.verify() {
                say(format!("grammar {index}: {violation}"));
            }
            // `counts` does not count undefined terminals.
            let counted =
                grammar.counts(group.rows.len()).iter().fold(0u64, |sum, n| sum.saturating_add(*n));
            if counted != grammar.len() {
                let length = grammar.len();
                say(format!(
                    "grammar {index}: only {counted} of its {length} calls have a signature"
                ));
            }
        }
    }
    check_residues(trace, &mut found)?;
    Ok(found)
}

/// Checks that per-rank residues belong to existing signatures and have the right length.
fn check_residues(trace: &CallTrace, found: &mut Structure) -> Result<(), TraceError> {
    let merged = trace.structure()?;
    let counts: Vec<Vec<u64>> = merged.groups.iter().map(|group| group.occurrences()).collect();
    for (rank, thread, residue) in trace.residues()? {
        let mut say = |what: &str| {
            found.problems.push(format!("outcomes of rank {rank}, thread {thread}: {what}"));
        };
        let groups = &mut merged.groups.iter();
        let group = groups.position(|g| g.thread == thread && g.ranks.contains(rank));
        let Some(counts) = group.map(|g| &counts[g]) else {
            say("this task has no calls");
            continue;
        };
        for (signature, outcomes) in &residue.outcomes {
            match counts.get(*signature as usize) {
                Some(calls) if outcomes.counts(*calls).is_some() => {}
                Some(_) => say(&format!("malformed outcomes of signature {signature}")),
                None => say(&format!("there is no signature {signature}")),
            }
        }
        if let Some(signature) = residue.polls.keys().find(|s| **s as usize >= counts.len()) {
            say(&format!("there is no signature {signature}"));
        }
    }
    Ok(())
}
