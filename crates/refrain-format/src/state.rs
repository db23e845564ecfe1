//! The state of a process: what has been made of its logs so far.
//!
//! A file in the folder of parts ([`file_name`]), one for each process, put in place whole each time
//! it is written:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 8 | checksum of all that follows: [`stable::checksum`] |
//! | varint | number of threads; for each: number, position up to which its log is encoded |
//! | the rest | the encoder's state |
//!
//! Numbers are LEB128. What the encoder has sealed is in a second file ([`sealed_file_name`]), which
//! only grows; the state tells where.

use refrain_bytes::stable;

/// The first bytes of a state.
pub const MAGIC: [u8; 8] = *b"REFRSTA2";

/// The ending of its file name.
pub const EXTENSION: &str = "state";

/// The name of the file of a process; see [`crate::part::PartHeader`].
pub fn file_name(host: &str, pid: i32, process: u64) -> String {
    format!("{host}.{pid}.{process:x}.{EXTENSION}")
}

/// The ending of the name of the file that states refer to: bytes that are complete, put there
/// as they were sealed, and never changed.
pub const SEALED: &str = "sealed";

/// The name of the file that a process's states refer to.
pub fn sealed_file_name(host: &str, pid: i32, process: u64) -> String {
    format!("{host}.{pid}.{process:x}.{SEALED}")
}

/// The bytes before the content.
pub const HEAD: usize = 16;

/// Completes a state whose first [`HEAD`] bytes are free.
pub fn seal(state: &mut [u8]) {
    if let Some((head, content)) = state.split_at_mut_checked(HEAD) {
        head[..8].copy_from_slice(&MAGIC);
        head[8..].copy_from_slice(&stable::checksum(content).to_le_bytes());
    }
}

/// The content of a state; says what is wrong with it.
pub fn open(state: &[u8]) -> Result<&[u8], &'static str> {
    let (head, content) = state.split_at_checked(HEAD).ok_or("it is cut short")?;
    if head[..8] != MAGIC {
        return Err("it does not begin like one");
    }
    match head[8..] == stable::checksum(content).to_le_bytes() {
        true => Ok(content),
        false => Err("its checksum does not fit"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_or_cut_state_is_noticed() {
        let mut state = vec![0; HEAD];
        state.extend(b"something to remember");
        seal(&mut state);
        assert_eq!(open(&state), Ok(&b"something to remember"[..]));
        assert!(open(&state[..20]).is_err());
        state[18] ^= 1;
        assert!(open(&state).is_err());
    }
}
