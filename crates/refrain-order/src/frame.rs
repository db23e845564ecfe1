//! Frames: the unit in which both methods write records to disk.
//!
//! A record is a sequence of frames: a length (LEB128), a body of that many bytes, and a checksum of
//! the body (FNV-1a) in four bytes, little-endian. A killed process leaves at most one incomplete frame, and
//! every frame before it is readable. The first byte of a body is its tag: 1 to 4 belong to the causal
//! method (see [`crate::causal::codec`]), 16 and above to the clock method.

use crate::error::OrderError;
use refrain_bytes::stable::fnv1a_32;
use refrain_bytes::varint::{put_bytes, take_bytes, take_slice};

/// The tag of a frame that holds the order in which threads took turns. Both methods write it.
pub(crate) const TURNS: u8 = 2;

/// Appends a frame.
pub fn put_frame(out: &mut Vec<u8>, body: &[u8]) {
    put_bytes(out, body);
    out.extend_from_slice(&fnv1a_32(body).to_le_bytes());
}

/// Takes a frame's body.
pub fn take_frame<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], OrderError> {
    let body = take_bytes(input)?;
    let sum = take_slice(input, 4)?;
    if sum != fnv1a_32(body).to_le_bytes() {
        return Err(OrderError::Damaged);
    }
    Ok(body)
}
