//! The self-contained trace of one thread.

use super::Encoder;
use refrain_signature::tasktrace::{SignatureTrace, TaskTrace};

impl Encoder {
    /// The trace of a thread; `None` if it made no call.
    pub fn task_trace(&self, thread: u32) -> Option<TaskTrace> {
        let task = self.task(thread)?;
        if task.signatures.is_empty() {
            return None;
        }
        let text = |number: &u16| Some((*number, self.function(*number)?.to_text()));
        let signature = |number: u32| {
            let of = |index: u32| usize::try_from(index).ok();
            let state = task.signatures.get(number);
            let varying = state.and_then(|s| task.varying.get(of(s.varies)?));
            let polls = state.and_then(|s| task.polls.get(of(s.polls)?));
            SignatureTrace {
                cells: task.signatures.cells(number).to_vec(),
                outcome: task.signatures.first_outcome(number).to_vec(),
                varying: varying.map(|v| v.stored()),
                polls: polls.filter(|p| p.total() > 0).cloned(),
                stats: state.map(|s| s.stats.clone()).unwrap_or_default(),
            }
        };
        let name = |index: &u32| self.predefined_name(*index).to_owned();
        Some(TaskTrace {
            functions: task.functions.iter().filter_map(text).collect(),
            predefined: task.predefined.iter().map(name).collect(),
            strings: task.strings().iter().map(|s| s.to_vec()).collect(),
            signatures: (0..task.signatures.len() as u32).map(signature).collect(),
            grammars: task.grammars(),
            lost: task.lost(),
        })
    }
}
