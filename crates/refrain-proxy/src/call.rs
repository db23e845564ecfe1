//! A call as a statement of C.

use crate::formula::{Ranks, Tables, literal};
use crate::names;
use crate::outcomes::{self, Kind, Steps};
use crate::program::{Group, Program, Signature};
use refrain_format::define::ParamDef;
use refrain_mpi::abi::{Layout, Source};
use refrain_mpi::interface::{Direction, Function, Param};
use refrain_mpi::kind::Class;
use refrain_mpi::length::Length;
use refrain_mpi::names::{constant_name, mask_names};
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

    /// Memory that came into use.
    fn segment(&mut self, at: u32, signature: &Signature) -> Vec<String> {
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
    fn bytes(&mut self, at: u32, signature: &Signature) -> String {
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

    fn release(&mut self, signature: &Signature) -> Vec<String> {
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

    /// A number that MPI chose: the variable that holds it.
    fn token(&mut self, def: &ParamDef, values: &Over<'_>) -> Option<String> {
        let mut numbers = Vec::new();
        for (rank, value) in values {
            let Value::Int(value) = value else { return None };
            let key = (*rank, def.reads_as.clone(), *value);
            numbers.push((*rank, *self.group.tokens.get(&key)?));
        }
        let most = numbers.iter().map(|(_, number)| *number).max()?;
        let known = self.shared.tokens.entry(def.reads_as.clone()).or_default();
        *known = (*known).max(most + 1);
        let number = self.ranks().number(&numbers, &|_| None);
        let array = if def.reads_as == "keyval" { "keyval" } else { "code" };
        Some(format!("{array}[{number}]"))
    }

    fn output(&mut self, def: &ParamDef, ctype: &str, outputs: &Over<'_>) -> Argument {
        match self.token(def, outputs).filter(|_| !outputs.is_empty()) {
            Some(token) => format!("&{token}").into(),
            None => format!("&({ctype}){{0}}").into(),
        }
    }

    fn number(&mut self, def: &ParamDef, values: &Over<'_>) -> String {
        if let Some(token) = self.token(def, values).filter(|_| !values.is_empty()) {
            return token;
        }
        if values.iter().any(|(_, value)| !matches!(value, Value::Int(_))) {
            // A number that is an address.
            return format!("(MPI_Aint){}", self.address(def, values));
        }
        let family = self.program.family;
        let group = def.reads_as.clone();
        let numbers: Vec<(u32, i64)> =
            values.iter().map(|(rank, v)| (*rank, v.as_result())).collect();
        self.ranks().number(&numbers, &|value| names::number(family, &group, value))
    }

    /// An array of numbers.
    fn numbers(
        &mut self,
        def: &ParamDef,
        param: Option<&Param>,
        inputs: &Over<'_>,
        outputs: &Over<'_>,
        events: &[&(u32, Event)],
        is_removed: bool,
    ) -> Argument {
        let ctype = number_type(def.class);
        let is_named = |values: &Over<'_>| {
            matches!(values.first(), Some((_, Value::Special(_) | Value::Word(_))))
        };
        if def.direction == Direction::Out && is_named(outputs) {
            return self.address(def, outputs).into();
        }
        if def.direction == Direction::Out {
            let length = self.length(param, outputs, events);
            return format!("({ctype}[{length}]){{0}}").into();
        }
        if let Some((_, Value::Special(_) | Value::Word(_))) = inputs.first() {
            return self.address(def, inputs).into();
        }
        let Some((_, Value::List(first))) = inputs.first() else { return self.null(def).into() };
        let length = first.len();
        if length == 0 {
            return format!("({ctype}[1]){{0}}").into();
        }
        let is_plain = inputs.iter().all(|(_, value)| match value {
            Value::List(all) => all.iter().all(|value| matches!(value, Value::Int(_))),
            _ => false,
        });
        let is_same = inputs.iter().all(|(_, value)| **value == *inputs[0].1);
        // Some functions do not promise to leave their inputs as they are.
        let is_constant =
            def.direction == Direction::In && !is_removed && def.name != "array_of_partitions";
        if is_plain
            && is_same
            && length > LONGEST_LIST
            && def.direction == Direction::In
            && let Some(text) = sequence(ctype, inputs[0].1)
        {
            return text.into();
        }
        if is_plain && length > LONGEST_LIST && is_constant {
            return self.table(def, ctype, inputs, is_same).into();
        }
        let mut elements = Vec::with_capacity(length);
        for at in 0..length {
            let column: Over<'_> =
                inputs.iter().filter_map(|(r, v)| Some((*r, nth(v, at)?))).collect();
            elements.push(self.number(def, &column));
        }
        format!("({ctype}[]){{{}}}", elements.join(", ")).into()
    }

    /// A long array of numbers.
    fn table(&mut self, def: &ParamDef, ctype: &str, inputs: &Over<'_>, is_same: bool) -> String {
        let family = self.program.family;
        let text = |value: &Value| -> String {
            let row: Vec<String> = match value {
                Value::List(all) => all
                    .iter()
                    .map(|value| {
                        let number = value.as_result();
                        names::number(family, &def.reads_as, number)
                            .unwrap_or_else(|| literal(number))
                    })
                    .collect(),
                _ => Vec::new(),
            };
            format!("{{{}}}", row.join(", "))
        };
        let Some((_, Value::List(first))) = inputs.first() else { return "NULL".to_owned() };
        let length = first.len();
        if is_same {
            let elements = text(inputs[0].1);
            return self.shared.tables.name(ctype, "list", &format!("[{length}]"), &elements);
        }
        let mut rows = vec!["{0}".to_owned(); self.program.size as usize];
        for (rank, value) in inputs {
            if let Some(row) = rows.get_mut(*rank as usize) {
                *row = text(value);
            }
        }
        let dimensions = format!("[{}][{length}]", self.program.size);
        let elements = format!("{{{}}}", rows.join(", "));
        format!("{}[rank]", self.shared.tables.name(ctype, "lists", &dimensions, &elements))
    }

    /// How many elements an array needs that MPI fills in.
    fn length(&self, param: Option<&Param>, outputs: &Over<'_>, events: &[&(u32, Event)]) -> usize {
        let recorded = outputs.iter().map(|(_, value)| match value {
            Value::List(all) => all.len(),
            _ => 0,
        });
        let name = param.and_then(|param| match &param.length {
            Some(Length::Param(name, times)) => Some((name, *times)),
            Some(Length::Min(name, _)) => Some((name, 1)),
            _ => None,
        });
        let passed = name.map_or(0, |(name, times)| {
            let of = |(_, event): &&(u32, Event)| {
                let at = event.function.params.iter().position(|p| p.name == *name)?;
                match event.inputs.get(at)? {
                    Some(Value::Int(n)) => usize::try_from(*n).ok().map(|n| n * times),
                    _ => None,
                }
            };
            events.iter().filter_map(of).max().unwrap_or(0)
        });
        recorded.max().unwrap_or(0).max(passed).max(1)
    }

    /// An object.
    fn object(&mut self, def: &ParamDef, values: &Over<'_>) -> String {
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
    fn of_thread(&self, thread: Option<u32>, object: String) -> String {
        match thread.is_none_or(|thread| thread == self.group.thread) {
            true => object,
            false => format!("OTHER({object})"),
        }
    }

    fn object_text(&mut self, kind: &str, word: u64) -> String {
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
    fn variable(&mut self, kind: &str, word: u64) -> Option<(u32, i64)> {
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

    fn one_handle(&mut self, def: &ParamDef, inputs: &Over<'_>, outputs: &Over<'_>) -> Argument {
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
    fn has_borrowed_types(&self) -> bool {
        let is_it = |name: &str| name.starts_with("MPI_Type_get_contents");
        self.group.calls.iter().any(|call| is_it(&call.function.name))
    }

    /// An array of objects.
    fn handles(
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
    fn neighbours(&mut self, def: &ParamDef, values: &Over<'_>) -> Option<String> {
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

    /// An address in memory.
    fn address(&mut self, def: &ParamDef, values: &Over<'_>) -> String {
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
    fn pointer_variable(&mut self, values: &Over<'_>) -> Option<String> {
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

    fn address_text(&mut self, def: &ParamDef, value: &Value) -> String {
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
    fn pointer(
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

    fn string(
        &mut self,
        def: &ParamDef,
        param: Option<&Param>,
        inputs: &Over<'_>,
        events: &[&(u32, Event)],
    ) -> Argument {
        if def.direction == Direction::Out {
            let length = match param.and_then(|param| param.length.as_ref()) {
                Some(Length::Param(..)) => {
                    let passed = self.length(param, &Vec::new(), events);
                    (passed + 1).max(256)
                }
                _ => 8192,
            };
            return format!("(char[{length}]){{0}}").into();
        }
        let texts: Vec<(u32, String)> = inputs
            .iter()
            .map(|(rank, value)| match value {
                Value::Text(text) => (*rank, names::text(text)),
                _ => (*rank, "NULL".to_owned()),
            })
            .collect();
        let text = self.ranks().choice(&texts);
        let is_open = events.iter().any(|(_, event)| event.function.name == "MPI_File_open");
        match def.name.as_str() {
            "filename" if events.iter().any(|(_, event)| is_file_missing(event, self.layout())) => {
                format!("missing({text})").into()
            }
            "filename" if text.starts_with("\"/dev/") => format!("(char *){text}").into(),
            "filename"
                if is_open && !events.iter().any(|(_, event)| creates(event, self.layout())) =>
            {
                format!("existing({text})").into()
            }
            "filename" => format!("scratch({text})").into(),
            _ => text.into(),
        }
    }

    /// Arrays of strings: the arguments of the program.
    fn strings(&mut self, signature: &Signature, def: &ParamDef, inputs: &Over<'_>) -> Argument {
        let Some((_, Value::List(first))) = inputs.first() else { return "NULL".into() };
        let mut words = Vec::new();
        for at in 0..first.len() {
            let texts: Vec<(u32, String)> = inputs
                .iter()
                .map(|(rank, value)| match nth(value, at) {
                    Some(Value::Text(text)) => (*rank, names::text(text)),
                    _ => (*rank, "NULL".to_owned()),
                })
                .collect();
            words.push(self.ranks().choice(&texts));
        }
        if !signature.function.name.starts_with("MPI_Init") {
            return format!("(char *[]){{{}, NULL}}", words.join(", ")).into();
        }
        let name = &def.name;
        let words: Vec<String> = words.iter().map(|word| format!("(char *){word}")).collect();
        let words = if words.is_empty() { String::new() } else { words.join(", ") + ", " };
        Argument {
            before: vec![
                format!("char *words[] = {{{words}NULL}};"),
                format!("char **{name} = words;"),
            ],
            text: format!("&{name}"),
            after: Vec::new(),
        }
    }

    fn status(
        &mut self,
        at: u32,
        signature: &Signature,
        events: &[&(u32, Event)],
        def: &ParamDef,
        inputs: &Over<'_>,
        outputs: &Over<'_>,
    ) -> Argument {
        if def.direction != Direction::Out {
            let Some((_, Value::Status { .. })) = inputs.first() else {
                return match def.direction {
                    Direction::In => "MPI_STATUS_IGNORE".into(),
                    _ => "&(MPI_Status){0}".into(),
                };
            };
            let Some(steps) = &signature.steps else { return "MPI_STATUS_IGNORE".into() };
            let make =
                if def.direction == Direction::In { "status_of" } else { "status_to_change" };
            if let Some(fields) = steps.constant() {
                let table = self.shared.tables.name("long", "always", "[]", &list(fields));
                return format!("{make}({table})").into();
            }
            let next = self.next_outcome(at, steps);
            return format!("{make}((const long *){next})").into();
        }
        let is_ignored = |value: &Value| match value {
            Value::Ignored => true,
            Value::Status { ignored, .. } => *ignored,
            Value::List(all) => all
                .iter()
                .any(|v| matches!(v, Value::Ignored | Value::Status { ignored: true, .. })),
            _ => false,
        };
        let count = |(_, event): &&(u32, Event)| {
            event.inputs.iter().flatten().find_map(|value| match value {
                Value::List(all) => Some(all.len()),
                _ => None,
            })
        };
        let count = events.iter().filter_map(count).max().unwrap_or(1).max(1);
        if signature.steps.as_ref().is_some_and(Steps::ignores_vary) {
            return match def.array {
                true => format!(
                    "outcome->ignores_status ? MPI_STATUSES_IGNORE : (MPI_Status[{count}]){{0}}"
                ),
                false => {
                    "outcome->ignores_status ? MPI_STATUS_IGNORE : &(MPI_Status){0}".to_owned()
                }
            }
            .into();
        }
        // A poll that failed has no status.
        let of_visit = signature
            .steps
            .as_ref()
            .filter(|steps| steps.kind == Kind::Outcome)
            .and_then(|steps| steps.visits.iter().find_map(|(_, visits)| visits.first()))
            .and_then(|visit| visit.get(outcomes::IGNORES));
        let is_ignored = match of_visit {
            Some(ignores) => *ignores != 0,
            None => outputs.iter().any(|(_, value)| is_ignored(value)),
        };
        if is_ignored {
            return if def.array { "MPI_STATUSES_IGNORE" } else { "MPI_STATUS_IGNORE" }.into();
        }
        if !def.array {
            return "&(MPI_Status){0}".into();
        }
        format!("(MPI_Status[{count}]){{0}}").into()
    }
}

/// Whether a call failed because a file or folder does not exist.
fn is_file_missing(event: &Event, layout: &Layout) -> bool {
    let class = event.error_class.map(i64::from).filter(|class| *class != 0);
    let name = class.and_then(|class| constant_name(layout.family, "error", class));
    matches!(
        name,
        Some(
            "MPI_ERR_NO_SUCH_FILE"
                | "MPI_ERR_BAD_FILE"
                | "MPI_ERR_IO"
                | "MPI_ERR_OTHER"
                | "MPI_ERR_FILE"
        )
    )
}

/// Whether a call makes a file, or wants none.
fn creates(event: &Event, layout: &Layout) -> bool {
    let mode = event.function.params.iter().position(|p| p.reads_as == "amode");
    match mode.and_then(|at| event.inputs.get(at)) {
        Some(Some(Value::Int(mode))) => {
            mask_names(layout.family, "amode", *mode).contains("MPI_MODE_CREATE")
                || event.is_failed()
        }
        _ => event.is_failed(),
    }
}

/// Whether a call frees memory that the trace has released before.
fn is_freed(signature: &Signature, inputs: &Over<'_>) -> bool {
    let is_raw = |value: &Value| matches!(value, Value::Word(word) if Handle::of(*word) != Handle::Predefined);
    let frees = signature.mpi.is_some_and(|function| function.op() == Op::Deallocate);
    frees && inputs.iter().all(|(_, value)| is_raw(value) && **value != Value::Word(0))
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

fn number_type(class: Class) -> &'static str {
    match class {
        Class::Aint => "MPI_Aint",
        Class::Count => "MPI_Count",
        Class::Offset => "MPI_Offset",
        _ => "int",
    }
}

fn null_handle(kind: &str) -> String {
    match kind {
        "datatype" => "MPI_DATATYPE_NULL".to_owned(),
        kind => format!("MPI_{}_NULL", kind.to_uppercase()),
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

/// A long array whose elements have equal distances.
fn sequence(ctype: &str, value: &Value) -> Option<String> {
    let Value::List(all) = value else { return None };
    let [first, second, ..] = all.as_slice() else { return None };
    let (first, second) = (first.as_result(), second.as_result());
    let step = second.wrapping_sub(first);
    let numbers = || all.iter().map(Value::as_result);
    let is_one = numbers().zip(numbers().skip(1)).all(|(a, b)| b.wrapping_sub(a) == step);
    let (count, first, step) = (all.len(), literal(first), literal(step));
    is_one.then(|| format!("({ctype} *)sequence(sizeof({ctype}), {count}, {first}, {step})"))
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
