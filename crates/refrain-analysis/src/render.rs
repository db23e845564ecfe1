//! A call as a line of text, and as JSON.
//!
//! ```text
//! MPI_Irecv(buf=0x7ffd…, count=128, datatype=MPI_DOUBLE, source=2, tag=7, comm=MPI_COMM_WORLD, request=r1) = SUCCESS
//! ```

use crate::objects::{CallNames, Objects};
use refrain_format::define::ParamDef;
use refrain_mpi::abi::{Family, Layout, Source};
use refrain_mpi::kind::Class;
use refrain_mpi::names::{constant_name_in, mask_names};
use refrain_reader::event::{Event, Value};
use serde_json::{Map, Value as Json, json};

/// Longer arrays are shortened in text, unless `full` is set.
const SHOWN_ELEMENTS: usize = 16;

/// The source and the tag of a status if MPI does not define them: a trace does not store them.
const NOT_KEPT: i32 = i32::MIN;

/// How calls are printed.
pub struct Renderer {
    family: Family,
    version: Option<(u32, u32)>,
    full: bool,
}

/// A value that can be printed as text or JSON.
enum Shown {
    Number(i64),
    Bool(bool),
    Word(String),
    Text(String),
    List(Vec<Shown>),
    Record(Vec<(&'static str, Shown)>),
}

impl Renderer {
    /// For calls of that ABI family, and of that version of its library if it is known; `full`
    /// prints every element of arrays.
    pub fn new(family: Family, version: Option<(u32, u32)>, full: bool) -> Renderer {
        Renderer { family, version, full }
    }

    fn constant_name(&self, group: &str, value: i64) -> Option<&'static str> {
        constant_name_in(self.family, self.version, group, value)
    }

    /// The call as text, without rank and number. For a call that has not returned, output parameters are omitted.
    pub fn text(&self, event: &Event, objects: &Objects, names: &CallNames) -> String {
        let params = event.function.params.iter().enumerate();
        let shown: Vec<String> = params
            .filter_map(|(i, p)| {
                let values = self.values(event, objects, names, i);
                let text = match values {
                    (Some(before), Some(after)) => {
                        let (before, after) = (self.line(&before), self.line(&after));
                        if before == after { after } else { format!("{before}→{after}") }
                    }
                    (Some(value), None) | (None, Some(value)) => self.line(&value),
                    (None, None) if event.result.is_none() => return None,
                    (None, None) => "?".to_owned(),
                };
                Some(format!("{}={text}", p.name))
            })
            .collect();
        format!("{}({}) = {}", event.function.name, shown.join(", "), self.result(event))
    }

    /// The arguments as JSON; a value that the call changed shows as `{"before", "after"}`.
    pub fn arguments(&self, event: &Event, objects: &Objects, names: &CallNames) -> Json {
        let mut arguments = Map::new();
        for (i, p) in event.function.params.iter().enumerate() {
            let value = match self.values(event, objects, names, i) {
                (Some(before), Some(after)) => {
                    let (before, after) = (to_json(before), to_json(after));
                    if before == after { after } else { json!({"before": before, "after": after}) }
                }
                (Some(value), None) | (None, Some(value)) => to_json(value),
                (None, None) => Json::Null,
            };
            arguments.insert(p.name.clone(), value);
        }
        Json::Object(arguments)
    }

    /// The result of the call, by name.
    pub fn result(&self, event: &Event) -> String {
        let Some(result) = event.result else {
            return "? (never returned)".to_owned();
        };
        if event.function.result_reads_as != "error" {
            return result.to_string();
        }
        let class = event.error_class.unwrap_or(0).into();
        match self.constant_name("error", class) {
            Some(name) => name.trim_start_matches("MPI_").to_owned(),
            None => format!("error {result}"),
        }
    }

    /// The values of a parameter to show: before the call and after it.
    fn values(
        &self,
        event: &Event,
        objects: &Objects,
        names: &CallNames,
        i: usize,
    ) -> (Option<Shown>, Option<Shown>) {
        let p = &event.function.params[i];
        let show = |value: &Option<Value>, names: &[String]| {
            value.as_ref().map(|v| self.show(event, objects, p, v, names))
        };
        let before = show(&event.inputs[i], &names.before[i]);
        let after = show(&event.outputs[i], &names.after[i]);
        match (before, after) {
            // A failed call leaves no valid handle.
            (None, Some(_)) if p.class == Class::Handle && event.is_failed() => {
                (None, Some(Shown::Word("unset".to_owned())))
            }
            // A freed handle is shown by its name before the call.
            (Some(before), Some(_)) if p.class == Class::Handle => (Some(before), None),
            both => both,
        }
    }

    fn show(
        &self,
        event: &Event,
        objects: &Objects,
        p: &ParamDef,
        value: &Value,
        names: &[String],
    ) -> Shown {
        let mut names = names.iter();
        self.show_with(event, objects, p, value, &mut names)
    }

    fn show_with<'n>(
        &self,
        event: &Event,
        objects: &Objects,
        p: &ParamDef,
        value: &Value,
        names: &mut impl Iterator<Item = &'n String>,
    ) -> Shown {
        let word = |text: &str| Shown::Word(text.to_owned());
        match value {
            Value::Int(n) => self.number(p, *n),
            Value::Word(_) if p.class == Class::Handle => match names.next() {
                Some(name) => Shown::Word(name.clone()),
                None => word("?"),
            },
            Value::Word(address) | Value::Special(address) => {
                Shown::Word(self.address(event, objects, p, *address))
            }
            Value::Location { name, offset, .. } => Shown::Word(location(name, *offset)),
            Value::Null if p.name == "array_of_errcodes" => word("MPI_ERRCODES_IGNORE"),
            Value::Null => word("NULL"),
            Value::Unset => word("unset"),
            Value::Insignificant => word("insignificant"),
            Value::Text(bytes) => Shown::Text(String::from_utf8_lossy(bytes).into_owned()),
            Value::List(all) => {
                let each = |v| self.show_with(event, objects, p, v, names);
                Shown::List(all.iter().map(each).collect())
            }
            Value::Ignored if p.array => word("MPI_STATUSES_IGNORE"),
            Value::Ignored => word("MPI_STATUS_IGNORE"),
            Value::Status { bytes, ignored } => self.status(event, bytes, *ignored),
        }
    }

    fn number(&self, p: &ParamDef, n: i64) -> Shown {
        let group = p.reads_as.as_str();
        match group {
            "bool" => return Shown::Bool(n != 0),
            "amode" | "assert" => return Shown::Word(mask_names(self.family, group, n)),
            "number" => return Shown::Number(n),
            _ => {}
        }
        match self.constant_name(group, n) {
            Some(name) => Shown::Word(name.to_owned()),
            None => Shown::Number(n),
        }
    }

    fn address(&self, event: &Event, objects: &Objects, p: &ParamDef, address: u64) -> String {
        let layout = Layout::of(self.family);
        let is = |source: Source| matches!(source, Source::Value(v) if v as u64 == address);
        let moves_data = event.function.params.iter().any(|q| q.reads_as == "datatype");
        if p.class == Class::Memory && is(layout.in_place) {
            return "MPI_IN_PLACE".to_owned();
        }
        if let Some(name) = objects.predefined("address", address).filter(|_| p.array) {
            return name.to_owned();
        }
        if let Some(name) = objects.predefined(&p.name, address) {
            return name.to_owned();
        }
        match address {
            0 if p.class == Class::Memory && moves_data => "MPI_BOTTOM".to_owned(),
            0 => "NULL".to_owned(),
            _ => format!("{address:#x}"),
        }
    }

    fn status(&self, event: &Event, bytes: &[u8], ignored: bool) -> Shown {
        let layout = Layout::of(self.family);
        let Some(fields) = layout.status.status_fields(bytes) else {
            return Shown::Word("?".to_owned());
        };
        let named = |group, n: i32| match self.constant_name(group, n.into()) {
            Some(name) => Shown::Word(name.to_owned()),
            None if n == NOT_KEPT => Shown::Word("undefined".to_owned()),
            None => Shown::Number(n.into()),
        };
        // For file access MPI only defines the length.
        let of_message = !event.function.name.starts_with("MPI_File_");
        let mut record = Vec::new();
        if of_message {
            record.push(("source", named("rank", fields.source)));
            record.push(("tag", named("tag", fields.tag)));
        }
        if let Some(count) = fields.count_bytes {
            record.push(("bytes", Shown::Number(count)));
        }
        if fields.cancelled && of_message {
            record.push(("cancelled", Shown::Bool(true)));
        }
        if event.result == Some(layout.err_in_status.into())
            || event.error_class == Some(layout.err_in_status)
        {
            let class = layout.error_class(fields.error).unwrap_or(fields.error);
            record.push(("error", named("error", class)));
        }
        if ignored {
            record.push(("ignored", Shown::Bool(true)));
        }
        Shown::Record(record)
    }

    fn line(&self, shown: &Shown) -> String {
        match shown {
            Shown::Number(n) => n.to_string(),
            Shown::Bool(b) => b.to_string(),
            Shown::Word(word) => word.clone(),
            Shown::Text(text) => format!("{text:?}"),
            Shown::List(all) if !self.full && all.len() > SHOWN_ELEMENTS => {
                let head: Vec<_> = all[..SHOWN_ELEMENTS].iter().map(|s| self.line(s)).collect();
                format!("[{}, … {} in all]", head.join(", "), all.len())
            }
            Shown::List(all) => {
                let all: Vec<_> = all.iter().map(|s| self.line(s)).collect();
                format!("[{}]", all.join(", "))
            }
            Shown::Record(fields) => {
                let fields: Vec<_> =
                    fields.iter().map(|(name, s)| format!("{name}={}", self.line(s))).collect();
                format!("{{{}}}", fields.join(", "))
            }
        }
    }
}

/// A segment and an offset: `heap3+0x40`, `stack-0x18`.
fn location(name: &str, offset: i64) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    match offset {
        0 => name.to_owned(),
        _ => format!("{name}{sign}{:#x}", offset.unsigned_abs()),
    }
}

fn to_json(shown: Shown) -> Json {
    match shown {
        Shown::Number(n) => n.into(),
        Shown::Bool(b) => b.into(),
        Shown::Word(word) if word == "NULL" => Json::Null,
        Shown::Word(text) | Shown::Text(text) => text.into(),
        Shown::List(all) => all.into_iter().map(to_json).collect(),
        Shown::Record(fields) => {
            Json::Object(fields.into_iter().map(|(n, s)| (n.to_owned(), to_json(s))).collect())
        }
    }
}
