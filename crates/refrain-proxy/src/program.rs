//! The trace as the generator needs it: for each group of tasks, its calls with the values of every rank.

use crate::outcomes::{self, Steps};
use crate::refused::Refused;
use refrain_format::define::FunctionDef;
use refrain_mpi::abi::{Family, Layout};
use refrain_mpi::interface::{Direction, Function, function};
use refrain_mpi::kind::Class;
use refrain_mpi::names::HandleTable;
use refrain_reader::view::TaskView;
use refrain_reader::{CallTrace, Event, Handle, Structure, TraceError, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A trace.
pub struct Program<'t> {
    /// The family of its MPI.
    pub family: Family,
    /// How many ranks it has.
    pub size: u32,
    /// Its tasks, by what they do; those of rank 0 first.
    pub groups: Vec<Group<'t>>,
    /// What cannot be reproduced.
    pub refused: Refused,
}

/// Tasks that do the same.
pub struct Group<'t> {
    /// Their structure.
    pub structure: Structure<'t>,
    /// Their number in their processes.
    pub thread: u32,
    /// Their ranks, ascending.
    pub ranks: Vec<u32>,
    /// The names of predefined handles and addresses.
    pub names: HandleTable,
    /// Their signatures, in order.
    pub calls: Vec<Signature>,
    /// The variables of requests: by thread, signature and number.
    pub slots: BTreeMap<(u32, u32, u32), usize>,
    /// Values that MPI chose, such as the keys of attributes: by rank, group of constants and value, their number.
    pub tokens: BTreeMap<(u32, String, i64), i64>,
}

/// A signature with its values.
pub struct Signature {
    /// The function that is called, or the form of a note.
    pub function: Arc<FunctionDef>,
    /// The function in the table of MPI; none for a note.
    pub mpi: Option<&'static Function>,
    /// The call of each rank.
    pub events: Vec<(u32, Event)>,
    /// What MPI decided, if it has to be enforced.
    pub steps: Option<Steps>,
    /// How often each rank makes the call.
    pub occurrences: u64,
    /// Whether it is left out.
    pub left_out: bool,
}

impl Signature {
    /// The call of the first rank.
    pub fn event(&self) -> Option<&Event> {
        self.events.first().map(|(_, event)| event)
    }

    /// The inputs of a parameter.
    pub fn inputs(&self, param: usize) -> Vec<(u32, Option<&Value>)> {
        self.events
            .iter()
            .map(|(rank, event)| (*rank, event.inputs.get(param).and_then(Option::as_ref)))
            .collect()
    }
}

impl<'t> Program<'t> {
    /// Reads a trace.
    pub fn of(trace: &'t CallTrace) -> Result<Program<'t>, TraceError> {
        let family = trace.family();
        let mut refused = Refused::default();
        let processes: Vec<_> = trace.processes().collect();
        let size = processes.len() as u32;
        let ranks: BTreeSet<i32> = processes.iter().map(|process| process.rank()).collect();
        if ranks.len() != processes.len()
            || ranks.first().is_some_and(|first| *first != 0)
            || ranks.last().is_some_and(|last| *last != size as i32 - 1)
        {
            refused.note("processes that MPI_Comm_spawn or separate jobs started", 1);
        }
        let mut groups = Vec::new();
        for structure in trace.structures()? {
            let mut views: Vec<(u32, TaskView<'t>)> = Vec::new();
            for process in &processes {
                if !structure.ranks().contains(process.rank_index()) {
                    continue;
                }
                for task in process.tasks().filter(|task| task.thread() == structure.thread()) {
                    if let (Ok(rank), Some(view)) = (u32::try_from(process.rank()), task.view()?) {
                        views.push((rank, view));
                    }
                }
            }
            views.sort_by_key(|(rank, _)| *rank);
            if !views.is_empty() {
                let group = Group::of(structure, &views, family, &mut refused);
                groups.push(group.map_err(|source| TraceError::Task {
                    path: trace.container().path().to_owned(),
                    source,
                })?);
            }
        }
        groups.sort_by_key(|group| (group.thread, group.ranks.first().copied()));
        Ok(Program { family, size, groups, refused })
    }

    /// How many threads the process with most threads has.
    pub fn threads(&self) -> u32 {
        self.groups.iter().map(|group| group.thread + 1).max().unwrap_or(1)
    }

    /// How MPI lays out values.
    pub fn layout(&self) -> &'static Layout {
        Layout::of(self.family)
    }
}

impl<'t> Group<'t> {
    fn of(
        structure: Structure<'t>,
        views: &[(u32, TaskView<'t>)],
        family: Family,
        refused: &mut Refused,
    ) -> Result<Group<'t>, refrain_reader::decoder::TaskError> {
        let occurrences = structure.occurrences();
        let mut calls: Vec<Signature> = Vec::new();
        for (rank, view) in views {
            for (number, event) in view.whole_samples()?.into_iter().enumerate() {
                if calls.len() <= number {
                    calls.push(Signature {
                        function: event.function.clone(),
                        mpi: function(&event.function.name),
                        events: Vec::new(),
                        steps: None,
                        occurrences: occurrences.get(number).copied().unwrap_or(0),
                        left_out: false,
                    });
                }
                if let Some(signature) = calls.get_mut(number) {
                    signature.events.push((*rank, event));
                }
            }
        }
        for signature in &mut calls {
            signature.left_out = refused.judge(signature, views.len() as u64);
        }
        let varies = |number| structure.signature(number).is_some_and(|s| s.outcomes_vary());
        outcomes::add(&mut calls, views, family, &varies)?;
        let names = views.first().map(|(_, view)| view.handle_names()).unwrap_or_default();
        let mut group = Group {
            structure,
            thread: structure.thread(),
            ranks: views.iter().map(|(rank, _)| *rank).collect(),
            names,
            calls,
            slots: BTreeMap::new(),
            tokens: BTreeMap::new(),
        };
        group.number_requests();
        group.number_tokens();
        Ok(group)
    }

    /// Gives requests that are passed together neighbouring variables.
    fn number_requests(&mut self) {
        let mut all: Vec<(u32, u32, u32)> = Vec::new();
        let mut single: Vec<(u32, u32, u32)> = Vec::new();
        let add = |list: &mut Vec<_>, value: &Value| {
            if let Value::Word(word) = value
                && let Handle::Request { thread, signature, number } = Handle::of(*word)
            {
                list.push((thread, signature, number));
            }
        };
        for signature in &self.calls {
            for (param, def) in signature.function.params.iter().enumerate() {
                if def.reads_as != "request" {
                    continue;
                }
                for (_, event) in &signature.events {
                    for value in [event.inputs.get(param), event.outputs.get(param)] {
                        match value {
                            Some(Some(Value::List(list))) => {
                                list.iter().for_each(|value| add(&mut all, value));
                            }
                            Some(Some(value)) => add(&mut single, value),
                            _ => {}
                        }
                    }
                }
            }
        }
        for key in all.into_iter().chain(single) {
            let next = self.slots.len();
            self.slots.entry(key).or_insert(next);
        }
    }

    /// Numbers what MPI chose, in the order in which each rank got it.
    fn number_tokens(&mut self) {
        for signature in &self.calls {
            let makes_codes = signature.function.name.starts_with("MPI_Add_error_c");
            for (param, def) in signature.function.params.iter().enumerate() {
                let is_address = def.class == Class::Address;
                let is_token = def.direction != Direction::In
                    && (def.reads_as == "keyval" && def.direction == Direction::Out
                        || def.reads_as == "error" && makes_codes
                        || is_address);
                if !is_token || def.array {
                    continue;
                }
                for (rank, event) in &signature.events {
                    let value = match event.outputs.get(param) {
                        Some(Some(Value::Int(value))) => value,
                        // Numbers that the program passes as attributes are smaller.
                        Some(Some(Value::Word(word)))
                            if *word >= 1 << 20 && Handle::of(*word) != Handle::Predefined =>
                        {
                            &(*word as i64)
                        }
                        _ => continue,
                    };
                    let group = def.reads_as.clone();
                    let known = self.tokens.keys().filter(|(r, g, _)| r == rank && *g == group);
                    let next = known.count() as i64;
                    self.tokens.entry((*rank, group, *value)).or_insert(next);
                }
            }
        }
    }
}
