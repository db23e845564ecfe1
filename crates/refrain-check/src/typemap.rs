//! Type signatures: the sequence of basic types that a datatype stands for (MPI 4.1 §5.1).
//!
//! Two buffers fit each other if their signatures are equal; sizes in bytes do not suffice. A signature is a run-length
//! list, repeated `count` times by a call, and is compared without being unrolled.

use refrain_bytes::table::Map;
use refrain_mpi::datatypes::predefined_size;
use refrain_mpi::semantics::{Object, Op};
use refrain_reader::datatypes::counts;
use refrain_reader::{Call, Value};
use std::cell::OnceCell;
use std::sync::Arc;

/// What a basic type is made of. Types that differ in signedness or in the language that names them count as equal:
/// programs mix them, and every MPI accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basic {
    /// An integer, of that many bytes; characters, too.
    Integer(u8),
    /// A floating-point number.
    Real(u8),
    /// A complex number.
    Complex(u8),
    /// A logical value.
    Logical(u8),
    /// Bytes: they fit everything.
    Byte,
}

impl Basic {
    /// The basic type of a predefined datatype; none if it is unknown, or a pair.
    pub fn named(name: &str) -> Option<Basic> {
        let size = u8::try_from(predefined_size(name)?).ok()?;
        let short = name.strip_prefix("MPI_").unwrap_or(name);
        if pair(name).is_some() {
            return None;
        }
        Some(match short {
            "BYTE" | "PACKED" => Basic::Byte,
            "LB" | "UB" => return None,
            "FLOAT" | "DOUBLE" | "LONG_DOUBLE" | "REAL" | "DOUBLE_PRECISION" => Basic::Real(size),
            _ if short.contains("COMPLEX") => Basic::Complex(size),
            _ if short.contains("BOOL") || short.starts_with("LOGICAL") => Basic::Logical(size),
            _ if short.starts_with("REAL") || short.contains("FLOAT") => Basic::Real(size),
            _ => Basic::Integer(size),
        })
    }
}

/// A run of equal basic types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The type.
    pub basic: Basic,
    /// Its size in bytes.
    pub size: u64,
    /// How many.
    pub count: u64,
}

/// The two types of a pair (MPI 4.1 §6.9.4), and whether they follow each other without a gap.
fn pair(name: &str) -> Option<(&'static str, &'static str, bool)> {
    Some(match name {
        "MPI_2INT" => ("MPI_INT", "MPI_INT", true),
        "MPI_2INTEGER" => ("MPI_INTEGER", "MPI_INTEGER", true),
        "MPI_2REAL" => ("MPI_REAL", "MPI_REAL", true),
        "MPI_2DOUBLE_PRECISION" => ("MPI_DOUBLE_PRECISION", "MPI_DOUBLE_PRECISION", true),
        "MPI_SHORT_INT" => ("MPI_SHORT", "MPI_INT", false),
        "MPI_LONG_INT" => ("MPI_LONG", "MPI_INT", false),
        "MPI_FLOAT_INT" => ("MPI_FLOAT", "MPI_INT", false),
        "MPI_DOUBLE_INT" => ("MPI_DOUBLE", "MPI_INT", false),
        "MPI_LONG_DOUBLE_INT" => ("MPI_LONG_DOUBLE", "MPI_INT", false),
        _ => return None,
    })
}

/// The signature of a predefined datatype; none if it is unknown.
fn signature(name: &str) -> Option<Vec<Run>> {
    let mut runs = Vec::new();
    let (first, second) = pair(name).map_or((name, None), |(a, b, _)| (a, Some(b)));
    for name in [Some(first), second].into_iter().flatten() {
        let run = Run { basic: Basic::named(name)?, size: predefined_size(name)?, count: 1 };
        append(&mut runs, &[run]);
    }
    Some(runs)
}

/// Signatures with more runs are not followed.
const LONGEST: usize = 4096;

/// A datatype.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// The signature of one element, equal neighbours joined; none if it is not followed.
    pub runs: Option<Arc<[Run]>>,
    /// Bytes of data in one element.
    pub size: u64,
    /// Bytes from one element to the next; none if it is not known.
    pub extent: Option<i64>,
    /// Whether elements are without gaps and begin at the address.
    pub is_dense: bool,
    /// Whether it may be used in communication.
    pub is_committed: bool,
    /// Whether it is predefined.
    pub is_predefined: bool,
}

/// Appends runs, and joins equal neighbours.
fn append(runs: &mut Vec<Run>, more: &[Run]) {
    for run in more.iter().filter(|run| run.count > 0) {
        match runs.last_mut() {
            Some(last) if last.basic == run.basic && last.size == run.size => {
                last.count = last.count.saturating_add(run.count);
            }
            _ => runs.push(*run),
        }
    }
}

/// A signature `count` times; none if it becomes too long.
fn repeated(runs: &[Run], count: u64) -> Option<Vec<Run>> {
    if let [run] = runs {
        return Some(vec![Run { count: run.count.saturating_mul(count), ..*run }]);
    }
    if runs.is_empty() || count == 0 {
        return Some(Vec::new());
    }
    let total = (runs.len() as u64).checked_mul(count)?;
    if total > LONGEST as u64 {
        return None;
    }
    let mut all = Vec::new();
    (0..count).for_each(|_| append(&mut all, runs));
    Some(all)
}

impl Type {
    fn predefined(name: &str) -> Type {
        let runs = signature(name);
        let size = runs.iter().flatten().map(|run| run.size.saturating_mul(run.count)).sum();
        let has_gap = pair(name).is_some_and(|(_, _, is_dense)| !is_dense);
        let extent = i64::try_from(size).ok().filter(|_| runs.is_some() && !has_gap);
        Type {
            runs: runs.map(Into::into),
            size,
            extent,
            is_dense: extent.is_some(),
            is_committed: true,
            is_predefined: true,
        }
    }
}

/// Elements of a datatype: the signature of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements {
    /// Their number.
    pub count: u64,
    /// Their type.
    pub datatype: Arc<Type>,
    /// What to call the type.
    pub name: Arc<str>,
}

/// How two buffers fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The signatures are equal, or one is not known.
    Same,
    /// The first is a beginning of the second.
    Shorter,
    /// The second is a beginning of the first.
    Longer,
    /// They differ in a type.
    Different,
}

impl Elements {
    /// Bytes of data.
    pub fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.datatype.size)
    }

    /// How this fits another, both with their types.
    pub fn fit(&self, other: &Elements) -> Fit {
        let (Some(a), Some(b)) = (&self.datatype.runs, &other.datatype.runs) else {
            return Fit::Same;
        };
        let by_bytes = |a: u64, b: u64| match a.cmp(&b) {
            std::cmp::Ordering::Equal => Fit::Same,
            std::cmp::Ordering::Less => Fit::Shorter,
            std::cmp::Ordering::Greater => Fit::Longer,
        };
        let is_bytes = |runs: &[Run]| runs.iter().any(|run| run.basic == Basic::Byte);
        if is_bytes(a) || is_bytes(b) || a == b {
            return by_bytes(self.bytes(), other.bytes());
        }
        let (mut left, mut right) = (Unrolled::new(a, self.count), Unrolled::new(b, other.count));
        // Each step ends a run of one side. Beyond this the sizes decide.
        for _ in 0..2 * LONGEST {
            match (left.run(), right.run()) {
                (None, None) => return Fit::Same,
                (None, Some(_)) => return Fit::Shorter,
                (Some(_), None) => return Fit::Longer,
                (Some(l), Some(r)) if l.basic != r.basic || l.size != r.size => {
                    return Fit::Different;
                }
                (Some(l), Some(r)) => {
                    let both = l.count.min(r.count);
                    left.advance(both);
                    right.advance(both);
                }
            }
        }
        by_bytes(self.bytes(), other.bytes())
    }
}

/// `3 x MPI_INT`.
impl std::fmt::Display for Elements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.count, self.name)
    }
}

/// A signature, repeated, with a position in it.
struct Unrolled<'a> {
    runs: &'a [Run],
    at: usize,
    /// Of the current run.
    used: u64,
    /// Repetitions that are left, the current one included.
    left: u64,
}

impl<'a> Unrolled<'a> {
    fn new(runs: &'a [Run], count: u64) -> Unrolled<'a> {
        Unrolled { runs, at: 0, used: 0, left: if runs.is_empty() { 0 } else { count } }
    }

    /// What is left of the current run. If there is only one, all repetitions are one run.
    fn run(&self) -> Option<Run> {
        let run = *self.runs.get(self.at).filter(|_| self.left > 0)?;
        let count = match self.runs.len() {
            1 => run.count.saturating_mul(self.left),
            _ => run.count,
        };
        Some(Run { count: count.saturating_sub(self.used), ..run })
    }

    fn advance(&mut self, by: u64) {
        self.used = self.used.saturating_add(by);
        if self.run().is_some_and(|run| run.count == 0) {
            self.used = 0;
            if self.runs.len() == 1 {
                self.left = 0;
                return;
            }
            self.at += 1;
            if self.at == self.runs.len() {
                self.at = 0;
                self.left -= 1;
            }
        }
    }
}

/// The datatypes of a process.
#[derive(Debug, Default)]
pub struct Types {
    derived: Map<u64, Arc<Type>>,
    predefined: Map<u64, (Arc<Type>, Arc<str>)>,
    /// What to call datatypes that the program makes.
    derived_name: OnceCell<Arc<str>>,
}

impl Types {
    /// The type of a handle, with its name; none if no recorded call made it, or it is null.
    pub fn get(&mut self, call: &Call, handle: u64) -> Option<(Arc<Type>, Arc<str>)> {
        if let Some(known) = self.predefined.get(&handle) {
            return Some(known.clone());
        }
        if let Some(known) = self.derived.get(&handle) {
            let name = self.derived_name.get_or_init(|| "a derived datatype".into());
            return Some((known.clone(), name.clone()));
        }
        let name =
            call.handle_name("datatype", handle).filter(|name| *name != "MPI_DATATYPE_NULL")?;
        let new = Arc::new(Type::predefined(name));
        let name: Arc<str> = name.into();
        self.predefined.insert(handle, (new.clone(), name.clone()));
        Some((new, name))
    }

    /// Elements of the datatype of a handle.
    pub fn elements(&mut self, call: &Call, count: u64, handle: u64) -> Option<Elements> {
        let (datatype, name) = self.get(call, handle)?;
        Some(Elements { count, datatype, name })
    }

    /// Adds what a constructor makes, and follows commit and free.
    pub fn observe(&mut self, call: &Call) {
        let word = |name: &str| match call.input(name) {
            Some(Value::Word(handle)) => Some(*handle),
            _ => None,
        };
        match call.name() {
            "MPI_Type_commit" => {
                if let Some(known) =
                    word("datatype").and_then(|handle| self.derived.get_mut(&handle))
                {
                    Arc::make_mut(known).is_committed = true;
                }
            }
            "MPI_Type_free" => {
                if let Some(handle) = word("datatype") {
                    self.derived.remove(&handle);
                }
            }
            _ => {
                let made = ["newtype", "datatype"].into_iter().find_map(|name| {
                    let param = call.function().params.iter().position(|p| p.name == name)?;
                    match call.event().outputs.get(param)?.as_ref()? {
                        Value::Word(handle) if call.input(name).is_none() => Some(*handle),
                        _ => None,
                    }
                });
                if let Some(handle) = made
                    && call.handle_name("datatype", handle).is_none()
                {
                    let new = self.made(call).unwrap_or(Type {
                        runs: None,
                        size: 0,
                        extent: None,
                        is_dense: false,
                        // Queries return types that are predefined; a duplicate is as committed as its original.
                        is_committed: call
                            .mpi()
                            .is_none_or(|function| function.op() != Op::Make(Object::Datatype))
                            || call.name() == "MPI_Type_dup",
                        is_predefined: false,
                    });
                    self.derived.insert(handle, Arc::new(new));
                }
            }
        }
    }

    /// The type that a constructor makes; none if its signature is not followed.
    fn made(&mut self, call: &Call) -> Option<Type> {
        let numbers = |name: &str| counts(call.input(name)?);
        let number = |name: &str| numbers(name)?.first().copied();
        let old = |types: &mut Types, name: &str| match call.input(name)? {
            Value::Word(handle) => types.get(call, *handle).map(|(old, _)| old),
            _ => None,
        };
        let name = call.name();
        let (times, dense) = match name.strip_suffix("_c").unwrap_or(name) {
            "MPI_Type_dup" => {
                let old = old(self, "oldtype").or_else(|| old(self, "type"))?;
                return Some(Type { is_predefined: false, ..(*old).clone() });
            }
            "MPI_Type_create_resized" => {
                let old = old(self, "oldtype")?;
                let extent = match call.input("extent") {
                    Some(Value::Int(extent)) => Some(*extent),
                    _ => None,
                };
                let is_dense = old.is_dense && extent == i64::try_from(old.size).ok();
                return Some(Type {
                    extent,
                    is_dense,
                    is_committed: false,
                    is_predefined: false,
                    ..(*old).clone()
                });
            }
            "MPI_Type_contiguous" => (number("count")?, true),
            "MPI_Type_vector"
            | "MPI_Type_create_hvector"
            | "MPI_Type_hvector"
            | "MPI_Type_create_indexed_block"
            | "MPI_Type_create_hindexed_block" => {
                (number("count")?.checked_mul(number("blocklength")?)?, false)
            }
            "MPI_Type_indexed" | "MPI_Type_create_hindexed" | "MPI_Type_hindexed" => {
                (numbers("array_of_blocklengths")?.iter().sum(), false)
            }
            "MPI_Type_create_subarray" => {
                let sides = numbers("array_of_subsizes")?;
                (sides.iter().try_fold(1u64, |all, side| all.checked_mul(*side))?, false)
            }
            "MPI_Type_create_struct" | "MPI_Type_struct" => return self.structure(call),
            _ => return None,
        };
        let old = old(self, "oldtype")?;
        let runs = old.runs.as_ref().and_then(|runs| repeated(runs, times));
        let is_dense = dense && old.is_dense;
        let extent = match dense {
            true => old.extent.and_then(|extent| extent.checked_mul(i64::try_from(times).ok()?)),
            false => None,
        };
        Some(Type {
            runs: runs.map(Into::into),
            size: old.size.checked_mul(times)?,
            extent,
            is_dense,
            is_committed: false,
            is_predefined: false,
        })
    }

    fn structure(&mut self, call: &Call) -> Option<Type> {
        let lengths = counts(call.input("array_of_blocklengths")?)?;
        let Value::List(types) = call.input("array_of_types")? else { return None };
        let (mut runs, mut size, mut is_followed) = (Vec::new(), 0u64, true);
        for (length, handle) in lengths.iter().zip(types) {
            let Value::Word(handle) = handle else { return None };
            let (old, name) = self.get(call, *handle)?;
            // The markers MPI_LB and MPI_UB have no data.
            if matches!(&*name, "MPI_LB" | "MPI_UB") {
                continue;
            }
            size = size.checked_add(old.size.checked_mul(*length)?)?;
            match old.runs.as_ref().and_then(|old| repeated(old, *length)) {
                Some(more) if runs.len() + more.len() <= LONGEST => append(&mut runs, &more),
                _ => is_followed = false,
            }
        }
        Some(Type {
            runs: is_followed.then(|| runs.into()),
            size,
            extent: None,
            is_dense: false,
            is_committed: false,
            is_predefined: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn elements(count: u64, runs: &[(Basic, u64)]) -> Elements {
        let mut joined = Vec::new();
        for (basic, n) in runs {
            append(&mut joined, &[Run { basic: *basic, size: 4, count: *n }]);
        }
        let size = runs.iter().map(|(_, n)| 4 * n).sum();
        let datatype = Arc::new(Type {
            runs: Some(joined.into()),
            size,
            extent: None,
            is_dense: false,
            is_committed: true,
            is_predefined: false,
        });
        Elements { count, datatype, name: "t".into() }
    }

    /// The signature, unrolled.
    fn flat(elements: &Elements) -> Vec<Basic> {
        let runs = elements.datatype.runs.as_ref().unwrap();
        let one: Vec<Basic> = runs
            .iter()
            .flat_map(|run| std::iter::repeat_n(run.basic, run.count as usize))
            .collect();
        one.repeat(elements.count as usize)
    }

    fn expected(a: &[Basic], b: &[Basic]) -> Fit {
        let both = a.len().min(b.len());
        match () {
            () if a[..both] != b[..both] => Fit::Different,
            () if a.len() < b.len() => Fit::Shorter,
            () if a.len() > b.len() => Fit::Longer,
            () => Fit::Same,
        }
    }

    fn runs() -> impl Strategy<Value = Vec<(Basic, u64)>> {
        let basic = prop_oneof![Just(Basic::Integer(4)), Just(Basic::Real(4))];
        prop::collection::vec((basic, 1..4u64), 1..4)
    }

    proptest! {
        #[test]
        fn signatures_compare_as_if_unrolled(a in runs(), n in 0..5u64, b in runs(), m in 0..5u64) {
            let (a, b) = (elements(n, &a), elements(m, &b));
            prop_assert_eq!(a.fit(&b), expected(&flat(&a), &flat(&b)));
        }
    }

    #[test]
    fn bytes_fit_everything_by_size() {
        let bytes = elements(1, &[(Basic::Byte, 4)]);
        assert_eq!(bytes.fit(&elements(4, &[(Basic::Real(4), 1)])), Fit::Same);
        assert_eq!(bytes.fit(&elements(5, &[(Basic::Real(4), 1)])), Fit::Shorter);
    }

    #[test]
    fn predefined_types_are_told_apart_by_kind_and_size() {
        let named = |name: &str| Basic::named(name).unwrap();
        assert_eq!(named("MPI_INT"), named("MPI_INTEGER"));
        assert_eq!(named("MPI_LONG_LONG_INT"), named("MPI_INT64_T"));
        assert_ne!(named("MPI_INT"), named("MPI_FLOAT"));
        assert_eq!(named("MPI_REAL8"), named("MPI_DOUBLE"));
        assert_eq!(named("MPI_C_DOUBLE_COMPLEX"), named("MPI_COMPLEX16"));
    }

    #[test]
    fn a_pair_fits_its_two_values() {
        let of = |count, name: &str| Elements {
            count,
            datatype: Arc::new(Type::predefined(name)),
            name: name.into(),
        };
        assert_eq!(of(1, "MPI_2INT").fit(&of(2, "MPI_INT")), Fit::Same);
        assert_eq!(of(2, "MPI_DOUBLE_INT").fit(&of(2, "MPI_DOUBLE_INT")), Fit::Same);
        assert_eq!(of(1, "MPI_FLOAT_INT").fit(&of(2, "MPI_INT")), Fit::Different);
        assert_eq!(of(1, "MPI_2DOUBLE_PRECISION").fit(&of(1, "MPI_DOUBLE_INT")), Fit::Different);
        assert_eq!(Type::predefined("MPI_DOUBLE_INT").size, 12);
    }
}
