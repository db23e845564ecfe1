//! Memory that a call uses: segments of the trace, and addresses in them.

use super::{Argument, Over, Writer, callback};
use crate::formula::literal;
use crate::names;
use crate::program::Signature;
use refrain_format::define::ParamDef;
use refrain_mpi::abi::Source;
use refrain_mpi::interface::{Direction, Param};
use refrain_mpi::kind::Class;
use refrain_mpi::semantics::Op;
use refrain_reader::{Event, Handle, Value};

impl Writer<'_, '_> {
    /// Memory that came into use.
    pub(super) fn segment(&mut self, at: u32, signature: &Signature) -> Vec<String> {
        use refrain_format::record::segment;
        let ints = |param: usize| -> Vec<(u32, i64)> {
            let value = |(rank, event): &(u32, Event)| match event.inputs.get(param) {
                Some(Some(Value::Int(value))) => (*rank, *value),
                _ => (*rank, 0),
            };
            signature.events.iter().map(value).collect()
        };
        let (numbers, kinds) = (ints(0), ints(1));
        let thread = self.group.thread;
        for (_, number) in &numbers {
            let most = self.shared.segments.entry(thread).or_default();
            *most = (*most).max(*number as u32);
        }
        let number = self.ranks().number(&numbers, &|_| None);
        let memory = names::of_thread("memory", thread);
        let kind = kinds.first().map_or(0, |(_, kind)| *kind as u8);
        let first = numbers.first().map_or(0, |(_, number)| *number as u32);
        if matches!(kind, segment::STATIC | segment::STACK)
            && let Some((low, _)) = self.shared.arenas.get(&(thread, first)).copied()
        {
            let (kind, place) = match kind {
                segment::STACK => ("STACK", "stack_memory".to_owned()),
                _ => ("STATIC", names::of_thread(&format!("static{first}"), thread)),
            };
            return vec![format!(
                "segment_at(&{memory}[{number}], {kind}, {place}, {});",
                literal(low)
            )];
        }
        let kind = match kind {
            segment::MAPPED => "MAPPED",
            segment::STATIC => "STATIC",
            segment::STACK => "STACK",
            _ => "HEAP",
        };
        let bytes = self.bytes(at, signature);
        vec![format!("segment(&{memory}[{number}], {kind}, {bytes});")]
    }

    /// The length of a segment, which may differ between visits.
    pub(super) fn bytes(&mut self, at: u32, signature: &Signature) -> String {
        if let Some(steps) = &signature.steps {
            return match steps.constant() {
                Some(bytes) => literal(bytes.first().copied().unwrap_or(1)),
                None => format!("*(const long *){}", self.next_outcome(at, steps)),
            };
        }
        let output = |(rank, event): &(u32, Event)| {
            let bytes = event.outputs.iter().flatten().find_map(|value| match value {
                Value::Int(bytes) => Some(*bytes),
                _ => None,
            });
            (*rank, bytes.unwrap_or(1))
        };
        let bytes: Vec<(u32, i64)> = signature.events.iter().map(output).collect();
        self.ranks().number(&bytes, &|_| None)
    }

    pub(super) fn release(&mut self, signature: &Signature) -> Vec<String> {
        let mut by_thread: Vec<(u32, i64)> = Vec::new();
        let mut numbers: Vec<(u32, i64)> = Vec::new();
        for (rank, event) in &signature.events {
            if let (Some(Some(Value::Int(thread))), Some(Some(Value::Int(number)))) =
                (event.inputs.first(), event.inputs.get(1))
            {
                by_thread.push((*rank, *thread));
                numbers.push((*rank, *number));
            }
        }
        let thread = by_thread.first().map_or(0, |(_, thread)| *thread as u32);
        for (_, number) in &numbers {
            let most = self.shared.segments.entry(thread).or_default();
            *most = (*most).max(*number as u32);
        }
        let number = self.ranks().number(&numbers, &|_| None);
        vec![format!("release(&{}[{number}]);", names::of_thread("memory", thread))]
    }

    /// An address in memory.
    pub(super) fn address(&mut self, def: &ParamDef, values: &Over<'_>) -> String {
        if let Some(pointer) = self.pointer_variable(values).filter(|_| !values.is_empty()) {
            return pointer;
        }
        let mut segments: Vec<(u32, i64)> = Vec::new();
        let mut offsets: Vec<(u32, i64)> = Vec::new();
        let mut texts: Vec<(u32, String)> = Vec::new();
        let mut maker = None;
        for (rank, value) in values {
            match value {
                Value::Location { thread, segment, offset, .. }
                    if *maker.get_or_insert(*thread) == *thread =>
                {
                    segments.push((*rank, i64::from(*segment)));
                    offsets.push((*rank, *offset));
                }
                value => texts.push((*rank, self.address_text(def, value))),
            }
        }
        let mut here = String::new();
        if !segments.is_empty() {
            let thread = maker.flatten().unwrap_or(self.group.thread);
            for (_, segment) in &segments {
                let most = self.shared.segments.entry(thread).or_default();
                *most = (*most).max(*segment as u32);
            }
            let segment = self.ranks().number(&segments, &|_| None);
            let offset = self.ranks().number(&offsets, &|_| None);
            let of_other = if thread == self.group.thread { "" } else { "_of_other" };
            let memory = names::of_thread("memory", thread);
            here = format!("address{of_other}(&{memory}[{segment}], {offset})");
        }
        if texts.is_empty() {
            return here;
        }
        texts.extend(segments.iter().map(|(rank, _)| (*rank, here.clone())));
        texts.sort_by_key(|(rank, _)| *rank);
        self.ranks().choice(&texts)
    }

    /// The variable of an address that MPI returned and that is in no known memory.
    pub(super) fn pointer_variable(&mut self, values: &Over<'_>) -> Option<String> {
        let mut numbers = Vec::new();
        for (rank, value) in values {
            let Value::Word(word) = value else { return None };
            let key = (*rank, "address".to_owned(), *word as i64);
            numbers.push((*rank, *self.group.tokens.get(&key)?));
        }
        let most = numbers.iter().map(|(_, number)| *number).max()?;
        let known = self.shared.tokens.entry("address".to_owned()).or_default();
        *known = (*known).max(most + 1);
        let number = self.ranks().number(&numbers, &|_| None);
        Some(format!("pointer[{number}]"))
    }

    pub(super) fn address_text(&mut self, def: &ParamDef, value: &Value) -> String {
        let (Value::Word(word) | Value::Special(word)) = value else {
            return match value {
                Value::Int(number) => format!("(void *){}", literal(*number)),
                Value::Location { thread, segment, offset, .. } => {
                    let thread = thread.unwrap_or(self.group.thread);
                    let memory = names::of_thread("memory", thread);
                    let of_other = if thread == self.group.thread { "" } else { "_of_other" };
                    format!("address{of_other}(&{memory}[{segment}], {offset})")
                }
                _ => "NULL".to_owned(),
            };
        };
        let layout = self.layout();
        let is = |source: Source| matches!(source, Source::Value(v) if v as u64 == *word);
        let named = self.group.names.entries().find(|(kind, value, _)| {
            value == word
                && Handle::of(*value) == Handle::Predefined
                && *kind != "request"
                && (*kind == def.name || *kind == "address" || *kind == def.reads_as)
        });
        if let Some((_, _, name)) = named {
            return name.to_owned();
        }
        if is(layout.in_place) && def.class == Class::Memory && *word != 0 {
            return "MPI_IN_PLACE".to_owned();
        }
        if is(layout.unweighted) && def.array {
            return "MPI_UNWEIGHTED".to_owned();
        }
        if is(layout.weights_empty) && def.array {
            return "MPI_WEIGHTS_EMPTY".to_owned();
        }
        if *word == 0 {
            return if def.class == Class::Memory { "MPI_BOTTOM" } else { "NULL" }.to_owned();
        }
        format!("(void *){word:#x}")
    }

    /// A pointer-sized value: a callback, extra state, an attribute, a handle of the tools interface.
    pub(super) fn pointer(
        &mut self,
        signature: &Signature,
        def: &ParamDef,
        param: Option<&Param>,
        inputs: &Over<'_>,
        outputs: &Over<'_>,
        is_array: bool,
    ) -> Argument {
        let kind = param.map_or("", |param| param.kind.name);
        let ctype = names::address_type(kind);
        if def.direction == Direction::In && !is_array {
            let is_predefined = inputs.iter().any(|(_, value)| matches!(value, Value::Word(word) if Handle::of(*word) == Handle::Predefined || *word == 0));
            if kind.ends_with("FUNCTION") && !is_predefined {
                return callback(&signature.function.name, &def.name).into();
            }
            let text = self.address(def, inputs);
            return match ctype {
                "void *" => text.into(),
                _ if text.starts_with("MPI_T") => text.into(),
                ctype => format!("({ctype}){text}").into(),
            };
        }
        let name = def.name.clone();
        let mut argument = Argument { text: format!("&{name}"), ..Argument::default() };
        let before = match inputs.is_empty() {
            true => "NULL".to_owned(),
            false => self.address(def, inputs),
        };
        let space = if ctype.ends_with('*') { "" } else { " " };
        argument.before.push(match ctype {
            "void *" => format!("void *{name} = {before};"),
            ctype => format!("{ctype}{space}{name} = ({ctype}){before};"),
        });
        let places: Over<'_> =
            outputs.iter().copied().filter(|(_, v)| matches!(v, Value::Location { .. })).collect();
        if !places.is_empty() && places.len() == outputs.len() {
            let place = self.address(def, &places);
            if let Some(place) = place.strip_prefix("address(") {
                let (segment, offset) =
                    place.trim_end_matches(')').split_once(", ").unwrap_or((place, "0"));
                argument.after.push(format!("found({segment}, (void *){name}, {offset});"));
            }
        } else if let Some(pointer) = self.pointer_variable(outputs).filter(|_| !outputs.is_empty())
        {
            argument.after.push(format!("{pointer} = (void *){name};"));
        } else {
            argument.after.push(format!("(void){name};"));
        }
        argument
    }
}

/// Whether a call frees memory that the trace has released before.
pub(super) fn is_freed(signature: &Signature, inputs: &Over<'_>) -> bool {
    let is_raw = |value: &Value| matches!(value, Value::Word(word) if Handle::of(*word) != Handle::Predefined);
    let frees = signature.mpi.is_some_and(|function| function.op() == Op::Deallocate);
    frees && inputs.iter().all(|(_, value)| is_raw(value) && **value != Value::Word(0))
}
