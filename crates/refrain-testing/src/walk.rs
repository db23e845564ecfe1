//! Reads everything of a trace that a command might read.

use refrain_container::Container;
use refrain_trace::Trace;
use std::path::Path;

/// How many streams are read. A damaged trace may claim to have millions.
const STREAMS: usize = 4;

/// Reads a file as a trace, each stream up to `events` events. Returns the number of events read and all
/// errors; `None` if the file is not a container.
pub fn walk(path: &Path, events: usize) -> Option<(usize, Vec<String>)> {
    let container = Container::open(path).ok()?;
    let mut errors = Vec::new();
    for section in container.sections().iter().take(STREAMS) {
        errors.extend(container.check(&section.name).err().map(|e| e.to_string()));
    }
    let read = match Trace::open(path) {
        Ok(trace) => walk_trace(&trace, events, &mut errors),
        Err(error) => {
            errors.push(error.to_string());
            0
        }
    };
    Some((read, errors))
}

fn walk_trace(trace: &Trace, events: usize, errors: &mut Vec<String>) -> usize {
    let meta = trace.meta();
    meta.processes();
    let mut say = |error: String| errors.push(error);
    let mut read = 0;
    for stream in 0..meta.streams.len().min(STREAMS) {
        meta.streams[stream].nanos(1 << 40);
        trace.residue(stream).err().into_iter().for_each(|e| say(e.to_string()));
        trace.calls(stream).err().into_iter().for_each(|e| say(e.to_string()));
        if let (Ok(Some(task)), Ok(residue)) = (trace.view(stream), trace.residue(stream)) {
            let counts = task.occurrences();
            for (signature, outcomes) in &residue.outcomes {
                counts.get(*signature as usize).map(|calls| outcomes.counts(*calls));
            }
            task.tail(100);
            task.digest(10).into_iter().flatten().take(events).for_each(drop);
        }
        let raw = trace.has_raw().then(|| trace.events(stream));
        for all in [trace.decoded(stream)].into_iter().chain(raw) {
            let all = match all {
                Ok(all) => all,
                Err(error) => {
                    say(error.to_string());
                    continue;
                }
            };
            all.handle_names();
            for event in all.take(events) {
                match event {
                    Ok(_) => read += 1,
                    Err(error) => say(error.to_string()),
                }
            }
        }
    }
    match trace.structure() {
        Ok(merged) => {
            for group in &merged.groups {
                for grammar in &group.grammars {
                    let _ = grammar.verify();
                    grammar.iter_from(grammar.len() / 2).take(100).for_each(drop);
                }
                for rank in group.ranks.iter().take(STREAMS) {
                    merged.task(rank, group.thread);
                }
            }
        }
        Err(error) => say(error.to_string()),
    }
    for structure in trace.structures().into_iter().flatten() {
        let rank = structure.ranks().first().unwrap_or(0);
        for signature in structure.signatures().take(1000) {
            for arguments in signature.variants().take(10) {
                arguments.all().iter().filter_map(|(_, arg)| arg.int()?.on(rank)).for_each(drop);
            }
        }
    }
    trace.residues().err().into_iter().for_each(|e| say(e.to_string()));
    read
}
