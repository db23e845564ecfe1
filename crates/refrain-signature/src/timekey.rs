//! What statistics of durations are kept by.
//!
//! A program may have thousands of signatures, and people ask for few things: how long a function takes, at a call
//! site, for messages of a size. A *time key* is just that: function, call site, and size class. Without call sites,
//! the communicator, datatype, operation, window and file of the call stand for the site. Keys are the same in all
//! groups of ranks, so their number does not grow with ranks.
//!
//! A key has no place in the loop nest. With call stacks (`--callsite stack:N`), the site says in which phase a call was made. Without, two
//! loops over the same function share a key, and the shares of time that `show --structure` prints assume the same mean in both.
//! A place would tell them apart, but places are known only once all ranks are folded. Statistics are counted long before,
//! for each signature: one that occurs at two places has a single count there, which nothing divides later. And they are merged
//! by key inside of `MPI_Finalize`, so that no file has them by signature. With `--timing` every call has its own times, also
//! those of a rank's first iteration.
//!
//! Keys are not stored with signatures: [`TimeKeys::of`] derives the key from the cells of a signature, inside the
//! program and in the reader. So this derivation belongs to the format of the statistics.

use crate::args::{Arg, Args, Handle};
use crate::cells::Cells;
use crate::head::Head;
use crate::plan::{Kinds, Plan};
use refrain_format::define::FunctionDef;
use refrain_mpi::datatypes::predefined_size;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use std::collections::BTreeMap;

/// Objects that stand for a call site.
const KINDS: [&str; 5] = ["comm", "datatype", "op", "win", "file"];

/// Objects that the program made with this number or a higher one are not told apart.
pub const MOST_OBJECTS: u8 = 15;

/// The most objects in a key.
pub const MOST_HANDLES: usize = 8;

/// The largest size class.
pub const MOST_SIZE: u8 = 65;

/// What statistics are kept by.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeKey {
    /// The function's number.
    pub function: u16,
    /// The call site, if call sites were recorded.
    pub site: Option<Box<[u8]>>,
    /// Without a call site: the objects of the call.
    pub handles: Vec<KeyHandle>,
    /// The size of the message, see [`size_class`].
    pub size: u8,
}

/// An object in a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyHandle {
    /// A predefined one: `kind name`.
    Predefined(Box<str>),
    /// One that the task made: its number, or [`MOST_OBJECTS`].
    Own(u8),
    /// Any other.
    Other,
}

/// How much of a key is kept. Where statistics would take more than a quarter of a file, keys are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// All of it.
    #[default]
    Full,
    /// Four size classes are one.
    FewSizes,
    /// No size classes.
    NoSizes,
    /// Function and call site only.
    NoHandles,
}

impl Detail {
    /// All, the finest first.
    pub const ALL: [Detail; 4] =
        [Detail::Full, Detail::FewSizes, Detail::NoSizes, Detail::NoHandles];
}

/// The class of a size: 0 if the call has none, 1 for nothing, 2 for one, 3 for two and three, and so on.
pub fn size_class(size: Option<u64>) -> u8 {
    size.map_or(0, |size| 1 + (64 - size.leading_zeros()) as u8)
}

impl TimeKey {
    /// The key without what is finer.
    pub fn at(mut self, detail: Detail) -> TimeKey {
        self.size = match detail {
            Detail::Full => self.size,
            Detail::FewSizes => self.size.div_ceil(4),
            Detail::NoSizes | Detail::NoHandles => 0,
        };
        if detail == Detail::NoHandles {
            self.handles.clear();
        }
        self
    }
}

/// The key of a signature, and what it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The key.
    pub key: TimeKey,
    /// Cells from this index on do not matter.
    pub cells: u32,
    /// The string of the call site.
    pub site: Option<u32>,
}

/// Where the parts of a key are among the parameters of a function.
#[derive(Debug)]
struct Sources {
    plan: Plan,
    count: Option<usize>,
    datatype: Option<usize>,
    handles: Vec<usize>,
}

impl Sources {
    fn new(def: FunctionDef, kinds: &mut Kinds) -> Sources {
        let params = &def.params;
        let is_handle = |i: &usize| {
            params.get(*i).is_some_and(|p| p.class == Class::Handle && p.direction == Direction::In)
        };
        let reads_as = |i: &usize, kind: &str| params.get(*i).is_some_and(|p| p.reads_as == kind);
        let all = 0..params.len();
        let handles: Vec<usize> = all
            .filter(|i| is_handle(i) && KINDS.iter().any(|kind| reads_as(i, kind)))
            .take(MOST_HANDLES)
            .collect();
        let datatype = handles.iter().copied().find(|i| reads_as(i, "datatype"));
        let is_count = |p: &&str| p.ends_with("count") || p.ends_with("counts");
        let count = datatype.and_then(|datatype| {
            let before = params.iter().take(datatype).map(|p| p.name.as_str());
            let names: Vec<&str> = before.collect();
            names.iter().rposition(is_count)
        });
        Sources { count, datatype, handles, plan: Plan::new(def, kinds) }
    }
}

/// Derives keys.
#[derive(Debug, Default)]
pub struct TimeKeys {
    kinds: Kinds,
    functions: BTreeMap<u16, Sources>,
}

impl TimeKeys {
    /// For functions by their numbers in signatures, as lines of [`refrain_format::define`]. Signatures of a function
    /// whose line does not read have keys without objects and sizes.
    pub fn new<'a>(functions: impl IntoIterator<Item = (u16, &'a str)>) -> TimeKeys {
        let mut keys = TimeKeys::default();
        for (number, text) in functions {
            if let Ok(def) = FunctionDef::from_text(text) {
                let sources = Sources::new(def, &mut keys.kinds);
                keys.functions.insert(number, sources);
            }
        }
        keys
    }

    /// The key of a signature on a rank; none for a note, and for calls that never returned, which have no duration.
    /// `site` gives the text of a string, `predefined` are the task's predefined handles.
    pub fn of(
        &self,
        cells: &[u8],
        site: impl FnOnce(u32) -> Option<Box<[u8]>>,
        predefined: &[String],
    ) -> Option<Derived> {
        let head = Head::read(&mut Cells::new(cells)).filter(|h| h.returned && !h.is_note())?;
        let site_text = head.site.and_then(site);
        let mut key = TimeKey { function: head.function, site: site_text, ..TimeKey::default() };
        let mut last = head.cells() as u32;
        let sources = self.functions.get(&head.function);
        let args = sources.and_then(|s| Some((s, Args::read(&s.plan, &self.kinds, cells)?)));
        if let Some((sources, args)) = args {
            let mut see = |index: u32| last = last.max(index + 1);
            let name = |cell: i64| predefined.get(usize::try_from(-1 - cell).ok()?);
            let count = sources.count.and_then(|param| count(&args, param, &mut see));
            let unit = sources.datatype.and_then(|param| match args.of(param)? {
                Arg::Handle(Handle::Predefined(cell)) => {
                    see(cell.index);
                    predefined_size(name(cell.value)?.strip_prefix("datatype ")?)
                }
                Arg::Handle(Handle::Own(cell)) => {
                    see(cell.index);
                    None
                }
                _ => None,
            });
            key.size = size_class(count.map(|count| count.saturating_mul(unit.unwrap_or(1))));
            if key.site.is_none() {
                key.handles = sources
                    .handles
                    .iter()
                    .map(|param| match args.of(*param) {
                        Some(Arg::Handle(Handle::Predefined(cell))) => {
                            see(cell.index);
                            match name(cell.value) {
                                Some(name) => KeyHandle::Predefined(name.as_str().into()),
                                None => KeyHandle::Other,
                            }
                        }
                        Some(Arg::Handle(Handle::Own(cell))) => {
                            see(cell.index);
                            KeyHandle::Own(cell.value.clamp(0, MOST_OBJECTS.into()) as u8)
                        }
                        _ => KeyHandle::Other,
                    })
                    .collect();
            }
        }
        Some(Derived { key, cells: last, site: head.site })
    }
}

/// Longer arrays are not added up: damaged ones may have any length.
const LONGEST: usize = 1 << 16;

/// The number of elements that a parameter gives: itself, or the sum of an array.
fn count(args: &Args, param: usize, see: &mut impl FnMut(u32)) -> Option<u64> {
    let mut before = Vec::new();
    for (number, arg) in &args.inputs {
        let is_it = usize::from(*number) == param;
        match arg {
            Arg::Int(cell) | Arg::Large([_, cell]) if is_it => {
                see(cell.index);
                return u64::try_from(cell.value).ok();
            }
            Arg::Numbers(_, array) if array.length > LONGEST => return None,
            Arg::Numbers(length, array) => {
                let elements = array.elements(|cell| cell.value, &before)?;
                if is_it {
                    see(length.index);
                    array.cells.iter().for_each(|cell| see(cell.index));
                    let counts = elements.iter().map(|count| u64::try_from(*count).unwrap_or(0));
                    return Some(counts.fold(0, u64::saturating_add));
                }
                before = elements;
            }
            _ if is_it => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;

    const SEND: &str = "MPI_Send int:error buf:in:memory:memory count:in:int:number datatype:in:handle:datatype \
                        dest:in:int:rank tag:in:int:tag comm:in:handle:comm";

    /// The key of a send of so many elements.
    fn send(count: i64, datatype: i64, site: Option<u32>) -> Derived {
        let keys = TimeKeys::new([(7, SEND)]);
        let mut bytes = Vec::new();
        Head { function: 7, returned: true, depth: 0, site }.put(&mut bytes);
        for cell in [0, count, datatype, 3, 0, -2] {
            cells::put(&mut bytes, cell);
        }
        let predefined = ["datatype MPI_DOUBLE".to_owned(), "comm MPI_COMM_WORLD".to_owned()];
        let text = |_| Some(Box::from(*b"app+12"));
        keys.of(&bytes, text, &predefined).expect("a call has a key")
    }

    #[test]
    fn objects_stand_for_a_call_site_that_was_not_recorded() {
        let derived = send(100, -1, None);
        let world = KeyHandle::Predefined("comm MPI_COMM_WORLD".into());
        let double = KeyHandle::Predefined("datatype MPI_DOUBLE".into());
        assert_eq!(derived.key.handles, [double, world.clone()]);
        assert_eq!((derived.key.size, derived.cells), (size_class(Some(800)), 7));
        assert_eq!(send(100, 3, None).key.handles, [KeyHandle::Own(3), world.clone()]);
        assert_eq!(send(100, 300, None).key.handles, [KeyHandle::Own(MOST_OBJECTS), world]);
        let sited = send(100, -1, Some(4));
        assert_eq!(sited.key.site.as_deref(), Some(&b"app+12"[..]));
        assert_eq!((sited.key.handles, sited.site), (vec![], Some(4)));
    }

    #[test]
    fn sizes_within_a_power_of_two_share_a_key() {
        assert_eq!(send(64, -1, None), send(127, -1, None));
        assert_ne!(send(64, -1, None), send(63, -1, None));
        assert_eq!([None, Some(0), Some(1), Some(3)].map(size_class), [0, 1, 2, 3]);
        assert_eq!(size_class(Some(u64::MAX)), MOST_SIZE);
        let few = |count| send(count, -1, None).key.at(Detail::FewSizes);
        assert_eq!(few(1 << 8), few(1 << 11));
        assert_eq!(send(1, -1, None).key.at(Detail::NoHandles).handles, []);
    }

    #[test]
    fn notes_and_calls_that_never_returned_have_no_key() {
        let keys = TimeKeys::new([(7, SEND)]);
        for head in [
            Head { function: 7, returned: false, depth: 0, site: None },
            Head::note(crate::notes::SEGMENT),
        ] {
            let mut bytes = Vec::new();
            head.put(&mut bytes);
            assert_eq!(keys.of(&bytes, |_| None, &[]), None);
        }
    }
}
