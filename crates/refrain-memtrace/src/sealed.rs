//! Sealed chunks as bytes, in a section of a trace or a file of parts: thread, length, bytes.

use refrain_bytes::varint::{put, put_bytes, take_bytes, take_u32};

/// Appends a chunk of a thread.
pub fn put_chunk(out: &mut Vec<u8>, thread: u32, chunk: &[u8]) {
    put(out, u64::from(thread));
    put_bytes(out, chunk);
}

/// The chunks, each with its thread, up to the first that is not complete.
pub fn chunks(mut input: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let thread = take_u32(&mut input, "thread").ok()?;
        Some((thread, take_bytes(&mut input).ok()?))
    })
}
