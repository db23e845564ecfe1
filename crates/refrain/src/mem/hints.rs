//! Warnings about a recording that holds little or nothing, each with a remedy.

use super::info::LIBRARIES;
use crate::summary::{counted, grouped};
use refrain_analysis::symbols::Symbols;
use refrain_memtrace::trace::Facts;
use std::collections::BTreeSet;
use std::path::Path;

/// The work of a program is in its libraries if they executed this many times more basic blocks than it,
const MANY_BLOCKS: u64 = 50;
/// and if there are fewer references than this per basic block.
const FEW_REFERENCES: u64 = 10;

/// What the user should know about a recording.
pub fn hints(facts: &Facts) -> Vec<String> {
    let programs: BTreeSet<&str> = facts.processes.iter().map(|p| p.program.as_str()).collect();
    let symbols: Vec<(&str, Symbols)> = programs
        .into_iter()
        .filter_map(|program| Some((program, Symbols::of(Path::new(program))?)))
        .collect();
    let mut hints = Vec::new();
    for option in &facts.selected {
        hints.extend(match option.split_once(' ') {
            Some(("--from", function)) if facts.references() == 0 => {
                Some(never_called(function, &symbols))
            }
            Some(("--until", function)) => never_stopped(function, &symbols),
            _ => None,
        });
    }
    hints.extend(work_in_libraries(facts));
    hints
}

/// The hint for a function of `--from` that was never called.
fn never_called(function: &str, symbols: &[(&str, Symbols)]) -> String {
    let reason = missing(function, symbols).unwrap_or_else(|| {
        "it may not have been reached, or the compiler has inlined it: name a function that calls \
         it, or compile it with __attribute__((noinline))"
            .into()
    });
    format!(
        "--from {function}: nothing was recorded, since the function was never called: {reason}"
    )
}

/// The hint for a function of `--until` that does not exist.
fn never_stopped(function: &str, symbols: &[(&str, Symbols)]) -> Option<String> {
    let reason = missing(function, symbols)?;
    Some(format!("--until {function}: recording went on to the end: {reason}"))
}

/// Why no program has the function; `None` if one has it, or if no symbols are known.
fn missing(function: &str, symbols: &[(&str, Symbols)]) -> Option<String> {
    if symbols.is_empty() || symbols.iter().any(|(_, symbols)| symbols.has_function(function)) {
        return None;
    }
    let programs: Vec<&str> = symbols.iter().map(|(program, _)| *program).collect();
    let similar: Vec<String> =
        symbols.iter().flat_map(|(_, symbols)| symbols.similar_functions(function)).collect();
    let advice = match similar.as_slice() {
        [] => "is it misspelt, or inlined everywhere?".to_owned(),
        similar => format!("did you mean {}?", similar.join(" or ")),
    };
    Some(format!("{} has no function of this name: {advice}", programs.join(", ")))
}

/// The hint if most executed code was in libraries, which were not recorded.
fn work_in_libraries(facts: &Facts) -> Option<String> {
    if !facts.selected.is_empty() {
        return None;
    }
    let sum = |of: fn(&(u32, u32)) -> u32| -> u64 {
        facts.processes.iter().map(|process| u64::from(of(&process.basic_blocks))).sum()
    };
    let (recorded, other) = (sum(|blocks| blocks.0), sum(|blocks| blocks.1));
    let is_elsewhere =
        other > MANY_BLOCKS * recorded && facts.references() < FEW_REFERENCES * other;
    is_elsewhere.then(|| {
        format!(
            "only {} of {} that ran are the program's own, the others are in libraries: record \
             those as well with {LIBRARIES}",
            grouped(recorded),
            counted(recorded + other, "basic block"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_memtrace::process::ProcessFacts;

    fn facts(selected: &[&str], references: u64, basic_blocks: (u32, u32)) -> Facts {
        let program = std::env::current_exe().expect("a program").display().to_string();
        let process = ProcessFacts { program, references, basic_blocks, ..Default::default() };
        let selected = selected.iter().map(|option| (*option).to_owned()).collect();
        Facts { selected, processes: vec![process], ..Facts::default() }
    }

    #[test]
    fn a_function_that_does_not_exist_is_named_with_similar_ones() {
        let [hint] = &hints(&facts(&["--from mian"], 0, (0, 0)))[..] else { panic!("one hint") };
        assert!(hint.contains("--from mian") && hint.contains("did you mean main"), "{hint}");
        let [hint] = &hints(&facts(&["--until mian"], 9, (0, 0)))[..] else { panic!("one hint") };
        assert!(hint.contains("went on to the end"), "{hint}");
    }

    #[test]
    fn a_function_that_was_not_called_is_named() {
        let [hint] = &hints(&facts(&["--from main"], 0, (0, 0)))[..] else { panic!("one hint") };
        assert!(hint.contains("inlined"), "{hint}");
        assert!(hints(&facts(&["--from main"], 1, (0, 0))).is_empty());
        assert!(hints(&facts(&["--until main"], 0, (0, 0))).is_empty());
    }

    #[test]
    fn work_in_libraries_is_noticed() {
        let [hint] = &hints(&facts(&[], 19, (8, 20_000)))[..] else { panic!("one hint") };
        assert!(hint.starts_with("only 8 of 20,008 basic blocks"), "{hint}");
        assert!(hint.contains("--libs"), "{hint}");
        assert!(hints(&facts(&[], 1_000_000, (8, 20_000))).is_empty());
        assert!(hints(&facts(&[], 19, (800, 20_000))).is_empty());
        assert!(hints(&facts(&["--libs"], 19, (8, 20_000))).is_empty());
        assert!(hints(&facts(&[], 19, (0, 0))).is_empty());
    }
}
