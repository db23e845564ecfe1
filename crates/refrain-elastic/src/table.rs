//! Values that fit no formula, as a list.
//!
//! A table has a value for each rank of a list, in ascending order of the ranks. The shortest encoding
//! is used: the values themselves, or their differences from the ranks or from the previous value; as
//! runs and literals, packed with the width of the largest, or, if few values are distinct, as indices
//! into a dictionary.

use refrain_bytes::table::Map;

use crate::error::ElasticError;
use crate::idlist::IdList;
use refrain_bytes::varint;

/// A value for each rank of a list, which the table does not contain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    values: Vec<i64>,
}

/// What a value is subtracted from before it is written.
#[derive(Clone, Copy)]
enum Base {
    Itself = 0,
    Rank = 1,
    Previous = 2,
}

const BASES: [Base; 3] = [Base::Itself, Base::Rank, Base::Previous];

/// The fewest consecutive equal values that are written as a run.
const WORTH_A_RUN: usize = 3;
/// The most entries of a dictionary.
const MOST_DISTINCT: usize = 4096;

/// The codes of the encodings; the low two bits are the base.
const RUNS: u8 = 0 << 2;
const PACKED: u8 = 1 << 2;
const DICTIONARY: u8 = 2 << 2;

impl Table {
    /// The values, in ascending order of their ranks.
    pub fn new(values: Vec<i64>) -> Self {
        Self { values }
    }

    /// The values, in ascending order of their ranks.
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    /// Appends the table of the ranks in `ranks`.
    pub(crate) fn encode(&self, ranks: &IdList, out: &mut Vec<u8>) {
        let mut best = Vec::new();
        let mut keep = |bytes: Vec<u8>| {
            if best.is_empty() || bytes.len() < best.len() {
                best = bytes;
            }
        };
        for base in BASES {
            let residuals = self.residuals(ranks, base);
            keep(encode_runs(base, &residuals));
            if let Some(bytes) = encode_packed(base, &residuals) {
                keep(bytes);
            }
        }
        if let Some(bytes) = encode_dictionary(&self.values) {
            keep(bytes);
        }
        out.append(&mut best);
    }

    /// The differences of the values from a base.
    fn residuals(&self, ranks: &IdList, base: Base) -> Vec<i64> {
        let values = self.values.iter().copied();
        match base {
            Base::Itself => self.values.clone(),
            Base::Rank => {
                values.zip(ranks.iter()).map(|(v, r)| v.wrapping_sub(i64::from(r))).collect()
            }
            Base::Previous => {
                let previous = std::iter::once(0).chain(values.clone());
                values.zip(previous).map(|(v, p)| v.wrapping_sub(p)).collect()
            }
        }
    }

    /// Reads the table of the ranks in `ranks`.
    pub(crate) fn decode(input: &mut &[u8], ranks: &IdList) -> Result<Self, ElasticError> {
        const WHAT: ElasticError = ElasticError::Unknown("table");
        let count = ranks.len();
        let code = varint::take_byte(input)?;
        let base = *BASES.get(usize::from(code & 3)).ok_or(WHAT)?;
        let mut values = match code & !3 {
            RUNS => decode_runs(input, count)?,
            PACKED => {
                let smallest = varint::take_signed(input)?;
                let width = varint::take_byte(input)?;
                let packed = unpack(input, width, count)?;
                packed.map(|bits| smallest.wrapping_add(bits as i64)).collect()
            }
            DICTIONARY => decode_dictionary(input, count)?,
            _ => return Err(WHAT),
        };
        match base {
            Base::Itself => {}
            Base::Rank => {
                for (value, rank) in values.iter_mut().zip(ranks.iter()) {
                    *value = value.wrapping_add(i64::from(rank));
                }
            }
            Base::Previous => {
                let mut sum = 0i64;
                for value in &mut values {
                    sum = sum.wrapping_add(*value);
                    *value = sum;
                }
            }
        }
        Ok(Self { values })
    }
}

/// Runs of equal values and sequences of other values, each with its length, whose low bit is the kind.
fn encode_runs(base: Base, values: &[i64]) -> Vec<u8> {
    let mut out = vec![RUNS | base as u8];
    let mut literals = 0..0;
    let flush = |literals: std::ops::Range<usize>, out: &mut Vec<u8>| {
        if !literals.is_empty() {
            varint::put(out, (literals.len() as u64) << 1);
            let literals = values.get(literals).unwrap_or_default();
            literals.iter().for_each(|&value| varint::put_signed(out, value));
        }
    };
    let mut at = 0;
    for run in values.chunk_by(|a, b| a == b) {
        let end = at + run.len();
        if run.len() >= WORTH_A_RUN {
            flush(literals, &mut out);
            varint::put(&mut out, (run.len() as u64) << 1 | 1);
            run.first().into_iter().for_each(|&value| varint::put_signed(&mut out, value));
            literals = end..end;
        } else {
            literals.end = end;
        }
        at = end;
    }
    flush(literals, &mut out);
    out
}

fn decode_runs(input: &mut &[u8], count: usize) -> Result<Vec<i64>, ElasticError> {
    let mut values = Vec::new();
    while values.len() < count {
        let head = varint::take(input)?;
        let length = head >> 1;
        if length == 0 || length > (count - values.len()) as u64 {
            return Err(ElasticError::OutOfRange("run"));
        }
        if head & 1 == 1 {
            let value = varint::take_signed(input)?;
            values.resize(values.len() + length as usize, value);
        } else {
            for _ in 0..length {
                values.push(varint::take_signed(input)?);
            }
        }
    }
    Ok(values)
}

/// The smallest value, the width of the differences from it, and these as bits.
fn encode_packed(base: Base, values: &[i64]) -> Option<Vec<u8>> {
    let smallest = *values.iter().min()?;
    let largest = *values.iter().max()?;
    let width = width_of(largest.wrapping_sub(smallest) as u64);
    let mut out = vec![PACKED | base as u8];
    varint::put_signed(&mut out, smallest);
    out.push(width);
    pack(values.iter().map(|v| v.wrapping_sub(smallest) as u64), width, &mut out);
    Some(out)
}

/// The distinct values, ascending, and the index of each value among them.
fn encode_dictionary(values: &[i64]) -> Option<Vec<u8>> {
    let mut indices: Map<i64, u64> = Map::default();
    for &value in values {
        indices.insert(value, 0);
        if indices.len() > MOST_DISTINCT {
            return None;
        }
    }
    let mut distinct: Vec<i64> = indices.keys().copied().collect();
    distinct.sort_unstable();
    let mut out = vec![DICTIONARY | Base::Itself as u8];
    varint::put(&mut out, distinct.len() as u64);
    let mut previous = 0i64;
    for (i, value) in distinct.iter().enumerate() {
        varint::put_signed(&mut out, value.wrapping_sub(previous));
        previous = *value;
        indices.insert(*value, i as u64);
    }
    let width = width_of((distinct.len() as u64).checked_sub(1)?);
    let index = |value| indices.get(value).copied().unwrap_or(0);
    pack(values.iter().map(index), width, &mut out);
    Some(out)
}

fn decode_dictionary(input: &mut &[u8], count: usize) -> Result<Vec<i64>, ElasticError> {
    const WHAT: ElasticError = ElasticError::OutOfRange("dictionary");
    let size = varint::take(input)?;
    if size == 0 {
        return Err(WHAT);
    }
    let mut distinct = Vec::new();
    let mut value = 0i64;
    for _ in 0..size {
        value = value.wrapping_add(varint::take_signed(input)?);
        distinct.push(value);
    }
    let indices = unpack(input, width_of(size - 1), count)?;
    indices.map(|index| distinct.get(index as usize).copied().ok_or(WHAT)).collect()
}

/// The bits that numbers up to `largest` need; at least one, so that bits bound what is decoded.
fn width_of(largest: u64) -> u8 {
    (64 - largest.leading_zeros()).max(1) as u8
}

/// Appends `width` bits of each number, the lowest first.
fn pack(numbers: impl Iterator<Item = u64>, width: u8, out: &mut Vec<u8>) {
    let mut buffer = 0u128;
    let mut filled = 0;
    for number in numbers {
        buffer |= u128::from(number) << filled;
        filled += u32::from(width);
        while filled >= 8 {
            out.push(buffer as u8);
            buffer >>= 8;
            filled -= 8;
        }
    }
    if filled > 0 {
        out.push(buffer as u8);
    }
}

/// Reads `count` numbers of `width` bits.
fn unpack<'a>(
    input: &mut &'a [u8],
    width: u8,
    count: usize,
) -> Result<impl Iterator<Item = u64> + use<'a>, ElasticError> {
    if !(1..=64).contains(&width) {
        return Err(ElasticError::OutOfRange("width"));
    }
    // Cannot overflow: a number of ranks times at most 64.
    let bits = count as u64 * u64::from(width);
    let mut bytes = varint::take_slice(input, bits.div_ceil(8))?.iter();
    let mut buffer = 0u128;
    let mut filled = 0;
    Ok((0..count).map(move |_| {
        while filled < u32::from(width) {
            buffer |= u128::from(bytes.next().copied().unwrap_or(0)) << filled;
            filled += 8;
        }
        let number = buffer as u64 & (u64::MAX >> (64 - width));
        buffer >>= width;
        filled -= u32::from(width);
        number
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(values: &[i64]) -> usize {
        let ranks = IdList::range(0, values.len() as u32);
        let table = Table::new(values.to_vec());
        let mut bytes = Vec::new();
        table.encode(&ranks, &mut bytes);
        let input = &mut &bytes[..];
        assert_eq!(Table::decode(input, &ranks), Ok(table));
        assert!(input.is_empty());
        bytes.len()
    }

    #[test]
    fn each_kind_of_table_has_a_short_encoding() {
        let noise = |i: i64| (i.wrapping_mul(0x5851_f42d_4c95_7f2d) >> 33) & 7;
        let near_the_rank: Vec<i64> = (0..1000).map(|i| i + noise(i)).collect();
        assert!(size(&near_the_rank) < 400);
        let few: Vec<i64> = (0..1000).map(|i| noise(i) << 40).collect();
        assert!(size(&few) < 450);
        let runs: Vec<i64> = (0..1000).map(|i| noise(i / 100) << 40).collect();
        assert!(size(&runs) < 100);
        let mut sum = 0;
        let sums: Vec<i64> = (0..1000)
            .map(|i| {
                sum += noise(i) * 1000;
                sum
            })
            .collect();
        assert!(size(&sums) < 2100);
        size(&[i64::MIN, i64::MAX, 0, -1, 1]);
        size(&[5]);
        size(&[]);
    }
}
