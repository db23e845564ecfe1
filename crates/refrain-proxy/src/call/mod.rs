//! A call as a statement of C.

mod handles;
mod memory;
mod numbers;
mod status;
mod words;

use crate::formula::{Ranks, Tables, literal};
use crate::outcomes::{self, Kind, Steps};
use crate::program::{Group, Program, Signature};
use memory::is_freed;
use numbers::number_type;
use refrain_format::define::ParamDef;
use refrain_mpi::abi::Layout;
use refrain_mpi::interface::{Direction, Function, Param};
use refrain_mpi::kind::Class;
use refrain_mpi::names::constant_name;
use refrain_mpi::semantics::{Access, Object, Op};
use refrain_reader::{Event, Handle, Value};
use std::collections::BTreeMap;

/// Longer arrays are tables.
const LONGEST_LIST: usize = 12;

/// What the statements of a program have in common.
#[derive(Default)]
pub struct Shared {
    /// Tables of numbers.
    pub tables: Tables,
    /// Definitions of recorded outcomes.
    pub outcomes: Vec<String>,
    /// The largest number of the objects of a kind and thread.
    pub objects: BTreeMap<(String, u32), u32>,
    /// The largest number of segments, by thread.
    pub segments: BTreeMap<u32, u32>,
    /// How many numbers MPI chose, by group of constants.
    pub tokens: BTreeMap<String, i64>,
    /// The lowest and one past the highest offset of memory that is part of the program, by thread and segment.
    pub arenas: BTreeMap<(u32, u32), (i64, i64)>,
}

/// Writes the calls of a group.
pub struct Writer<'a, 't> {
    /// The trace.
    pub program: &'a Program<'t>,
    /// The group.
    pub group: &'a Group<'t>,
    /// What all groups share.
    pub shared: &'a mut Shared,
    /// The number of the group.
    pub number: usize,
}

/// An argument: what is passed, what has to be said before, and what is done after.
#[derive(Default)]
struct Argument {
    before: Vec<String>,
    text: String,
    after: Vec<String>,
}

impl From<String> for Argument {
    fn from(text: String) -> Argument {
        Argument { text, ..Argument::default() }
    }
}

impl From<&str> for Argument {
    fn from(text: &str) -> Argument {
        text.to_owned().into()
    }
}

/// A value on each of some ranks.
type Over<'v> = Vec<(u32, &'v Value)>;

impl Writer<'_, '_> {
    /// The lines of a call.
    pub fn call(&mut self, at: u32) -> Vec<String> {
        let group = self.group;
        let Some(signature) = group.calls.get(at as usize) else { return Vec::new() };
        if signature.left_out {
            return vec![format!("/* left out: {} */", signature.function.name)];
        }
        let Some(event) = signature.event() else { return Vec::new() };
        match signature.function.name.as_str() {
            "refrain_segment" => return self.segment(at, signature),
            "refrain_release" => return self.release(signature),
            _ if event.is_note() => return Vec::new(),
            _ => {}
        }
        let mut shapes: Vec<(String, Vec<&(u32, Event)>)> = Vec::new();
        for pair in &signature.events {
            let shape = self.shape(signature, &pair.1);
            match shapes.iter_mut().find(|(known, _)| *known == shape) {
                Some((_, events)) => events.push(pair),
                None => shapes.push((shape, vec![pair])),
            }
        }
        let mut lines = Vec::new();
        let count = shapes.len();
        let mut left = group.ranks.clone();
        for (number, (_, events)) in shapes.into_iter().enumerate() {
            let statement = self.statement(at, signature, &events);
            if count == 1 {
                return statement;
            }
            let ranks: Vec<u32> = events.iter().map(|(rank, _)| *rank).collect();
            let mut head = "} else {".to_owned();
            if number + 1 < count {
                let condition = self.ranks().condition(&ranks, &left);
                head = format!("{}if ({condition}) {{", if number > 0 { "} else " } else { "" });
            }
            left.retain(|rank| !ranks.contains(rank));
            lines.push(head);
            lines.extend(statement.into_iter().map(|line| format!("    {line}")));
        }
        lines.push("}".to_owned());
        lines
    }

    fn ranks(&mut self) -> Ranks<'_> {
        Ranks { size: self.program.size, tables: &mut self.shared.tables }
    }

    fn layout(&self) -> &'static Layout {
        self.program.layout()
    }

    /// What has to be equal for calls to be one statement.
    fn shape(&self, signature: &Signature, event: &Event) -> String {
        let mut shape = String::new();
        for (param, def) in signature.function.params.iter().enumerate() {
            let one = |value: Option<&Option<Value>>| match value {
                Some(Some(value)) => shape_of(value, def.class),
                _ => "-".to_owned(),
            };
            shape += &one(event.inputs.get(param));
            if matches!(def.class, Class::Handle | Class::Status | Class::Address) {
                shape += &one(event.outputs.get(param));
            }
            shape.push(',');
        }
        shape
    }

    /// A call of ranks that pass arguments of the same shape.
    fn statement(
        &mut self,
        at: u32,
        signature: &Signature,
        events: &[&(u32, Event)],
    ) -> Vec<String> {
        let Some(function) = signature.mpi else { return Vec::new() };
        let mut arguments = Vec::new();
        for (index, def) in signature.function.params.iter().enumerate() {
            let param = function.params.iter().find(|p| p.name == def.name);
            let inputs: Over<'_> = values(events, |event| event.inputs.get(index));
            let outputs: Over<'_> = values(events, |event| event.outputs.get(index));
            arguments.push(self.argument(at, signature, events, def, param, &inputs, &outputs));
        }
        let mut lines: Vec<String> = Vec::new();
        lines.extend(arguments.iter().flat_map(|a| a.before.iter().cloned()));
        lines.extend(self.attribute(signature, events));
        let texts: Vec<&str> = arguments.iter().map(|a| a.text.as_str()).collect();
        let call = format!("{}({});", function.name, texts.join(", "));
        let is_steered = signature.steps.as_ref().is_some_and(|steps| steps.kind == Kind::Outcome);
        match &signature.steps {
            Some(steps) if is_steered => lines.extend(self.steered(at, steps, &call)),
            _ => lines.push(call),
        }
        if let Some(code) = self.failure_of_callbacks(function, events) {
            lines.insert(0, format!("callbacks_return({code});"));
            lines.push("callbacks_return(MPI_SUCCESS);".to_owned());
        }
        lines.extend(arguments.into_iter().flat_map(|a| a.after));
        if lines.len() > 1 {
            lines = lines.into_iter().map(|line| format!("    {line}")).collect();
            lines.insert(0, "{".to_owned());
            lines.push("}".to_owned());
        }
        lines
    }

    /// What a call gets that reads an attribute of the program.
    fn attribute(&mut self, signature: &Signature, events: &[&(u32, Event)]) -> Option<String> {
        let function = signature.mpi?;
        if function.op() != Op::Attribute(Access::Get) {
            return None;
        }
        let at = |is: &dyn Fn(&ParamDef) -> bool| signature.function.params.iter().position(is);
        let key = at(&|def| def.reads_as == "keyval")?;
        let key: Over<'_> = values(events, |event| event.inputs.get(key));
        let key_def = signature.function.params.iter().find(|def| def.reads_as == "keyval")?;
        self.token(key_def, &key)?;
        let flag = at(&|def| def.reads_as == "bool")?;
        let flags: Vec<(u32, i64)> = values(events, |event| event.outputs.get(flag))
            .iter()
            .map(|(rank, value)| (*rank, value.as_result()))
            .collect();
        let value = at(&|def| def.class == Class::Address)?;
        let value_def = signature.function.params.get(value)?;
        let value: Over<'_> = values(events, |event| event.outputs.get(value));
        let is_value =
            |(_, value): &(u32, &Value)| matches!(value, Value::Word(_) | Value::Location { .. });
        let value = match !value.is_empty() && value.iter().all(is_value) {
            true => self.address(value_def, &value),
            false => "NULL".to_owned(),
        };
        let flag = self.ranks().number(&flags, &|_| None);
        Some(format!("expect_attribute({flag}, {value});"))
    }

    /// What the callbacks of a call returned, if it failed because of them.
    fn failure_of_callbacks(
        &self,
        function: &Function,
        events: &[&(u32, Event)],
    ) -> Option<&'static str> {
        let may_call = matches!(
            function.op(),
            Op::Attribute(_) | Op::Free(_) | Op::Make(Object::Comm | Object::Datatype)
        );
        let (_, event) = events.first().filter(|(_, event)| may_call && event.is_failed())?;
        let name = constant_name(self.program.family, "error", event.error_class?.into())?;
        (name == "MPI_ERR_OTHER").then_some(name)
    }

    /// A call with its recorded outcome.
    fn steered(&mut self, at: u32, steps: &Steps, call: &str) -> Vec<String> {
        let function = self.group.calls.get(at as usize).map(|s| s.function.name.clone());
        let is_enforced = function.is_some_and(|name| outcomes::is_enforced(&name));
        if let Some(outcome) = steps.constant() {
            let says_nothing = outcome.iter().skip(1).take(3).all(|n| *n == outcomes::ANY);
            if says_nothing || !is_enforced {
                return vec![call.to_owned()];
            }
            let name = self.shared.tables.name("long", "always", "[]", &list(outcome));
            return vec![format!("expect((const struct outcome *){name});"), call.to_owned()];
        }
        let outcome = self.next_outcome(at, steps);
        let has_polls = steps
            .visits
            .iter()
            .flat_map(|(_, visits)| visits)
            .any(|visit| visit.first() != Some(&0));
        let mut lines = vec![format!("const struct outcome *outcome = {outcome};")];
        if has_polls && is_enforced {
            lines.push("for (long poll = 0; poll < outcome->failed_polls; poll++) {".to_owned());
            lines.push("    expect_nothing();".to_owned());
            lines.push(format!("    {call}"));
            lines.push("}".to_owned());
        }
        match is_enforced {
            true => lines.push("expect(outcome);".to_owned()),
            false if !call.contains("outcome->") => lines.push("(void)outcome;".to_owned()),
            false => {}
        }
        lines.push(call.to_owned());
        lines
    }

    /// An expression that yields the next outcome of a call.
    fn next_outcome(&mut self, at: u32, steps: &Steps) -> String {
        let name = format!("{}_{at}", self.number);
        let width = steps.width();
        let mut first = vec!["0".to_owned(); self.program.size as usize];
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        let is_defined = format!("static struct outcomes next_{name};");
        if !self.shared.outcomes.contains(&is_defined) {
            for (rank, visits) in &steps.visits {
                let text = list(&runs(visits, width));
                let next = known.len();
                let table = known.entry(text.clone()).or_insert_with(|| {
                    let table = format!("outcomes_{name}_{next}");
                    self.shared.outcomes.push(format!("static const long {table}[] = {text};"));
                    table
                });
                if let Some(first) = first.get_mut(*rank as usize) {
                    table.clone_into(first);
                }
            }
            self.shared.outcomes.push(is_defined);
            let size = self.program.size;
            let all = first.join(", ");
            let table = format!("static const long *const outcomes_{name}[{size}] = {{{all}}};");
            self.shared.outcomes.push(table);
        }
        format!("next_outcome(&next_{name}, outcomes_{name}[rank], {width})")
    }

    #[expect(clippy::too_many_arguments, reason = "all that is known of an argument")]
    fn argument(
        &mut self,
        at: u32,
        signature: &Signature,
        events: &[&(u32, Event)],
        def: &ParamDef,
        param: Option<&Param>,
        inputs: &Over<'_>,
        outputs: &Over<'_>,
    ) -> Argument {
        let is_output = def.direction != Direction::In;
        if is_null(inputs) || is_null(outputs) && def.direction == Direction::Out {
            return self.null(def).into();
        }
        let is_array = def.array;
        match def.class {
            Class::Status => self.status(at, signature, events, def, inputs, outputs),
            Class::Handle if is_array => self.handles(def, inputs, outputs, events),
            Class::Handle => self.one_handle(def, inputs, outputs),
            Class::Memory if signature.function.name.starts_with("MPI_Aint_") => {
                format!("(MPI_Aint){}", self.address(def, inputs)).into()
            }
            Class::Memory if is_freed(signature, inputs) => "released()".into(),
            Class::Memory => self.address(def, inputs).into(),
            Class::Address => self.pointer(signature, def, param, inputs, outputs, is_array),
            Class::Str => self.string(def, param, inputs, events),
            Class::Strings | Class::Strings2 => self.strings(signature, def, inputs),
            _ if is_array => {
                let is_removed = signature.mpi.is_some_and(|function| function.removed);
                let mut argument = self.numbers(def, param, inputs, outputs, events, is_removed);
                if def.name == "ranges" {
                    // Triples of ranks.
                    argument.text = format!("(int (*)[3]){}", argument.text);
                }
                argument
            }
            _ => {
                let ctype = match param.map_or("", |param| param.kind.name) {
                    "SOURCE_ORDERING" => "MPI_T_source_order",
                    _ => number_type(def.class),
                };
                match (is_output, inputs.is_empty()) {
                    (true, true) => self.output(def, ctype, outputs),
                    (true, false) if signature.function.name.starts_with("MPI_Init") => {
                        let number = self.number(def, inputs);
                        Argument {
                            before: vec![format!("int argc = {number};")],
                            text: "&argc".to_owned(),
                            ..Argument::default()
                        }
                    }
                    (true, false) => match self.token(def, inputs) {
                        Some(token) => format!("&{token}").into(),
                        None => format!("&({ctype}){{{}}}", self.number(def, inputs)).into(),
                    },
                    (false, _) => self.number(def, inputs).into(),
                }
            }
        }
    }

    /// A null address, by its name.
    fn null(&self, def: &ParamDef) -> &'static str {
        match def.name.as_str() {
            "array_of_errcodes" => "MPI_ERRCODES_IGNORE",
            "array_of_statuses" => "MPI_STATUSES_IGNORE",
            "status" => "MPI_STATUS_IGNORE",
            _ => "NULL",
        }
    }
}

/// The values of an argument.
fn values<'e>(
    events: &[&'e (u32, Event)],
    value: impl Fn(&'e Event) -> Option<&'e Option<Value>>,
) -> Over<'e> {
    events.iter().filter_map(|(rank, event)| Some((*rank, value(event)?.as_ref()?))).collect()
}

fn is_null(values: &Over<'_>) -> bool {
    !values.is_empty()
        && values.iter().all(|(_, value)| matches!(value, Value::Null | Value::Insignificant))
}

fn nth(value: &Value, at: usize) -> Option<&Value> {
    match value {
        Value::List(all) => all.get(at),
        _ => None,
    }
}

/// A callback that does nothing.
fn callback(function: &str, param: &str) -> String {
    let name = match param {
        "copy_fn" => "comm_copy_attr_fn",
        "delete_fn" => "comm_delete_attr_fn",
        "write_conversion_fn" => "read_conversion_fn",
        name => name,
    };
    let is_large = function.ends_with("_c") && matches!(name, "user_fn" | "read_conversion_fn");
    format!("proxy_{name}{}", if is_large { "_c" } else { "" })
}

/// What has to be equal for values to be passed in the same way.
fn shape_of(value: &Value, class: Class) -> String {
    match value {
        Value::List(all) if class == Class::Status => {
            format!("l{}", all.first().map(|value| shape_of(value, class)).unwrap_or_default())
        }
        Value::List(all) => format!("l{}", all.len()),
        Value::Null | Value::Insignificant => "n".to_owned(),
        Value::Unset => "u".to_owned(),
        Value::Ignored | Value::Status { ignored: true, .. } => "i".to_owned(),
        Value::Special(word) => format!("x{word}"),
        Value::Status { .. } => "s".to_owned(),
        Value::Location { .. } if class == Class::Address => "a".to_owned(),
        Value::Word(_) if class == Class::Address => "w".to_owned(),
        Value::Text(_) => "t".to_owned(),
        Value::Word(word) if class == Class::Handle => match Handle::of(*word) {
            Handle::Predefined => "p".to_owned(),
            Handle::Object { thread, .. } => format!("o{thread}"),
            Handle::Request { thread, .. } => format!("r{thread}"),
        },
        _ => "v".to_owned(),
    }
}

/// Numbers in braces.
fn list(values: &[i64]) -> String {
    let all: Vec<String> = values.iter().map(|value| literal(*value)).collect();
    format!("{{{}}}", all.join(", "))
}

/// Vectors as runs: how often, and the vector, filled up to the width.
fn runs(visits: &[Vec<i64>], width: usize) -> Vec<i64> {
    let mut runs = Vec::new();
    for same in visits.chunk_by(|a, b| a == b) {
        runs.push(same.len() as i64);
        let mut row = same.first().cloned().unwrap_or_default();
        row.resize(width, 0);
        runs.extend(row);
    }
    if runs.is_empty() {
        runs.resize(width + 1, 0);
    }
    runs
}
