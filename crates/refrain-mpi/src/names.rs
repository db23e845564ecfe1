//! Names for numbers: the constants and the predefined handles of MPI.
//!
//! The facts are in `constants.txt` and `handles.txt`, whose first lines explain the notation. The
//! tables are parsed at the first query; later queries do not allocate, except [`mask_names`]. The
//! agent makes its first query at start, when it may allocate.
//!
//! Handles of MPICH and of the standard ABI are numbers that mean the same in every process. Open
//! MPI's are addresses: the agent resolves [`predefined_handles`] in the running program and records
//! the result, and readers of the log look them up in a [`HandleTable`].

use std::fmt::Write;
use std::sync::OnceLock;

use crate::abi::{Family, Source};
use crate::kind::rows;

/// When a value of a table is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// In every version.
    Always,
    /// Since this version of the library (major, minor).
    Since(u32, u32),
    /// In some builds of the library.
    Some,
    /// In the library of this vendor.
    Vendor(&'static str),
}

/// One of the values that a name has in a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant<T> {
    /// When it is valid.
    pub condition: Condition,
    /// The value.
    pub value: T,
}

/// A row of a table: a name, and its values in each family.
///
/// `T` is `i64` for a constant, [`Source`] for a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<T> {
    /// The group of a constant, the kind of a handle.
    pub group: &'static str,
    /// The name in `mpi.h`.
    pub name: &'static str,
    values: [Vec<Variant<T>>; 3],
}

impl<T: Copy> Row<T> {
    /// The values in a family: none where it does not have the name, several where versions
    /// or vendors differ, the older version first.
    pub fn variants(&self, family: Family) -> &[Variant<T>] {
        self.values.get(family.column()).map_or(&[], Vec::as_slice)
    }

    /// The value in a family: the newest if versions differ, and never that of a single vendor.
    pub fn value(&self, family: Family) -> Option<T> {
        self.variants(family)
            .iter()
            .rev()
            .find(|v| !matches!(v.condition, Condition::Vendor(_)))
            .map(|v| v.value)
    }

    /// The value in a version (major, minor) of a family's library.
    fn value_in(&self, family: Family, version: (u32, u32)) -> Option<T> {
        let holds = |v: &&Variant<T>| match v.condition {
            Condition::Since(major, minor) => version >= (major, minor),
            Condition::Always | Condition::Some => true,
            Condition::Vendor(_) => false,
        };
        self.variants(family).iter().rev().find(holds).map(|v| v.value)
    }
}

/// All constants, in the order of `constants.txt`.
pub fn constants() -> &'static [Row<i64>] {
    &tables().constants.rows
}

/// All predefined handles, in the order of `handles.txt`.
pub fn handles() -> &'static [Row<Source>] {
    &tables().handles.rows
}

/// The name of a constant of a group, such as `rank`, or `None`.
pub fn constant_name(family: Family, group: &str, value: i64) -> Option<&'static str> {
    tables().constants.name(family, None, group, &value)
}

/// The same in a version (major, minor) of the library; `None` if it is not known. A program's
/// own keys and error classes may have the values that a later version gives a name.
pub fn constant_name_in(
    family: Family,
    version: Option<(u32, u32)>,
    group: &str,
    value: i64,
) -> Option<&'static str> {
    tables().constants.name(family, version, group, &value)
}

/// The version (major, minor) of a library, from its version string: `Open MPI v4.1.4, …`,
/// `MPICH Version: 4.0.2 …`. Vendors' variants of MPICH have other version numbers.
pub fn version_of(library: &str) -> Option<(u32, u32)> {
    let rest =
        library.strip_prefix("Open MPI v").or_else(|| library.strip_prefix("MPICH Version:"))?;
    let mut numbers = rest.trim_start().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The value that a family gives the name of a constant; the newest where versions differ.
pub fn constant_value(family: Family, name: &str) -> Option<i64> {
    let constants = &tables().constants;
    let at = constants.by_name.binary_search_by_key(&name, |row| row.0).ok()?;
    constants.rows.get(constants.by_name.get(at)?.1)?.value(family)
}

/// A bit mask of a group as names and a rest: `MPI_MODE_CREATE|MPI_MODE_WRONLY|0x1000`.
///
/// Bits without a name are the rest, in hexadecimal; a mask of no bits is `0`.
pub fn mask_names(family: Family, group: &str, mask: i64) -> String {
    let mut text = String::new();
    let mut rest = mask;
    for row in constants().iter().filter(|row| row.group == group) {
        if let Some(bits) = row.value(family).filter(|bits| *bits != 0 && rest & bits == *bits) {
            rest &= !bits;
            let bar = if text.is_empty() { "" } else { "|" };
            text.extend([bar, row.name]);
        }
    }
    if text.is_empty() && rest == 0 {
        text.push('0');
    } else if rest != 0 {
        let bar = if text.is_empty() { "" } else { "|" };
        // Writing to a string does not fail.
        let _ = write!(text, "{bar}{rest:#x}");
    }
    text
}

/// The predefined handles of a family, as (kind, name, where its value comes from).
///
/// Every version's and vendor's are among them, so a symbol may be missing in the running
/// library. If two handles of a kind have the same value, the name of the first is preferred.
pub fn predefined_handles(
    family: Family,
) -> impl Iterator<Item = (&'static str, &'static str, Source)> {
    handles().iter().flat_map(move |row| {
        row.variants(family).iter().map(|variant| (row.group, row.name, variant.value))
    })
}

/// The name of a predefined handle of a kind, such as `comm`, where its value is the same in
/// every process: with MPICH and the standard ABI. For Open MPI use a [`HandleTable`].
pub fn handle_name(family: Family, kind: &str, value: u64) -> Option<&'static str> {
    let value = usize::try_from(value).ok()?;
    tables().handles.name(family, None, kind, &Source::Value(value))
}

/// The names of the predefined handles in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandleTable {
    // Sorted by kind and value, one entry for each.
    entries: Vec<(Box<str>, u64, Box<str>)>,
    /// The same by value: few handles of different kinds have the same value, so few kinds need be compared.
    by_value: Vec<(u64, usize)>,
}

impl HandleTable {
    /// The name of a handle, or `None` if it is not predefined.
    pub fn name(&self, kind: &str, value: u64) -> Option<&str> {
        let first = self.by_value.partition_point(|entry| entry.0 < value);
        let same = self.by_value.iter().skip(first).take_while(|entry| entry.0 == value);
        let mut same = same.filter_map(|(_, at)| self.entries.get(*at));
        same.find(|entry| &*entry.0 == kind).map(|entry| &*entry.2)
    }

    /// The value of a predefined handle.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.entries.iter().find(|entry| &*entry.2 == name).map(|entry| entry.1)
    }

    /// The entries as (kind, value, name), by kind and value.
    pub fn entries(&self) -> impl Iterator<Item = (&str, u64, &str)> {
        self.entries.iter().map(|(kind, value, name)| (&**kind, *value, &**name))
    }
}

/// Of two entries with the same kind and value, the first is kept.
impl<K: Into<Box<str>>, N: Into<Box<str>>> FromIterator<(K, u64, N)> for HandleTable {
    fn from_iter<I: IntoIterator<Item = (K, u64, N)>>(triples: I) -> Self {
        let mut entries: Vec<(Box<str>, u64, Box<str>)> = triples
            .into_iter()
            .map(|(kind, value, name)| (kind.into(), value, name.into()))
            .collect();
        // The sort is stable, so the first of equals stays the first.
        entries.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        entries.dedup_by(|later, first| later.0 == first.0 && later.1 == first.1);
        let mut by_value: Vec<(u64, usize)> =
            entries.iter().enumerate().map(|(at, entry)| (entry.1, at)).collect();
        by_value.sort_unstable();
        HandleTable { entries, by_value }
    }
}

struct Tables {
    constants: Table<i64>,
    handles: Table<Source>,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| Tables {
        constants: Table::parse(include_str!("constants.txt"), parse_number),
        handles: Table::parse(include_str!("handles.txt"), parse_source),
    })
}

/// A parsed table with its indices.
struct Table<T> {
    rows: Vec<Row<T>>,
    // For each family, sorted by group and value, one entry for each.
    by_value: [Vec<Named<T>>; 3],
    // Sorted by name, one entry for each: where its first row is.
    by_name: Vec<(&'static str, usize)>,
}

struct Named<T> {
    group: &'static str,
    value: T,
    name: &'static str,
    /// In every version of the library.
    certain: bool,
}

impl<T: Copy + Sortable> Table<T> {
    /// Reads a table. A row or a value that cannot be read is left out: this runs inside other
    /// people's programs. The tests see to it that there is none.
    fn parse(text: &'static str, value: fn(&'static str) -> Option<T>) -> Table<T> {
        let rows: Vec<_> = rows(text).filter_map(|line| Row::parse(line, value)).collect();
        let mut by_name: Vec<_> = rows.iter().enumerate().map(|(i, row)| (row.name, i)).collect();
        by_name.sort_by_key(|(name, _)| *name);
        by_name.dedup_by_key(|(name, _)| *name);
        let by_value = Family::ALL.map(|family| Self::index(&rows, family));
        Table { rows, by_value, by_name }
    }

    /// Among names with the same value, those that have it in the newest version come first.
    fn index(rows: &[Row<T>], family: Family) -> Vec<Named<T>> {
        let mut entries = Vec::new();
        for row in rows {
            let variants = row.variants(family);
            let newest = variants
                .iter()
                .rposition(|v| matches!(v.condition, Condition::Always | Condition::Since(..)));
            for (i, Variant { condition, value }) in variants.iter().enumerate() {
                let outdated = newest != Some(i);
                let certain = !outdated && *condition == Condition::Always;
                let (group, name, value) = (row.group, row.name, *value);
                entries.push((Named { group, value, name, certain }, outdated));
            }
        }
        entries.sort_by_key(|(named, outdated)| (named.group, named.value.key(), *outdated));
        entries.dedup_by_key(|(named, _)| (named.group, named.value.key()));
        entries.into_iter().map(|(named, _)| named).collect()
    }

    fn name(
        &self,
        family: Family,
        version: Option<(u32, u32)>,
        group: &str,
        value: &T,
    ) -> Option<&'static str> {
        let index = self.by_value.get(family.column())?;
        let order = |n: &Named<T>| n.group.cmp(group).then_with(|| n.value.key().cmp(&value.key()));
        let named = index.get(index.binary_search_by(order).ok()?)?;
        let Some(version) = version.filter(|_| !named.certain) else { return Some(named.name) };
        let mut rows = self.rows.iter().filter(|row| row.group == group);
        let has_it =
            |row: &&Row<T>| row.value_in(family, version).is_some_and(|v| v.key() == value.key());
        rows.find(has_it).map(|row| row.name)
    }
}

/// What an index is sorted by.
trait Sortable {
    type Key: Ord;
    fn key(&self) -> Self::Key;
}

impl Sortable for i64 {
    type Key = i64;
    fn key(&self) -> i64 {
        *self
    }
}

impl Sortable for Source {
    type Key = (u8, usize, &'static str);
    fn key(&self) -> Self::Key {
        match *self {
            Source::Value(value) => (0, value, ""),
            Source::Address(symbol) => (1, 0, symbol),
            Source::Content(symbol) => (2, 0, symbol),
        }
    }
}

impl<T> Row<T> {
    fn parse(line: &'static str, value: fn(&'static str) -> Option<T>) -> Option<Row<T>> {
        let mut words = line.split_whitespace();
        let (group, name) = (words.next()?, words.next()?);
        let mut cell = || Some(parse_cell(words.next()?, value));
        Some(Row { group, name, values: [cell()?, cell()?, cell()?] })
    }
}

/// `-`, or values separated by commas, each qualified or not: `4,4.2:5`.
fn parse_cell<T>(cell: &'static str, value: fn(&'static str) -> Option<T>) -> Vec<Variant<T>> {
    cell.split(',')
        .filter(|word| *word != "-")
        .filter_map(|word| {
            let (condition, text) = match word.split_once(':') {
                Some((qualifier, text)) => (parse_condition(qualifier)?, text),
                None => (Condition::Always, word),
            };
            Some(Variant { condition, value: value(text)? })
        })
        .collect()
}

fn parse_condition(qualifier: &'static str) -> Option<Condition> {
    if qualifier == "some" {
        return Some(Condition::Some);
    }
    if !qualifier.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(Condition::Vendor(qualifier));
    }
    let (major, minor) = qualifier.split_once('.')?;
    Some(Condition::Since(major.parse().ok()?, minor.parse().ok()?))
}

fn parse_number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn parse_source(text: &'static str) -> Option<Source> {
    if let Some(digits) = text.strip_prefix("0x") {
        return usize::from_str_radix(digits, 16).ok().map(Source::Value);
    }
    Some(text.strip_prefix('*').map_or(Source::Address(text), Source::Content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Family::{Mpich, OpenMpi, StandardAbi};

    #[test]
    fn a_constant_is_named_by_family_and_group() {
        assert_eq!(constant_name(Mpich, "rank", -1), Some("MPI_PROC_NULL"));
        assert_eq!(constant_name(OpenMpi, "rank", -1), Some("MPI_ANY_SOURCE"));
        assert_eq!(constant_name(Mpich, "tag", -1), Some("MPI_ANY_TAG"));
        assert_eq!(constant_name(StandardAbi, "thread", 4096), Some("MPI_THREAD_MULTIPLE"));
        assert_eq!(constant_name(Mpich, "rank", 0), None);
        assert_eq!(constant_name(Mpich, "nonsense", 0), None);
    }

    #[test]
    fn a_constant_has_its_name_only_since_the_version_that_brought_it() {
        let name = |version, group, value| constant_name_in(OpenMpi, version, group, value);
        assert_eq!(name(Some((5, 0)), "keyval", 12), Some("MPI_FT"));
        assert_eq!(name(Some((4, 1)), "keyval", 12), None);
        assert_eq!(name(None, "keyval", 12), Some("MPI_FT"));
        assert_eq!(name(Some((4, 1)), "rank", -1), Some("MPI_ANY_SOURCE"));
        let name = |version, value| constant_name_in(Mpich, Some(version), "splittype", value);
        assert_eq!(name((4, 0), 4), Some("MPIX_COMM_TYPE_NEIGHBORHOOD"));
        assert_eq!(name((4, 2), 4), Some("MPI_COMM_TYPE_RESOURCE_GUIDED"));
        assert_eq!(name((4, 0), 5), None);
    }

    #[test]
    fn the_version_is_read_from_the_version_string() {
        assert_eq!(version_of("Open MPI v4.1.4, package: Debian OpenMPI"), Some((4, 1)));
        assert_eq!(version_of("MPICH Version:      5.0.2\nMPICH Release date:"), Some((5, 0)));
        assert_eq!(version_of("MPICH Version:\t4.3.0b1"), Some((4, 3)));
        assert_eq!(version_of("Intel(R) MPI Library 2021.14 for Linux* OS"), None);
        assert_eq!(version_of(""), None);
    }

    #[test]
    fn a_constant_is_found_by_its_name() {
        assert_eq!(constant_value(Mpich, "MPI_ERR_TRUNCATE"), Some(14));
        assert_eq!(constant_value(OpenMpi, "MPI_UNDEFINED"), Some(-32766));
        assert_eq!(constant_value(Mpich, "MPI_TAG_UB"), Some(0x6440_0001));
        assert_eq!(constant_value(Mpich, "MPI_FT"), None);
        assert_eq!(constant_value(Mpich, "MPI_NONSENSE"), None);
    }

    #[test]
    fn the_newest_version_takes_precedence() {
        assert_eq!(constant_name(Mpich, "splittype", 4), Some("MPI_COMM_TYPE_RESOURCE_GUIDED"));
        assert_eq!(constant_value(Mpich, "MPIX_COMM_TYPE_NEIGHBORHOOD"), Some(5));
        assert_eq!(constant_value(Mpich, "MPI_BSEND_OVERHEAD"), Some(96));
        assert_eq!(constant_name(Mpich, "limit", 88), Some("MPI_BSEND_OVERHEAD"));
    }

    #[test]
    fn a_mask_is_spelled_out_with_what_has_no_name() {
        let amode = |mask| mask_names(Mpich, "amode", mask);
        assert_eq!(amode(1 | 4), "MPI_MODE_CREATE|MPI_MODE_WRONLY");
        assert_eq!(amode(1 | 0x1000), "MPI_MODE_CREATE|0x1000");
        assert_eq!(amode(0x1000), "0x1000");
        assert_eq!(amode(0), "0");
        assert_eq!(mask_names(OpenMpi, "assert", 18), "MPI_MODE_NOPRECEDE|MPI_MODE_NOSUCCEED");
    }

    #[test]
    fn a_handle_is_named_by_family_and_kind() {
        assert_eq!(handle_name(Mpich, "comm", 0x4400_0000), Some("MPI_COMM_WORLD"));
        assert_eq!(handle_name(Mpich, "request", 0x2c00_0000), Some("MPI_REQUEST_NULL"));
        assert_eq!(handle_name(Mpich, "message", 0x2c00_0000), Some("MPI_MESSAGE_NULL"));
        assert_eq!(handle_name(StandardAbi, "datatype", 0x20b), Some("MPI_LONG_LONG_INT"));
        assert_eq!(handle_name(Mpich, "datatype", 0x4c00_0247), Some("MPIX_BFLOAT16"));
        assert_eq!(handle_name(OpenMpi, "comm", 0x4400_0000), None);
    }

    #[test]
    fn handles_of_a_process_are_named_by_its_table() {
        let table: HandleTable = [
            ("comm", 0x7000, "MPI_COMM_WORLD"),
            ("datatype", 0x7000, "MPI_INT"),
            ("datatype", 0x6000, "MPI_C_FLOAT_COMPLEX"),
            ("datatype", 0x6000, "MPI_C_COMPLEX"),
        ]
        .into_iter()
        .collect();
        assert_eq!(table.name("comm", 0x7000), Some("MPI_COMM_WORLD"));
        assert_eq!(table.name("datatype", 0x7000), Some("MPI_INT"));
        assert_eq!(table.name("datatype", 0x6000), Some("MPI_C_FLOAT_COMPLEX"));
        assert_eq!(table.name("comm", 0x6000), None);
        assert_eq!(table.value("MPI_INT"), Some(0x7000));
        assert_eq!(table.entries().count(), 3);
        assert_eq!(table.entries().collect::<HandleTable>(), table);
    }

    #[test]
    fn every_row_and_every_value_of_the_tables_is_read() {
        fn check<T: Copy>(text: &'static str, parsed: &[Row<T>]) {
            let lines: Vec<_> = rows(text).collect();
            assert_eq!(lines.len(), parsed.len());
            for (line, row) in lines.into_iter().zip(parsed) {
                let words: Vec<_> = line.split_whitespace().collect();
                assert_eq!(words.len(), 5, "{line}");
                for (cell, family) in words[2..].iter().zip(Family::ALL) {
                    let written = cell.split(',').filter(|word| *word != "-").count();
                    assert_eq!(row.variants(family).len(), written, "{line}");
                }
            }
        }
        check(include_str!("constants.txt"), constants());
        check(include_str!("handles.txt"), handles());
    }

    #[test]
    fn a_name_in_several_groups_has_one_value() {
        for row in constants() {
            for family in Family::ALL {
                assert_eq!(constant_value(family, row.name), row.value(family), "{}", row.name);
            }
        }
    }

    #[test]
    fn a_number_has_one_name_in_a_group() {
        // Deliberate: MPI_BSEND_OVERHEAD and the like are sizes, not codes.
        let codes = || constants().iter().filter(|row| row.group != "limit");
        for family in Family::ALL {
            for row in codes() {
                if let Some(value) = row.value(family) {
                    assert_eq!(constant_name(family, row.group, value), Some(row.name));
                }
            }
        }
    }
}
