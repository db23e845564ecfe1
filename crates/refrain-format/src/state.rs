//! The state of a process: the encoder with everything it has encoded so far.
//!
//! One file per process in the folder of parts ([`file_name`]). Each write replaces it as a whole:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 8 | checksum of the bytes that follow: [`stable::checksum`] |
//! | varint | number of threads; for each: its number, the log position up to which it is encoded |
//! | the rest | the encoder's state |
//!
//! Numbers are LEB128. Sealed data is in a second file ([`sealed_file_name`]), which only grows; the
//! state has the offsets.

use refrain_bytes::stable;

/// The first bytes of a state.
pub const MAGIC: [u8; 8] = *b"REFRSTA2";

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

/// Completes a state whose first [`HEAD`] bytes are free.
pub fn seal(state: &mut [u8]) {
    if let Some((head, content)) = state.split_at_mut_checked(HEAD) {
        let bytes = MAGIC.into_iter().chain(stable::checksum(content).to_le_bytes());
        head.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    }
}

/// Verifies a state and returns its content; the error says what is wrong.
pub fn open(state: &[u8]) -> Result<&[u8], &'static str> {
    let (head, content) = state.split_at_checked(HEAD).ok_or("truncated state")?;
    let Some(checksum) = head.strip_prefix(&MAGIC) else {
        return Err("not a state: wrong magic");
    };
    match checksum == stable::checksum(content).to_le_bytes() {
        true => Ok(content),
        false => Err("wrong checksum"),
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
