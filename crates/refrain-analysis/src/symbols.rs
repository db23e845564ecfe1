//! The symbol table of a module: names of functions and of static data.

use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationTarget,
    SymbolKind,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A page: modules are mapped in pages.
const PAGE: u64 = 4096;

/// The names in a module's symbol tables.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    functions: BTreeSet<String>,
    /// Address, size and name of static data, by address.
    data: Vec<(u64, u64, String)>,
    /// The functions of other modules that the linker's stubs jump to, by the address of the stub.
    stubs: BTreeMap<u64, String>,
    /// The module's lowest address, as its file has it.
    lowest: u64,
}

impl Symbols {
    /// Reads a module's file; `None` if it is not an object file.
    pub fn of(path: &Path) -> Option<Symbols> {
        let bytes = std::fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let mut symbols = Symbols {
            lowest: file.segments().map(|segment| segment.address()).min().unwrap_or(0)
                & !(PAGE - 1),
            ..Symbols::default()
        };
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let Ok(name) = symbol.name() else { continue };
            // `stdout@GLIBC_2.2.5`: a name with the version that the linker notes.
            let name = name.split('@').next().unwrap_or_default();
            if name.is_empty() || !symbol.is_definition() {
                continue;
            }
            match symbol.kind() {
                SymbolKind::Text => drop(symbols.functions.insert(name.to_owned())),
                SymbolKind::Data => {
                    symbols.data.push((symbol.address(), symbol.size(), demangled(name)));
                }
                _ => {}
            }
        }
        symbols.stubs = stubs(&file);
        symbols.data.sort();
        symbols.data.dedup_by_key(|(address, ..)| *address);
        Some(symbols)
    }

    /// The static variable at that offset from the beginning of the mapped module, and the offset within
    /// the variable.
    pub fn data_at(&self, offset: u64) -> Option<(&str, u64)> {
        let address = self.lowest.checked_add(offset)?;
        let after = self.data.partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.data.get(after.checked_sub(1)?)?;
        let within = address - start;
        (within < *size).then_some((name.as_str(), within))
    }

    /// The function of another module that the linker's stub at this address jumps to.
    pub fn stub_at(&self, address: u64) -> Option<&str> {
        let (start, name) = self.stubs.range(..=address).next_back()?;
        (address - start < STUB).then_some(name.as_str())
    }

    /// Whether there is a function of this name, as compiled by C, Fortran or C++.
    pub fn has_function(&self, name: &str) -> bool {
        let mangled = format!("_Z{}{name}", name.len());
        let module = format!("_MOD_{name}");
        self.functions.contains(name)
            || self.functions.contains(&format!("{name}_"))
            || self.functions.iter().any(|function| {
                function.ends_with(&module) || function.strip_prefix(&mangled).is_some()
            })
    }

    /// The functions whose names are most like this one, the most similar first.
    pub fn similar_functions(&self, name: &str) -> Vec<String> {
        const MOST: usize = 3;
        let mut all: Vec<(usize, &String)> = self
            .functions
            .iter()
            .filter_map(|function| Some((distance(name, function)?, function)))
            .collect();
        all.sort();
        all.into_iter().take(MOST).map(|(_, function)| function.clone()).collect()
    }
}

/// The size of a linker's stub.
const STUB: u64 = 16;

/// The stubs through which a module calls others: `jmp *slot(%rip)`, where the loader puts the
/// address of a symbol into the slot.
fn stubs(file: &object::File<'_>) -> BTreeMap<u64, String> {
    const JUMP: [u8; 2] = [0xff, 0x25];
    let names = file.dynamic_symbol_table();
    let name = |target: RelocationTarget| match target {
        RelocationTarget::Symbol(index) => {
            let symbol = names.as_ref()?.symbol_by_index(index).ok()?;
            Some(symbol.name().ok()?.split('@').next()?.to_owned())
        }
        _ => None,
    };
    let slots: BTreeMap<u64, String> = file
        .dynamic_relocations()
        .into_iter()
        .flatten()
        .filter_map(|(slot, relocation)| Some((slot, name(relocation.target())?)))
        .collect();
    let mut stubs = BTreeMap::new();
    for section in file.sections() {
        if !section.name().is_ok_and(|name| name.starts_with(".plt")) {
            continue;
        }
        let Ok(code) = section.data() else { continue };
        for at in code.windows(6).enumerate().filter(|(_, six)| six.starts_with(&JUMP)) {
            let (at, six) = (at.0 as u64, at.1);
            let distance = i32::from_le_bytes([six[2], six[3], six[4], six[5]]);
            let next = section.address() + at + 6;
            if let Some(name) = slots.get(&next.wrapping_add_signed(distance.into())) {
                stubs.insert(section.address() + at - at % STUB, demangled(name));
            }
        }
    }
    stubs
}

/// A name as in the source code.
pub(crate) fn demangled(name: &str) -> String {
    // Without the prefix a name is not mangled: `a` is no encoding of `signed char`.
    match name.starts_with("_Z") || name.starts_with("_R") {
        true => addr2line::demangle_auto(name.into(), None).into_owned(),
        false => name.to_owned(),
    }
}

/// The distance between two names; `None` if they are not similar.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let (wanted, name) = (wanted.to_lowercase(), name.to_lowercase());
    if wanted == name {
        return Some(0);
    }
    // `compute_` for `compute`, `main._omp_fn.0` for `main`, `_ZN5Solver5solveEv` for `solve`.
    if wanted.len() >= 3 && name.contains(&wanted) {
        return Some(1);
    }
    let distance = edits(&wanted, &name);
    (distance <= 1 + wanted.len() / 4).then_some(1 + distance)
}

/// The edit distance of two texts: insertions, deletions and replacements of characters.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("compute", "compute"), 0);
        assert_eq!(edits("compute", "comptue"), 2);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
    }

    #[test]
    fn only_mangled_names_are_demangled() {
        assert_eq!(demangled("_Z7advancePdi"), "advance(double*, int)");
        for name in ["a", "b", "c", "d", "i", "Pv"] {
            assert_eq!(demangled(name), name);
        }
    }

    #[test]
    fn similar_functions_are_found() {
        let names = ["compute", "Compute_All", "compute_", "main", "main._omp_fn.0", "print"];
        let functions = names.map(str::to_owned).into();
        let symbols = Symbols { functions, ..Symbols::default() };
        assert_eq!(symbols.similar_functions("compte"), ["compute", "compute_"]);
        assert_eq!(symbols.similar_functions("MAIN"), ["main", "main._omp_fn.0"]);
        assert!(symbols.similar_functions("exchange").is_empty());
        assert!(symbols.has_function("main") && !symbols.has_function("mai"));
    }

    #[test]
    fn functions_are_found_by_their_names_in_the_source() {
        let names = ["solve_", "__grid_MOD_relax", "_Z7advancePdi"];
        let functions = names.map(str::to_owned).into();
        let symbols = Symbols { functions, ..Symbols::default() };
        assert!(["solve", "relax", "advance"].iter().all(|name| symbols.has_function(name)));
        assert!(!symbols.has_function("advanc") && !symbols.has_function("elax"));
    }

    #[test]
    fn static_data_is_named_within_its_bounds() {
        let data = vec![(0x1_4000, 0x100, "cells".to_owned()), (0x1_4200, 8, "turns".to_owned())];
        let symbols = Symbols { data, lowest: 0x1_0000, ..Symbols::default() };
        assert_eq!(symbols.data_at(0x4000), Some(("cells", 0)));
        assert_eq!(symbols.data_at(0x40ff), Some(("cells", 0xff)));
        assert_eq!(symbols.data_at(0x4100), None);
        assert_eq!(symbols.data_at(0x4204), Some(("turns", 4)));
        assert_eq!(symbols.data_at(0), None);
    }

    #[test]
    fn the_symbols_of_this_test_are_read() {
        let own = std::env::current_exe().expect("the test's own file");
        assert!(Symbols::of(&own).is_some_and(|symbols| symbols.has_function("main")));
        assert!(Symbols::of(Path::new("/etc/passwd")).is_none());
    }
}
