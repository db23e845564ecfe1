//! Objects and requests among the arguments.

use super::{Argument, Over, Writer, nth};
use crate::names;
use crate::program::Signature;
use refrain_format::define::ParamDef;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_reader::{Event, Handle, Value};

impl Writer<'_, '_> {
    /// An object.
    pub(super) fn object(&mut self, def: &ParamDef, values: &Over<'_>) -> String {
        let kind = def.reads_as.clone();
        let mut numbers: Vec<(u32, i64)> = Vec::new();
        let mut texts: Vec<(u32, String)> = Vec::new();
        let mut maker = None;
        for (rank, value) in values {
            let Value::Word(word) = value else {
                texts.push((*rank, null_handle(&kind)));
                continue;
            };
            if let Some((thread, number)) = self.variable(&kind, *word)
                && *maker.get_or_insert(thread) == thread
            {
                numbers.push((*rank, number));
                continue;
            }
            texts.push((*rank, self.object_text(&kind, *word)));
        }
        let array = names::handle_array(&kind, maker.unwrap_or(0));
        if texts.is_empty() {
            let number = self.ranks().number(&numbers, &|_| None);
            return self.of_thread(maker, format!("{array}[{number}]"));
        }
        if !numbers.is_empty() {
            let number = self.ranks().number(&numbers, &|_| None);
            let object = self.of_thread(maker, format!("{array}[{number}]"));
            texts.extend(numbers.iter().map(|(rank, _)| (*rank, object.clone())));
            texts.sort_by_key(|(rank, _)| *rank);
        }
        self.ranks().choice(&texts)
    }

    /// Whether the first thread frees an object that other threads use. When these are done is not in the trace.
    pub fn frees_shared(&self, at: u32) -> bool {
        let Some(call) = self.group.calls.get(at as usize).filter(|_| self.group.thread == 0)
        else {
            return false;
        };
        let objects = |call: &Signature, wanted: u32| -> Vec<(String, u64)> {
            let mut all = Vec::new();
            for (_, event) in &call.events {
                for (def, value) in call.function.params.iter().zip(&event.inputs) {
                    if let Some(Value::Word(word)) = value
                        && let Handle::Object { thread, .. } = Handle::of(*word)
                        && thread == wanted
                        && def.class == Class::Handle
                    {
                        all.push((def.reads_as.clone(), *word));
                    }
                }
            }
            all
        };
        let freed = objects(call, 0);
        let others = self.program.groups.iter().filter(|group| group.thread > 0);
        others
            .flat_map(|group| &group.calls)
            .any(|call| objects(call, 0).iter().any(|object| freed.contains(object)))
    }

    /// An object, perhaps of another thread.
    pub(super) fn of_thread(&self, thread: Option<u32>, object: String) -> String {
        match thread.is_none_or(|thread| thread == self.group.thread) {
            true => object,
            false => format!("OTHER({object})"),
        }
    }

    pub(super) fn object_text(&mut self, kind: &str, word: u64) -> String {
        match self.variable(kind, word) {
            Some((thread, number)) => {
                let object = format!("{}[{number}]", names::handle_array(kind, thread));
                self.of_thread(Some(thread), object)
            }
            None => match self.group.names.name(kind, word) {
                Some(name) => name.to_owned(),
                None => null_handle(kind),
            },
        }
    }

    /// The variable of an object that the program made: thread and index.
    pub(super) fn variable(&mut self, kind: &str, word: u64) -> Option<(u32, i64)> {
        let (thread, number) = match Handle::of(word) {
            Handle::Predefined => return None,
            Handle::Object { thread, number } if kind == "request" => {
                // A request that no recorded call made.
                (thread, i64::from(number) + self.group.slots.len() as i64)
            }
            Handle::Object { thread, number } => (thread, i64::from(number)),
            Handle::Request { thread, signature, number } => {
                (thread, *self.group.slots.get(&(thread, signature, number))? as i64)
            }
        };
        let most = self.shared.objects.entry((kind.to_owned(), thread)).or_default();
        *most = (*most).max(number as u32);
        Some((thread, number))
    }

    pub(super) fn one_handle(
        &mut self,
        def: &ParamDef,
        inputs: &Over<'_>,
        outputs: &Over<'_>,
    ) -> Argument {
        if def.direction == Direction::In {
            return self.object(def, inputs).into();
        }
        let ctype = names::handle_type(&def.reads_as);
        let values = if def.direction == Direction::Out { outputs } else { inputs };
        let kind = def.reads_as.clone();
        let is_variable = !values.is_empty()
            && values.iter().all(|(_, value)| match value {
                Value::Word(word) => self.variable(&kind, *word).is_some(),
                _ => false,
            });
        // MPI may have returned the same handle several times: it must be freed as often.
        let is_counted = matches!(kind.as_str(), "group" | "errhandler")
            || kind == "datatype" && self.has_borrowed_types();
        if is_variable && !(def.direction == Direction::InOut && is_counted) {
            return format!("&{}", self.object(def, values)).into();
        }
        if def.direction == Direction::Out {
            return format!("&({ctype}){{0}}").into();
        }
        let before = self.object(def, values);
        format!("&({ctype}){{{before}}}").into()
    }

    /// Whether a call returns datatypes that the program may have already.
    pub(super) fn has_borrowed_types(&self) -> bool {
        let is_it = |name: &str| name.starts_with("MPI_Type_get_contents");
        self.group.calls.iter().any(|call| is_it(&call.function.name))
    }

    /// An array of objects.
    pub(super) fn handles(
        &mut self,
        def: &ParamDef,
        inputs: &Over<'_>,
        outputs: &Over<'_>,
        events: &[&(u32, Event)],
    ) -> Argument {
        let ctype = names::handle_type(&def.reads_as);
        let values = if def.direction == Direction::Out { outputs } else { inputs };
        let Some((_, Value::List(first))) = values.first() else {
            let length = self.length(None, outputs, events).max(16);
            return match def.direction {
                Direction::Out => format!("({ctype}[{length}]){{0}}").into(),
                _ => "NULL".into(),
            };
        };
        let length = first.len();
        if length == 0 {
            return format!("({ctype}[1]){{0}}").into();
        }
        if let Some(first) = self.neighbours(def, values) {
            return format!("&{first}").into();
        }
        let mut argument = Argument::default();
        let mut elements = Vec::with_capacity(length);
        let mut variables = Vec::with_capacity(length);
        let kind = def.reads_as.clone();
        for at in 0..length {
            let column: Over<'_> =
                values.iter().filter_map(|(r, v)| Some((*r, nth(v, at)?))).collect();
            variables.push(column.iter().all(|(_, value)| match value {
                Value::Word(word) => self.variable(&kind, *word).is_some(),
                _ => false,
            }));
            elements.push(self.object(def, &column));
        }
        let name = def.name.clone();
        if def.direction == Direction::In {
            return format!("({ctype}[]){{{}}}", elements.join(", ")).into();
        }
        argument.before.push(match def.direction {
            Direction::Out => format!("{ctype} {name}[{length}];"),
            _ => format!("{ctype} {name}[] = {{{}}};", elements.join(", ")),
        });
        for (at, (element, is_variable)) in elements.iter().zip(variables).enumerate() {
            if is_variable {
                argument.after.push(format!("{element} = {name}[{at}];"));
            }
        }
        argument.text = name;
        argument
    }

    /// The first of neighbouring variables, if the elements of an array are these.
    pub(super) fn neighbours(&mut self, def: &ParamDef, values: &Over<'_>) -> Option<String> {
        if def.reads_as != "request" {
            return None;
        }
        for (_, value) in values {
            let Value::List(all) = value else { return None };
            let mut before: Option<(u32, i64)> = None;
            for value in all {
                let Value::Word(word) = value else { return None };
                let (thread, number) = self.variable("request", *word)?;
                if before.is_some_and(|(t, n)| (t, n + 1) != (thread, number)) {
                    return None;
                }
                before = Some((thread, number));
            }
        }
        let firsts: Over<'_> =
            values.iter().filter_map(|(rank, v)| Some((*rank, nth(v, 0)?))).collect();
        Some(self.object(def, &firsts))
    }
}

pub(super) fn null_handle(kind: &str) -> String {
    match kind {
        "datatype" => "MPI_DATATYPE_NULL".to_owned(),
        kind => format!("MPI_{}_NULL", kind.to_uppercase()),
    }
}
