//! Definitions of functions in a structure.
//!
//! A definition that is in this Refrain's table of MPI functions is not written: its number is its place in the table.
//! A hash of all such definitions shows whether a reader has the same table.
//!
//! | | |
//! |---|---|
//! | number of functions | |
//! | of each: 2 (number - number before) + (0 if it is in the table, else 1) | text, if it is not |
//! | hash of the texts that are in the table, 4 bytes | only if there are such |

use refrain_bytes::stable::fnv1a_32;
use refrain_format::define::FunctionDef;
use refrain_mpi::interface;
use refrain_signature::cells::{Cells, put_bytes, put_unsigned};
use refrain_signature::notes;
use std::collections::BTreeMap;

/// The definition with that number in the table, which is part of the format: see the test below.
fn known(number: u16) -> Option<String> {
    if let Some((_, text)) = notes::DEFINITIONS.iter().find(|(note, _)| *note == number) {
        return Some((*text).to_owned());
    }
    Some(FunctionDef::from(interface::functions().get(usize::from(number))?).to_text())
}

/// Writes the definitions.
pub fn put(out: &mut Vec<u8>, functions: &BTreeMap<u16, String>) {
    put_unsigned(out, functions.len() as u64);
    let (mut last, mut omitted) = (0, String::new());
    for (number, text) in functions {
        let is_known = known(*number).is_some_and(|known| known == *text);
        put_unsigned(out, u64::from(number - last) << 1 | u64::from(!is_known));
        match is_known {
            true => omitted += text,
            false => put_bytes(out, text.as_bytes()),
        }
        last = *number;
    }
    if !omitted.is_empty() {
        out.extend(fnv1a_32(omitted.as_bytes()).to_le_bytes());
    }
}

/// Reads the definitions.
pub fn get(cells: &mut Cells<'_>) -> Option<BTreeMap<u16, String>> {
    let mut functions = BTreeMap::new();
    let (mut number, mut omitted) = (0u64, String::new());
    for _ in 0..cells.get_length()? {
        let head = cells.get_unsigned()?;
        number = number.checked_add(head >> 1)?;
        let number = u16::try_from(number).ok()?;
        let text = match head & 1 {
            0 => {
                let text = known(number)?;
                omitted += &text;
                text
            }
            _ => cells.get_text()?,
        };
        functions.insert(number, text);
    }
    if !omitted.is_empty() && cells.take(4)? != fnv1a_32(omitted.as_bytes()).to_le_bytes() {
        return None;
    }
    Some(functions)
}

/// Reads the definitions of version 2: each with its text.
pub(crate) fn get_texts(cells: &mut Cells<'_>) -> Option<BTreeMap<u16, String>> {
    let mut functions = BTreeMap::new();
    let mut number = 0u64;
    for _ in 0..cells.get_length()? {
        number = number.checked_add(cells.get_unsigned()?)?;
        functions.insert(u16::try_from(number).ok()?, cells.get_text()?);
    }
    Some(functions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_bytes::stable::fnv1a_64;

    /// The functions of the table that structures of version 3 refer to, and the hash of their definitions.
    const TABLE: (usize, u64) = (701, 0xea87_564d_4f23_da43);

    #[test]
    fn numbers_of_functions_still_mean_what_they_meant() {
        let (functions, hash) = TABLE;
        let texts: String = (0..functions as u16).chain(notes::FIRST..).map_while(known).collect();
        let found = fnv1a_64(texts.as_bytes());
        assert!(
            found == hash,
            "the first {functions} of {} definitions have hash {found:#x}: traces refer to them by number. Add \
             functions at the end of interface.txt. If a definition must change, keep the former one here, with \
             its number, for structures that were written before",
            interface::functions().len(),
        );
    }

    #[test]
    fn definitions_read_back() {
        let mut functions: BTreeMap<u16, String> =
            [3, 18, 200, notes::MEMBERS].into_iter().map(|n| (n, known(n).unwrap())).collect();
        functions.insert(19, "MPI_Of_tomorrow int:error".to_owned());
        let mut bytes = Vec::new();
        put(&mut bytes, &functions);
        assert!(bytes.len() < 50, "{} bytes", bytes.len());
        let mut cells = Cells::new(&bytes);
        assert_eq!(get(&mut cells), Some(functions));
        assert!(cells.is_empty());
        // Another table.
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(get(&mut Cells::new(&bytes)), None);
    }
}
