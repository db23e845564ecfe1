//! Whether two calls are equal: values of two runs, paired with each other as calls name them.

use crate::difference::Ignored;
use refrain_format::define::ParamDef;
use refrain_format::record::segment;
use refrain_mpi::abi::{Family, Layout};
use refrain_mpi::interface::{Direction, function};
use refrain_mpi::kind::Class;
use refrain_mpi::names::{HandleTable, constant_name, mask_names};
use refrain_mpi::status::StatusFields;
use refrain_reader::{Event, Handle, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// A segment: the thread that first used it, if that is another one, and its number.
type Segment = (Option<u32>, u32);

/// What of one run stands for what of the other.
pub struct Pairing {
    families: [Family; 2],
    names: [Arc<HandleTable>; 2],
    ignored: Ignored,
    /// The kinds of segments.
    kinds: [HashMap<Segment, u8>; 2],
    /// By a segment on the left: that on the right, and the difference of offsets.
    segments: HashMap<Segment, (Segment, i64)>,
    requests: HashMap<u64, u64>,
    /// By the kind of objects and a handle on the left.
    objects: HashMap<(String, u64), u64>,
    /// Numbers that MPI chose, by group of constants.
    tokens: HashMap<(String, i64), i64>,
}

impl Pairing {
    /// Nothing is paired yet.
    pub fn new(families: [Family; 2], names: [Arc<HandleTable>; 2], ignored: Ignored) -> Pairing {
        Pairing {
            families,
            names,
            ignored,
            kinds: Default::default(),
            segments: HashMap::new(),
            requests: HashMap::new(),
            objects: HashMap::new(),
            tokens: HashMap::new(),
        }
    }

    /// A note on one side.
    pub fn note(&mut self, side: usize, note: &Event) {
        let int = |at: usize| match note.inputs.get(at) {
            Some(Some(Value::Int(number))) => *number,
            _ => 0,
        };
        if note.function.name == "refrain_segment" {
            let segment = (None, int(0) as u32);
            self.kinds[side].insert(segment, int(1) as u8);
            match side {
                0 => {
                    self.segments.remove(&segment);
                }
                _ => self.segments.retain(|_, (right, _)| *right != segment),
            }
        }
    }

    /// What differs between two calls, if anything does.
    pub fn difference(&mut self, left: &Event, right: &Event) -> Option<String> {
        let (a, b) = (&left.function.name, &right.function.name);
        if a != b {
            return Some(format!("{a} on the left, {b} on the right"));
        }
        let returned = [left.result.is_some(), right.result.is_some()];
        if returned[0] != returned[1] {
            return Some(format!("{a}: only one of the calls returned"));
        }
        if left.depth != right.depth {
            return Some(format!("{a}: made inside of {} and {} calls", left.depth, right.depth));
        }
        let class = |event: &Event, side: usize| {
            let class = i64::from(event.error_class.unwrap_or(0));
            constant_name(self.families[side], "error", class)
                .map_or(class.to_string(), str::to_owned)
        };
        if left.function.result_reads_as == "error" && class(left, 0) != class(right, 1) {
            return Some(format!("{a}: returned {} and {}", class(left, 0), class(right, 1)));
        }
        for (at, def) in left.function.params.iter().enumerate() {
            let input = [left, right].map(|event| event.inputs.get(at).and_then(Option::as_ref));
            if let Some(what) = self.argument(a, def, input, false) {
                return Some(format!("{a}, {}: {what}", def.name));
            }
            // What a failed call leaves behind means nothing, apart from statuses that have the errors.
            if left.is_failed() && !self.has_errors(left) {
                continue;
            }
            let output = [left, right].map(|event| event.outputs.get(at).and_then(Option::as_ref));
            if let Some(what) = self.argument(a, def, output, true) {
                return Some(format!("{a}, {} after the call: {what}", def.name));
            }
        }
        None
    }

    fn argument(
        &mut self,
        name: &str,
        def: &ParamDef,
        values: [Option<&Value>; 2],
        is_output: bool,
    ) -> Option<String> {
        match values {
            [None, None] => None,
            [Some(left), Some(right)] => {
                let what = self.value(name, def, left, right, is_output);
                (!what).then(|| format!("{left} on the left, {right} on the right"))
            }
            [Some(left), None] => Some(format!("{left} on the left, nothing on the right")),
            [None, Some(right)] => Some(format!("nothing on the left, {right} on the right")),
        }
    }

    /// Whether the statuses of a call of the left trace have the errors.
    fn has_errors(&self, event: &Event) -> bool {
        event.error_class == Some(Layout::of(self.families[0]).err_in_status)
    }

    fn is_same_family(&self) -> bool {
        self.families[0] == self.families[1]
    }

    /// Whether two values stand for the same.
    fn value(
        &mut self,
        name: &str,
        def: &ParamDef,
        left: &Value,
        right: &Value,
        is_output: bool,
    ) -> bool {
        if is_callback(name, def) {
            let is_none = |value: &Value| matches!(value, Value::Null | Value::Word(0));
            return is_none(left) == is_none(right);
        }
        match (left, right) {
            (Value::Int(a), Value::Int(b)) => self.number(name, def, *a, *b, is_output),
            (Value::Word(a), Value::Word(b)) => {
                if is_output && def.direction == Direction::Out {
                    self.tokens.remove(&("address".to_owned(), *a as i64));
                    self.objects.remove(&(def.reads_as.clone(), *a));
                    // A number stands for another request once the first one is complete.
                    self.requests.remove(a);
                }
                self.word(def, *a, *b)
            }
            (Value::Special(a), Value::Special(b)) => self.word(def, *a, *b),
            (Value::Text(a), Value::Text(b)) => {
                let last =
                    |text: &[u8]| text.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
                let is_path = def.name == "filename" || def.name == "argv";
                a == b || is_path && last(a) == last(b) || is_output && !self.is_same_family()
            }
            // MPI may give the neighbours of a graph in any order.
            (Value::List(a), Value::List(b)) if name == "MPI_Dist_graph_neighbors" && is_output => {
                let sorted = |list: &[Value]| {
                    let mut all: Vec<i64> = list.iter().map(Value::as_result).collect();
                    all.sort_unstable();
                    all
                };
                sorted(a) == sorted(b)
            }
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b).all(|(a, b)| self.value(name, def, a, b, is_output))
            }
            (Value::Status { bytes: a, ignored: i }, Value::Status { bytes: b, ignored: j }) => {
                // MPI does not say whether the message of a probe is cancelled.
                i == j && self.status(a, b, !name.ends_with("robe"))
            }
            (
                Value::Location { thread: t, segment: s, offset: a, .. },
                Value::Location { thread: u, segment: r, offset: b, .. },
            ) => self.location((*t, *s), (*u, *r), *a, *b),
            // Whether an argument means nothing here may be said in two ways.
            (Value::Null | Value::Insignificant, Value::Null | Value::Insignificant) => true,
            (left, right) => left == right,
        }
    }

    fn number(&mut self, name: &str, def: &ParamDef, a: i64, b: i64, is_output: bool) -> bool {
        let group = def.reads_as.as_str();
        let named = |value: i64, family: Family| match group {
            "number" | "bool" => None,
            "amode" | "assert" => Some(mask_names(family, group, value)),
            _ => constant_name(family, group, value).map(str::to_owned),
        };
        let (c, d) = (named(a, self.families[0]), named(b, self.families[1]));
        if c.is_some() || d.is_some() {
            return c == d;
        }
        let is_chosen = group == "keyval" || group == "error";
        if is_chosen {
            let key = (group.to_owned(), a);
            if is_output && def.direction == Direction::Out {
                self.tokens.insert(key, b);
                return true;
            }
            return *self.tokens.entry(key).or_insert(b) == b;
        }
        let is_length_of_text = def.name == "resultlen" && !self.is_same_family();
        let is_of_library = name.starts_with("MPI_T_") && !self.is_same_family();
        a == b || is_length_of_text || is_of_library
    }

    fn word(&mut self, def: &ParamDef, a: u64, b: u64) -> bool {
        let name = |side: usize, word: u64| {
            let mut all = self.names[side].entries().filter(|(_, value, _)| *value == word);
            all.next().map(|(_, _, name)| name.to_owned())
        };
        let of_kind = |side: usize, word: u64| {
            let known = self.names[side].name(&def.reads_as, word).map(str::to_owned);
            known.or_else(|| name(side, word))
        };
        if def.class != Class::Handle {
            let is_named = |word: u64| Handle::of(word) == Handle::Predefined && word >> 63 == 0;
            if is_named(a) && is_named(b) && name(0, a).is_some() {
                return name(0, a) == name(1, b);
            }
            let is_pointer = |word: u64| word >= 1 << 20 && Handle::of(word) != Handle::Predefined;
            if is_pointer(a) && is_pointer(b) && self.special(a, 0).is_none() {
                // In no known memory: paired like segments.
                let key = ("address".to_owned(), a as i64);
                return *self.tokens.entry(key).or_insert(b as i64) == b as i64;
            }
            return a == b || !self.is_same_family() && self.special(a, 0) == self.special(b, 1);
        }
        match (Handle::of(a), Handle::of(b)) {
            (Handle::Predefined, Handle::Predefined) => of_kind(0, a) == of_kind(1, b),
            (Handle::Request { .. }, Handle::Request { .. }) => {
                *self.requests.entry(a).or_insert(b) == b
            }
            (Handle::Object { .. }, Handle::Object { .. }) => {
                *self.objects.entry((def.reads_as.clone(), a)).or_insert(b) == b
            }
            _ => false,
        }
    }

    /// What a special address stands for.
    fn special(&self, word: u64, side: usize) -> Option<&'static str> {
        use refrain_mpi::abi::Source;
        let layout = Layout::of(self.families[side]);
        let is = |source: Source| matches!(source, Source::Value(value) if value as u64 == word);
        match () {
            () if is(layout.in_place) => Some("MPI_IN_PLACE"),
            () if word == 0 => Some("MPI_BOTTOM"),
            () => None,
        }
    }

    fn status(&self, a: &[u8], b: &[u8], may_be_cancelled: bool) -> bool {
        let fields =
            |side: usize, bytes: &[u8]| Layout::of(self.families[side]).status.status_fields(bytes);
        let (Some(a), Some(b)) = (fields(0, a), fields(1, b)) else { return false };
        let named = |side: usize, group: &str, value: i32| {
            let name = constant_name(self.families[side], group, value.into());
            name.map_or(value.to_string(), str::to_owned)
        };
        let rest =
            |fields: &StatusFields| (fields.count_bytes, fields.cancelled && may_be_cancelled);
        named(0, "rank", a.source) == named(1, "rank", b.source)
            && named(0, "tag", a.tag) == named(1, "tag", b.tag)
            && named(0, "error", a.error) == named(1, "error", b.error)
            && rest(&a) == rest(&b)
    }

    fn location(&mut self, left: Segment, right: Segment, a: i64, b: i64) -> bool {
        let kinds = [self.kinds[0].get(&left).copied(), self.kinds[1].get(&right).copied()];
        if let [Some(ours), Some(theirs)] = kinds
            && ours != theirs
        {
            return false;
        }
        let kind = kinds[0].or(kinds[1]);
        if kind == Some(segment::STACK) && self.ignored.stack_buffers {
            return true;
        }
        let is_movable = !matches!(kind, Some(segment::HEAP | segment::MAPPED));
        let shift = b.wrapping_sub(a);
        if !is_movable && shift != 0 {
            return false;
        }
        *self.segments.entry(left).or_insert((right, shift)) == (right, shift)
    }
}

/// Whether an argument is a function of the program.
fn is_callback(name: &str, def: &ParamDef) -> bool {
    def.class == Class::Address
        && function(name)
            .and_then(|function| function.param(&def.name))
            .is_some_and(|param| param.kind.name.ends_with("FUNCTION"))
}
