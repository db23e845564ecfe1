//! The head of a section: its bytes, and back.

use crate::Codec;
use refrain_bytes::varint;
use std::hash::Hasher;
use std::io::{self, Read};
use twox_hash::XxHash3_64;

const SECTION_MARK: [u8; 2] = [0xa7, b'S'];
/// Mark, codec, name length, checksum.
const FIXED_HEAD: usize = 8;
const LONG: u8 = 0x80;
/// In the place of a name's length: the name is the one of this number in [`NAMES`].
const NAMED: u8 = 0x80;
/// Names that every trace has. Their numbers belong to the format.
const NAMES: [&str; 3] = ["meta", "structure", "timing"];

/// A section, as its head describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name, e.g. `raw/3`.
    pub name: String,
    /// How it is stored.
    pub codec: Codec,
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes when decoded.
    pub full: u64,
    /// Checksum of codec, name and stored bytes.
    pub checksum: u32,
    /// Where its head begins.
    pub(crate) offset: u64,
    /// Whether its head is long: lengths of fixed size.
    pub(crate) long: bool,
    /// Whether its head has the number of its name, not the name.
    pub(crate) is_named: bool,
}

/// Reads a number; the end of the input is an error.
pub(crate) fn read_number(input: &mut impl Read) -> io::Result<u64> {
    varint::read(input)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

impl Section {
    /// Whether a name has a number.
    pub(crate) fn is_known(name: &str) -> bool {
        NAMES.contains(&name)
    }

    /// The bytes of the head, with the name.
    pub(crate) fn head(&self) -> io::Result<Vec<u8>> {
        let known = NAMES.iter().position(|name| *name == self.name);
        let length = match known.filter(|_| self.is_named) {
            Some(number) => NAMED | number as u8,
            None => u8::try_from(self.name.len())
                .ok()
                .filter(|length| length & NAMED == 0)
                .ok_or_else(|| io::Error::other("a section's name is too long"))?,
        };
        let mut head = SECTION_MARK.to_vec();
        head.push(self.codec as u8 | if self.long { LONG } else { 0 });
        head.push(length);
        head.extend(self.checksum.to_le_bytes());
        for length in [self.stored, self.full] {
            match self.long {
                true => head.extend(length.to_le_bytes()),
                false => varint::put(&mut head, length),
            }
        }
        if !self.is_named {
            head.extend(self.name.as_bytes());
        }
        Ok(head)
    }

    /// A hasher that has consumed codec and name, and a length that does not follow from the stored bytes; these follow.
    pub(crate) fn hasher(&self) -> XxHash3_64 {
        let mut hash = XxHash3_64::new();
        hash.write(&[self.codec as u8]);
        hash.write(self.name.as_bytes());
        if self.codec == Codec::Mixed {
            hash.write(&self.full.to_le_bytes());
        }
        hash
    }

    /// Reads a head with its name.
    pub(crate) fn read(input: &mut impl Read, offset: u64) -> io::Result<Section> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut head = [0; FIXED_HEAD];
        input.read_exact(&mut head)?;
        if head[..2] != SECTION_MARK {
            return Err(bad("no section begins here"));
        }
        let long = head[2] & LONG != 0;
        let codec = match head[2] & !LONG {
            0 => Codec::Stored,
            1 => Codec::Zstd,
            2 => Codec::Mixed,
            _ => return Err(bad("unknown codec")),
        };
        let checksum = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let mut number = || match long {
            true => {
                let mut bytes = [0; 8];
                input.read_exact(&mut bytes)?;
                Ok(u64::from_le_bytes(bytes))
            }
            false => read_number(input),
        };
        let (stored, full): (u64, u64) = (number()?, number()?);
        let is_named = head[3] & NAMED != 0;
        let name = if is_named {
            let name = NAMES.get(usize::from(head[3] & !NAMED));
            (*name.ok_or_else(|| bad("unknown name of a section"))?).to_owned()
        } else {
            let mut name = vec![0; usize::from(head[3])];
            input.read_exact(&mut name)?;
            String::from_utf8(name).map_err(|_| bad("a section's name is not text"))?
        };
        Ok(Section { name, codec, stored, full, checksum, offset, long, is_named })
    }

    pub(crate) fn content_offset(&self) -> u64 {
        let varint = |n: u64| u64::from((64 - (n | 1).leading_zeros()).div_ceil(7));
        let lengths = if self.long { 16 } else { varint(self.stored) + varint(self.full) };
        let name = if self.is_named { 0 } else { self.name.len() };
        let head = (FIXED_HEAD + name) as u64 + lengths;
        self.offset.saturating_add(head)
    }
}
