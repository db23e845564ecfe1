//! Numbers among the arguments, one or many.

use super::{Argument, LONGEST_LIST, Over, Writer, nth};
use crate::formula::literal;
use crate::names;
use refrain_format::define::ParamDef;
use refrain_mpi::interface::{Direction, Param};
use refrain_mpi::kind::Class;
use refrain_mpi::length::Length;
use refrain_reader::{Event, Value};

impl Writer<'_, '_> {
    /// A number that MPI chose: the variable that holds it.
    pub(super) fn token(&mut self, def: &ParamDef, values: &Over<'_>) -> Option<String> {
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

    pub(super) fn output(&mut self, def: &ParamDef, ctype: &str, outputs: &Over<'_>) -> Argument {
        match self.token(def, outputs).filter(|_| !outputs.is_empty()) {
            Some(token) => format!("&{token}").into(),
            None => format!("&({ctype}){{0}}").into(),
        }
    }

    pub(super) fn number(&mut self, def: &ParamDef, values: &Over<'_>) -> String {
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
    pub(super) fn numbers(
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
    pub(super) fn table(
        &mut self,
        def: &ParamDef,
        ctype: &str,
        inputs: &Over<'_>,
        is_same: bool,
    ) -> String {
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
    pub(super) fn length(
        &self,
        param: Option<&Param>,
        outputs: &Over<'_>,
        events: &[&(u32, Event)],
    ) -> usize {
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
}

/// A long array whose elements have equal distances.
pub(super) fn sequence(ctype: &str, value: &Value) -> Option<String> {
    let Value::List(all) = value else { return None };
    let [first, second, ..] = all.as_slice() else { return None };
    let (first, second) = (first.as_result(), second.as_result());
    let step = second.wrapping_sub(first);
    let numbers = || all.iter().map(Value::as_result);
    let is_one = numbers().zip(numbers().skip(1)).all(|(a, b)| b.wrapping_sub(a) == step);
    let (count, first, step) = (all.len(), literal(first), literal(step));
    is_one.then(|| format!("({ctype} *)sequence(sizeof({ctype}), {count}, {first}, {step})"))
}

pub(super) fn number_type(class: Class) -> &'static str {
    match class {
        Class::Aint => "MPI_Aint",
        Class::Count => "MPI_Count",
        Class::Offset => "MPI_Offset",
        _ => "int",
    }
}
