//! The GNU build id of a module: a hash that the linker writes into a note. It identifies the
//! module's file later, even if the file has moved.

use std::fmt::{self, Display, Formatter};

/// A build id; empty if the module has none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BuildId {
    bytes: [u8; LONGEST],
    length: u8,
}

/// Linkers write ids of 8 to 20 bytes. Users may choose longer ones, which are ignored.
const LONGEST: usize = 32;

/// The type of the note.
const NT_GNU_BUILD_ID: u32 = 3;

impl BuildId {
    /// The build id of a module that has none.
    pub const NONE: BuildId = BuildId { bytes: [0; LONGEST], length: 0 };

    /// Finds the build id in the notes of a program header, which are padded to `alignment` bytes.
    pub fn in_notes(mut notes: &[u8], alignment: usize) -> Option<BuildId> {
        let alignment = if alignment == 8 { 8 } else { 4 };
        while let Some((head, rest)) = notes.split_first_chunk::<12>() {
            let [name, content, kind] = head.as_chunks::<4>().0 else { return None };
            let [name, content, kind] = [name, content, kind].map(|word| u32::from_le_bytes(*word));
            let (name, content) = (name as usize, content as usize);
            // The ends of name and content are padded, counted from the start of the note.
            let padded = |n: usize| n.checked_next_multiple_of(alignment);
            let from = padded(12 + name)?;
            let end = from.checked_add(content)?;
            let found = notes.get(from..end)?;
            if kind == NT_GNU_BUILD_ID && rest.get(..name)? == b"GNU\0" {
                return BuildId::of(found);
            }
            notes = notes.get(padded(end)?..)?;
        }
        None
    }

    fn of(found: &[u8]) -> Option<BuildId> {
        let mut id = BuildId::NONE;
        id.bytes.get_mut(..found.len())?.copy_from_slice(found);
        id.length = found.len() as u8;
        Some(id)
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.length == 0
    }
}

impl Display for BuildId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.get(..self.length.into()).unwrap_or_default();
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], content: &[u8], alignment: usize) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, content.len() as u32, kind] {
            note.extend(word.to_le_bytes());
        }
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(alignment), 0);
        }
        note
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        for alignment in [4, 8] {
            let other = note(5, b"GNU\0", &[1, 0, 0, 0, 9, 9], alignment);
            let own = note(NT_GNU_BUILD_ID, b"GNU\0", &[0xab; 20], alignment);
            let notes = [&other[..], &own].concat();
            let found = BuildId::in_notes(&notes, alignment).expect("a build id");
            assert_eq!(found.to_string(), "ab".repeat(20));
            assert_eq!(BuildId::in_notes(&other, alignment), None);
        }
    }

    #[test]
    fn damaged_notes_have_no_build_id() {
        let own = note(NT_GNU_BUILD_ID, b"GNU\0", &[1; 20], 4);
        for cut in 0..own.len() {
            assert_eq!(BuildId::in_notes(&own[..cut], 4), None);
        }
        let long = note(NT_GNU_BUILD_ID, b"GNU\0", &[1; 200], 4);
        assert_eq!(BuildId::in_notes(&long, 4), None);
        assert_eq!(BuildId::in_notes(&[0xff; 64], 4), None);
    }
}
