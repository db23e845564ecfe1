//! Sizes of datatypes: how many bytes one element is, without the gaps between them.
//!
//! The sizes of predefined datatypes are those of 64-bit Linux, and of Fortran compilers by default. The sizes of
//! derived datatypes follow from their constructors. A trace gives the number of a freed datatype to the next one.
//! If that one has another size, the number is ambiguous, and the size is unknown.

use crate::event::{Event, Value};
use refrain_mpi::datatypes::predefined_size;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::names::HandleTable;
use std::collections::{BTreeMap, HashMap};

/// The kind of handles that are datatypes.
pub const DATATYPE: &str = "datatype";

/// A datatype that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datatype {
    /// A predefined one and its size, if that is known.
    Predefined(Option<u64>),
    /// A derived one.
    Derived(u64),
}

impl Datatype {
    /// The datatype of a handle.
    pub fn of(handle: u64, names: &HandleTable) -> Datatype {
        match names.name(DATATYPE, handle) {
            Some(name) => Datatype::Predefined(predefined_size(name)),
            None => Datatype::Derived(handle),
        }
    }
}

/// A sequence of elements: how many, and of which datatype.
pub type Elements = Vec<(u64, Datatype)>;

/// The sizes of the derived datatypes of a process.
#[derive(Debug, Default)]
pub struct Sizes {
    /// For each handle, the elements of every datatype that had it; none where these are not known.
    made: BTreeMap<u64, Vec<Option<Elements>>>,
    sizes: HashMap<u64, u64>,
}

impl Sizes {
    /// From the calls that make datatypes, each with the names of its handles.
    pub fn new<'a>(calls: impl IntoIterator<Item = (Event, &'a HandleTable)>) -> Sizes {
        let mut sizes = Sizes::default();
        for (event, names) in calls {
            sizes.note(&event, names);
        }
        // Datatypes are mostly made of earlier ones, and one pass is enough.
        loop {
            let settled = |(handle, ways): (&u64, &Vec<Option<Elements>>)| {
                let size = |way: &Option<Elements>| sizes.bytes(way.as_ref()?);
                let first = size(ways.first()?)?;
                let is_new = !sizes.sizes.contains_key(handle);
                (is_new && ways.iter().all(|way| size(way) == Some(first)))
                    .then_some((*handle, first))
            };
            let new: Vec<_> = sizes.made.iter().filter_map(settled).collect();
            if new.is_empty() {
                return sizes;
            }
            sizes.sizes.extend(new);
        }
    }

    fn note(&mut self, event: &Event, names: &HandleTable) {
        if event.is_failed() {
            return;
        }
        for (param, value) in event.function.params.iter().zip(&event.outputs) {
            if param.reads_as != DATATYPE || param.direction != Direction::Out {
                continue;
            }
            let handles = match value {
                Some(Value::List(all)) => all.as_slice(),
                Some(value) => std::slice::from_ref(value),
                None => &[],
            };
            for handle in handles {
                if let Value::Word(handle) = handle
                    && let Datatype::Derived(handle) = Datatype::of(*handle, names)
                {
                    self.made.entry(handle).or_default().push(made_of(event, names));
                }
            }
        }
    }

    /// The bytes of some elements, if the sizes of all are known.
    pub fn bytes(&self, elements: &[(u64, Datatype)]) -> Option<u64> {
        elements.iter().try_fold(0u64, |sum, (count, datatype)| {
            let size = match datatype {
                _ if *count == 0 => 0,
                Datatype::Predefined(size) => (*size)?,
                Datatype::Derived(handle) => *self.sizes.get(handle)?,
            };
            sum.checked_add(count.checked_mul(size)?)
        })
    }
}

/// Whether a function returns datatypes, which may be new.
pub fn makes_datatypes(function: &refrain_format::define::FunctionDef) -> bool {
    let makes = |p: &refrain_format::define::ParamDef| {
        p.class == Class::Handle && p.reads_as == DATATYPE && p.direction == Direction::Out
    };
    function.params.iter().any(makes)
}

/// The elements of the datatype that a constructor makes.
fn made_of(event: &Event, names: &HandleTable) -> Option<Elements> {
    let number = |name| numbers(event, name)?.first().copied();
    let name = event.function.name.as_str();
    let elements = match name.strip_suffix("_c").unwrap_or(name) {
        "MPI_Type_dup" | "MPI_Type_create_resized" => 1,
        "MPI_Type_contiguous" => number("count")?,
        "MPI_Type_vector"
        | "MPI_Type_create_hvector"
        | "MPI_Type_hvector"
        | "MPI_Type_create_indexed_block"
        | "MPI_Type_create_hindexed_block" => {
            number("count")?.checked_mul(number("blocklength")?)?
        }
        "MPI_Type_indexed" | "MPI_Type_create_hindexed" | "MPI_Type_hindexed" => {
            numbers(event, "array_of_blocklengths")?.iter().sum()
        }
        "MPI_Type_create_subarray" => {
            let sides = numbers(event, "array_of_subsizes")?;
            sides.iter().try_fold(1u64, |all, side| all.checked_mul(*side))?
        }
        "MPI_Type_create_struct" | "MPI_Type_struct" => {
            let lengths = numbers(event, "array_of_blocklengths")?;
            let datatypes = datatypes(event, "array_of_types", names)?;
            return Some(lengths.into_iter().zip(datatypes).collect());
        }
        _ => return None,
    };
    Some(vec![(elements, *datatypes(event, "oldtype", names)?.first()?)])
}

/// The input of a parameter: numbers that count something.
fn numbers(event: &Event, name: &str) -> Option<Vec<u64>> {
    counts(input(event, name)?)
}

/// One or several numbers that count something.
pub fn counts(value: &Value) -> Option<Vec<u64>> {
    let count = |value: &Value| match value {
        Value::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    };
    match value {
        Value::List(all) => all.iter().map(count).collect(),
        value => count(value).map(|count| vec![count]),
    }
}

fn datatypes(event: &Event, name: &str, names: &HandleTable) -> Option<Vec<Datatype>> {
    handles(input(event, name)?, names)
}

/// One or several datatypes.
pub fn handles(value: &Value, names: &HandleTable) -> Option<Vec<Datatype>> {
    let datatype = |value: &Value| match value {
        Value::Word(handle) => Some(Datatype::of(*handle, names)),
        _ => None,
    };
    match value {
        Value::List(all) => all.iter().map(datatype).collect(),
        value => datatype(value).map(|datatype| vec![datatype]),
    }
}

fn input<'a>(event: &'a Event, name: &str) -> Option<&'a Value> {
    let param = event.function.params.iter().position(|p| p.name == name)?;
    event.inputs.get(param)?.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_format::define::FunctionDef;
    use refrain_mpi::abi::{Family, Source};
    use refrain_mpi::names;
    use std::sync::Arc;

    /// MPICH's handles contain the size.
    #[test]
    fn every_predefined_datatype_has_the_size_in_its_handle() {
        for row in names::handles().iter().filter(|row| row.group == DATATYPE) {
            let size = predefined_size(row.name);
            if row.name == "MPI_DATATYPE_NULL" {
                assert_eq!(size, None);
                continue;
            }
            assert!(size.is_some(), "{}", row.name);
            if let Some(Source::Value(handle)) = row.value(Family::Mpich)
                && handle >> 24 == 0x4c
            {
                assert_eq!(size, Some((handle >> 8 & 0xff) as u64), "{}", row.name);
            }
        }
    }

    const INT: u64 = 1 << 62;

    fn table() -> HandleTable {
        [(DATATYPE, INT, "MPI_INT")].into_iter().collect()
    }

    fn call(function: &str, inputs: Vec<Option<Value>>, made: u64) -> Event {
        let function = refrain_mpi::interface::function(function).unwrap();
        let mut outputs = vec![None; inputs.len()];
        *outputs.last_mut().unwrap() = Some(Value::Word(made));
        Event {
            number: 0,
            depth: 0,
            function: Arc::new(FunctionDef::from(function)),
            site: None,
            start: 0,
            end: Some(1),
            result: Some(0),
            error_class: Some(0),
            inputs,
            outputs,
        }
    }

    fn vector(count: i64, length: i64, of: u64, made: u64) -> Event {
        let int = |n| Some(Value::Int(n));
        let inputs = vec![int(count), int(length), int(7), Some(Value::Word(of)), None];
        call("MPI_Type_vector", inputs, made)
    }

    fn sizes(calls: Vec<Event>) -> impl Fn(u64) -> Option<u64> {
        let names = table();
        let sizes = Sizes::new(calls.into_iter().map(|call| (call, &names)));
        move |handle| sizes.bytes(&[(1, Datatype::Derived(handle))])
    }

    #[test]
    fn a_derived_datatype_is_as_large_as_what_it_is_made_of() {
        let all = |n: &[i64]| Some(Value::List(n.iter().map(|n| Value::Int(*n)).collect()));
        let types = Some(Value::List(vec![Value::Word(INT), Value::Word(5)]));
        let made = vec![Some(Value::Int(2)), all(&[3, 2]), all(&[0, 99]), types, None];
        let sizes = sizes(vec![call("MPI_Type_create_struct", made, 4), vector(2, 5, INT, 5)]);
        assert_eq!(sizes(5), Some(40));
        assert_eq!(sizes(4), Some(3 * 4 + 2 * 40));
        assert_eq!(sizes(6), None, "no call made it");
    }

    #[test]
    fn a_number_that_stood_for_two_sizes_has_none() {
        let sizes = sizes(vec![
            vector(2, 5, INT, 1),
            vector(5, 2, INT, 1),
            vector(2, 5, INT, 2),
            vector(2, 6, INT, 2),
            vector(1, 1, 4, 3),
            vector(1, 1, 3, 4),
        ]);
        assert_eq!(sizes(1), Some(40));
        assert_eq!(sizes(2), None);
        assert_eq!((sizes(3), sizes(4)), (None, None), "each of the other");
    }
}
