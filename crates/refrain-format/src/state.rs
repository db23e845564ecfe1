//! The state of a process: the encoder with everything it has encoded so far.
//!
//! One file per process in the folder of parts ([`file_name`]). The agent writes a new one beside it in pieces, and
//! exchanges both when the new one is whole:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 8 | checksum of the bytes that follow: [`Sum`] |
//! | varint | number of threads; for each: its number, the log position up to which it is encoded |
//! | the rest | the encoder's state |
//!
//! Numbers are LEB128. Sealed data is in a second file ([`sealed_file_name`]), which only grows; the
//! state has the offsets.

use refrain_bytes::stable;

/// The first bytes of a state.
pub const MAGIC: [u8; 8] = *b"REFRSTA3";

/// The extension of its file name.
pub const EXTENSION: &str = "state";

/// The file name of a process's state; see [`crate::part::PartHeader`].
pub fn file_name(host: &str, pid: i32, process: u64) -> String {
    format!("{host}.{pid}.{process:x}.{EXTENSION}")
}

/// The extension of the file of sealed data: bytes that are complete, appended when they were
/// sealed, and never changed.
pub const SEALED: &str = "sealed";

/// The file name of a process's sealed data.
pub fn sealed_file_name(host: &str, pid: i32, process: u64) -> String {
    format!("{host}.{pid}.{process:x}.{SEALED}")
}

/// Bytes before the content.
pub const HEAD: usize = 16;

/// A state is written in chunks of this size; the last one may be smaller.
pub const CHUNK: usize = 8 << 10;

/// The checksum of a state's content, chunk by chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The checksum of a whole content.
    pub fn of(content: &[u8]) -> Sum {
        let mut sum = Sum::default();
        content.chunks(CHUNK).for_each(|chunk| sum.add(chunk));
        sum
    }

    /// Adds the next chunk.
    pub fn add(&mut self, chunk: &[u8]) {
        self.0 = stable::mix::<5, 32>(self.0, stable::checksum(chunk));
    }

    /// What comes before the content with this checksum.
    pub fn head(self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let bytes = MAGIC.into_iter().chain(self.0.to_le_bytes());
        head.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        head
    }
}

/// Completes a state whose first [`HEAD`] bytes are free.
pub fn seal(state: &mut [u8]) {
    if let Some((head, content)) = state.split_first_chunk_mut() {
        *head = Sum::of(content).head();
    }
}

/// Verifies a state and returns its content; the error says what is wrong.
pub fn open(state: &[u8]) -> Result<&[u8], &'static str> {
    let (head, content) = state.split_first_chunk::<HEAD>().ok_or("truncated state")?;
    match *head == Sum::of(content).head() {
        true => Ok(content),
        false if head.starts_with(&MAGIC) => Err("wrong checksum"),
        false => Err("not a state: wrong magic"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_or_truncated_state_is_detected() {
        let mut state = vec![0; HEAD];
        state.extend(b"something to remember");
        seal(&mut state);
        assert_eq!(open(&state), Ok(&b"something to remember"[..]));
        assert!(open(&state[..20]).is_err());
        state[18] ^= 1;
        assert!(open(&state).is_err());
    }
}
