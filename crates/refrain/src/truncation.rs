//! Describes where the records of ranks without `MPI_Finalize` end.

use refrain_reader::meta::why_log_stopped;
use refrain_reader::view::TaskView;
use refrain_reader::{CallTrace, Ended, Meta, ProcessRef};
use std::path::Path;

/// The most ranks that are named.
const NAMED: usize = 8;

/// The most threads of a rank that are named.
const NAMED_THREADS: usize = 4;

/// A line for each process that did not call `MPI_Finalize`: the number of complete calls, the open
/// calls, and whether its log stopped early. The trace must have been written.
pub fn truncations(meta: &Meta, trace: &Path) -> Vec<String> {
    if meta.streams.iter().all(|stream| stream.ended == Ended::Finalized) {
        return Vec::new();
    }
    let Ok(trace) = CallTrace::open(trace) else { return Vec::new() };
    let ended = |process: ProcessRef<'_>| {
        let mut all = process.tasks().map(|task| &task.facts().ended);
        all.rfind(|ended| **ended != Ended::Finalized).cloned()
    };
    let line = |process| line(process, &ended(process)?);
    let mut lines: Vec<String> = trace.processes().filter_map(line).collect();
    let more = lines.len().saturating_sub(NAMED);
    lines.truncate(NAMED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

fn line(process: ProcessRef<'_>, ended: &Ended) -> Option<String> {
    let stream = process.facts();
    let threads = process.tasks().len();
    let mut texts = Vec::new();
    for task in process.tasks().take(NAMED_THREADS) {
        let tail = task.view().ok().flatten().map(|task| Tail::of(&task)).unwrap_or_default();
        // A program that uses sessions need not call MPI_Finalize.
        if threads == 1 && *ended == Ended::Unfinalized && tail.is_end_of_session() {
            return None;
        }
        let which = match threads {
            1 => String::new(),
            _ => format!("thread {}: ", task.thread()),
        };
        // If the log stopped, its last call is not the one that the process was in.
        let names_open = !matches!(ended, Ended::LogStopped(_));
        texts.push(format!("{which}{}", tail.words(names_open)));
    }
    if threads > NAMED_THREADS {
        texts.push(format!("and {} threads more", threads - NAMED_THREADS));
    }
    let why = match ended {
        Ended::LogStopped(errno) => {
            format!("; its log stopped there: {}", why_log_stopped(*errno))
        }
        _ => String::new(),
    };
    let (rank, host, pid) = (stream.rank, &stream.host, stream.pid);
    let what = if *ended == Ended::Running { "so far" } else { "truncated" };
    Some(format!("{what}: rank {rank} ({host}, pid {pid}): {}{why}", texts.join("; ")))
}

/// The number of items at the end of a task that are read. Calls are nested less deeply than this, including the
/// notes between them.
const TAIL_ITEMS: u64 = 256;

/// The end of a task.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tail {
    /// The number of calls that have returned.
    complete: u64,
    /// The function of the last call that returned.
    last: Option<String>,
    /// The functions of open calls, outermost first.
    open: Vec<String>,
}

impl Tail {
    fn of(task: &TaskView<'_>) -> Tail {
        let mut tail = Tail::default();
        let mut innermost = None;
        for call in task.tail(TAIL_ITEMS).into_iter().rev() {
            // In reverse order, open calls come outermost first. Other calls that never returned
            // ended by longjmp or an exception.
            if call.returned {
                tail.last = Some(call.function.to_owned());
                break;
            }
            if innermost.is_none_or(|depth| call.depth > depth) {
                innermost = Some(call.depth);
                tail.open.push(call.function.to_owned());
            }
        }
        let total: u64 = task.calls_by_function().values().sum();
        tail.complete = total.saturating_sub(tail.open.len() as u64);
        tail
    }

    fn is_end_of_session(&self) -> bool {
        self.open.is_empty() && self.last.as_deref() == Some("MPI_Session_finalize")
    }

    fn words(&self, names_open: bool) -> String {
        let last = match &self.last {
            Some(last) => format!(", the last #{} {last}", self.complete.saturating_sub(1)),
            None => String::new(),
        };
        let open = match self.open.is_empty() || !names_open {
            true => String::new(),
            false => format!("; in #{} {}", self.complete, self.open.join(", inside it ")),
        };
        let calls = if self.complete == 1 { "call" } else { "calls" };
        format!("{} {calls} complete{last}{open}", self.complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_names_complete_and_open_calls() {
        let tail = Tail {
            complete: 12,
            last: Some("MPI_Send".to_owned()),
            open: vec!["MPI_Recv".to_owned()],
        };
        assert_eq!(tail.words(true), "12 calls complete, the last #11 MPI_Send; in #12 MPI_Recv");
        assert_eq!(tail.words(false), "12 calls complete, the last #11 MPI_Send");
        let first = Tail { complete: 1, last: Some("MPI_Init".to_owned()), open: Vec::new() };
        assert_eq!(first.words(true), "1 call complete, the last #0 MPI_Init");
    }
}
