//! Frames: the unit in which both methods write records to disk.
//!
//! A record is a sequence of frames: a length (LEB128), a body of that many bytes, and a checksum of
//! the body in four bytes, little-endian. A killed process leaves at most one incomplete frame, and
//! every frame before it is readable. The first byte of a body is its tag: 1 to 3 belong to the causal
//! method (see [`crate::causal::codec`]), 16 and above to the clock method.

use crate::error::OrderError;
use crate::varint::{put, take, take_bytes};

/// The tag of a frame that holds the order in which threads took turns. Both methods write it.
pub(crate) const TURNS: u8 = 2;

/// FNV-1a over the body: detects frames that are truncated or overwritten. Containers have their own
/// checksums.
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Appends a frame.
pub fn put_frame(out: &mut Vec<u8>, body: &[u8]) {
    put(out, body.len() as u64);
    out.extend_from_slice(body);
    out.extend_from_slice(&checksum(body).to_le_bytes());
}

/// Takes a frame's body.
pub fn take_frame<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], OrderError> {
    let length = take(input)?;
    let body = take_bytes(input, length)?;
    let sum = take_bytes(input, 4)?;
    if sum != checksum(body).to_le_bytes() {
        return Err(OrderError::Damaged);
    }
    Ok(body)
}
