//! Hashes whose values stand in files, or are compared between processes or runs. They never
//! change: each is part of the formats that use it.
//!
//! | function | used for |
//! |---|---|
//! | [`mix`] | thread paths, communicator numbers and coding contexts of receive orders; hashes of grammars and of groups of tasks |
//! | [`fnv1a_32`] | checksums of frames of receive orders |
//! | [`fnv1a_64`] | call sites of receive orders |
//! | [`checksum`] | encoder states (`*.state`) |
//!
//! None withstands an adversary. Sections of a `.refrain` file carry XXH3 checksums instead.

/// 2^64 divided by the golden ratio, and odd: multiplying by it spreads neighbouring numbers.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// FNV's offset basis for 64 bits.
pub const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
/// FNV's prime for 64 bits.
pub const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Mixes a value into a hash: rotate, xor, multiply by [`GOLDEN`], fold by a shift. The rotation
/// and the shift belong to the format of whoever calls it.
#[inline(always)]
pub const fn mix<const ROTATE: u32, const SHIFT: u32>(hash: u64, value: u64) -> u64 {
    let mixed = (hash.rotate_left(ROTATE) ^ value).wrapping_mul(GOLDEN);
    mixed ^ mixed >> SHIFT
}

/// FNV-1a of 32 bits.
#[inline]
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// FNV-1a of 64 bits.
#[inline]
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_BASIS, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

/// A checksum by eight bytes at a time, after FNV-1a: enough to notice a file that is not whole.
/// The last word is padded with zeros; the length is part of the hash.
#[inline]
pub fn checksum(bytes: &[u8]) -> u64 {
    words(bytes).fold(FNV_BASIS ^ bytes.len() as u64, |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(FNV_PRIME);
        mixed ^ mixed >> 29
    })
}

/// Bytes as little-endian words; the last one is padded with zeros.
#[inline]
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = bytes.as_chunks();
    let last = (!rest.is_empty()).then(|| {
        let mut word = [0; 8];
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    });
    words.iter().map(|word| u64::from_le_bytes(*word)).chain(last)
}
