//! The traces of all tasks, merged.

use crate::group::Group;
use crate::times::Times;
use refrain_elastic::tree;
use refrain_signature::tasktrace::TaskTrace;
use std::collections::{BTreeMap, HashMap};

/// All groups of a trace.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// Definitions of functions by number.
    pub functions: BTreeMap<u16, String>,
    /// Groups, sorted by first rank.
    pub groups: Vec<Group>,
    /// Statistics of durations. A structure that was read from a file has none: see [`crate::times::read`].
    pub times: Times,
}

impl Merged {
    /// The trace of one task, as a merged trace.
    pub fn of(rank: u32, thread: u32, mut task: TaskTrace) -> Merged {
        let times = Times::of(&task);
        let functions = std::mem::take(&mut task.functions).into_iter().collect();
        Merged { functions, groups: vec![Group::of(rank, thread, task)], times }
    }

    /// Merges two traces.
    pub fn merge(mut self, other: Merged) -> Merged {
        self.functions.extend(other.functions);
        self.times.merge(other.times);
        let mut by_key: HashMap<u64, Vec<usize>> = HashMap::new();
        for (i, group) in self.groups.iter().enumerate() {
            by_key.entry(group.key()).or_default().push(i);
        }
        for group in other.groups {
            let same = by_key.entry(group.key()).or_default();
            let is_like =
                |i: &&usize| self.groups.get(**i).is_some_and(|ours| ours.is_like(&group));
            let found = same.iter().find(is_like).copied();
            match found.and_then(|i| self.groups.get_mut(i)) {
                Some(ours) => ours.absorb(group),
                None => {
                    same.push(self.groups.len());
                    self.groups.push(group);
                }
            }
        }
        self.groups.sort_by_key(|group| (group.ranks.first(), group.thread));
        self
    }

    /// Merges any number of traces, in a binary tree.
    pub fn merge_all(traces: impl IntoIterator<Item = Merged>) -> Merged {
        tree::reduce(traces, Merged::merge).unwrap_or_default()
    }

    /// The threads of a rank.
    pub fn threads(&self, rank: u32) -> Vec<u32> {
        let mut threads: Vec<u32> =
            self.groups.iter().filter(|g| g.ranks.contains(rank)).map(|g| g.thread).collect();
        threads.sort_unstable();
        threads
    }

    /// The trace of a task.
    pub fn task(&self, rank: u32, thread: u32) -> Option<TaskTrace> {
        let mut groups = self.groups.iter();
        let group = groups.find(|g| g.thread == thread && g.ranks.contains(rank))?;
        let mut task = group.task(rank)?;
        let text = |(number, text): (&u16, &String)| (*number, text.clone());
        task.functions = self.functions.iter().map(text).collect();
        Some(task)
    }
}
