//! The numbers of a group of threads, and their bytes.
//!
//! The numbers are affine functions of a few bases ([`ColumnSet`]). Before they are fitted, addresses on a
//! thread's own stack are made relative to it, so that they are equal in all threads.
//!
//! The bytes are in two streams: *kinds* says which base each number uses, *plain* has the scales and
//! offsets. Most offsets are near an earlier address, and are written as their distance from it.

use std::collections::HashMap;

use refrain_elastic::{Affine, Base, Column, ColumnSet, IdList};

use crate::bulk;
use crate::error::MemoryError;
use crate::segment::{swap_own, usual_addresses};
use refrain_bytes::varint;

/// The most values that the columns of a damaged trace may unpack to.
pub const MOST_VALUES: usize = 1 << 25;

/// Numbers over the threads of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadNumbers {
    /// The numbers; where `own_stacks`, with addresses on a thread's own stack swapped ([`swap_own`]).
    pub set: ColumnSet,
    /// Whether addresses on a thread's own stack are relative to it.
    pub own_stacks: bool,
}

impl ThreadNumbers {
    /// Fits the numbers: see [`ColumnSet::fit`].
    pub fn fit(threads: &IdList, numbers: &[Vec<Option<i64>>]) -> Self {
        let swapped = |(thread, numbers): (u32, &Vec<Option<i64>>)| {
            numbers.iter().map(|number| Some(swap_own(thread, (*number)?))).collect()
        };
        let numbers: Vec<Vec<Option<i64>>> = threads.iter().zip(numbers).map(swapped).collect();
        Self { set: ColumnSet::fit(threads, &numbers), own_stacks: true }
    }

    /// The numbers of a thread of the list.
    pub fn values(&self, threads: &IdList, thread: u32) -> Vec<i64> {
        let mut values = self.set.values(threads, thread);
        if self.own_stacks {
            values.iter_mut().for_each(|value| *value = swap_own(thread, *value));
        }
        values
    }

    /// The structure: which base each number uses, and whether it is near an earlier address.
    pub fn kinds(&self) -> Vec<u8> {
        let mut nearby = Nearby::default();
        let codes: Vec<u64> = self.set.columns.iter().map(|affine| nearby.code(affine).0).collect();
        let mut kinds = Vec::new();
        for run in codes.chunk_by(|a, b| a == b) {
            varint::put(&mut kinds, run[0] << 1 | u64::from(run.len() > 1));
            if run.len() > 1 {
                varint::put(&mut kinds, run.len() as u64);
            }
        }
        kinds
    }

    /// The scales and offsets: what [`ThreadNumbers::kinds`] leaves out.
    pub fn plain(&self) -> Vec<i64> {
        let mut nearby = Nearby::default();
        self.set.columns.iter().flat_map(|affine| nearby.code(affine).1).collect()
    }

    /// The inverse of [`ThreadNumbers::kinds`] and [`ThreadNumbers::plain`].
    pub fn assemble(
        bases: Vec<Base>,
        mut kinds: &[u8],
        plain: &[i64],
        version: u8,
    ) -> Result<Self, MemoryError> {
        let mut plain = plain.iter().copied();
        let mut nearby = Nearby::default();
        if version == 1 {
            nearby.addresses.clear();
        }
        let mut columns = Vec::new();
        while !kinds.is_empty() {
            let code = varint::take_u32(&mut kinds, "kind of number")?;
            // Version 1 had kinds only, and no number was relative to another.
            let (code, is_alone) = match version {
                1 => (code.saturating_mul(8) | code.min(1), false),
                _ => (code >> 1, code & 1 == 0),
            };
            if code as usize >> 3 > bases.len() + 1 {
                return Err(MemoryError::OutOfRange("base"));
            }
            for _ in 0..if is_alone { 1 } else { varint::take(&mut kinds)? } {
                let affine = nearby.affine(code, &mut plain);
                columns.push(affine.ok_or(MemoryError::Truncated)?);
            }
        }
        Ok(Self { set: ColumnSet { bases, columns }, own_stacks: version > 1 })
    }

    /// Appends the bases. A base that is not a column begins with a 0 byte. The bytes of a column begin with 0
    /// only if it is constant, and no base is constant.
    pub fn put_bases(&self, out: &mut Vec<u8>) {
        varint::put(out, self.set.bases.len() as u64);
        for base in &self.set.bases {
            match base {
                Base::Column(column) => column.encode_values(out),
                Base::Others => out.extend([0, 0]),
                Base::Sum { of, scale, plus } => {
                    out.push(0);
                    varint::put(out, u64::from(*of));
                    varint::put_signed(out, *scale);
                    varint::put_signed(out, *plus);
                }
            }
        }
    }

    /// Appends the set without its threads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put_bases(out);
        bulk::put_packed(out, &self.kinds());
        bulk::put_numbers(out, &self.plain());
    }

    /// Decodes a set over these threads.
    pub fn decode(input: &mut &[u8], threads: &IdList, version: u8) -> Result<Self, MemoryError> {
        let bases = take_bases(input, threads, version)?;
        let kinds = bulk::take_packed(input)?;
        let plain = bulk::take_numbers(input, bulk::MOST_NUMBERS)?;
        Self::assemble(bases, &kinds, &plain, version)
    }
}

/// Numbers of at least this size count as addresses.
const FAR: u64 = 1 << 40;
/// Addresses that are nearer to each other than this are written as their distance.
const NEAR: u64 = 1 << 36;
/// How many addresses that are not near each other are remembered.
const REMEMBERED: usize = 3;

/// The last addresses, and the last scale over each base. The next address is usually near one of them (on the
/// same stack, or in the same allocation).
struct Nearby {
    addresses: Vec<i64>,
    scales: HashMap<u32, i64>,
}

impl Default for Nearby {
    /// Starts near the initial thread's stack and heap.
    fn default() -> Self {
        Self { addresses: usual_addresses().to_vec(), scales: HashMap::new() }
    }
}

impl Nearby {
    /// The code of a number (its base, which remembered address it is near, counted from 1 with 0 for
    /// none, and whether its scale is new), and the numbers that follow the code.
    fn code(&mut self, affine: &Affine) -> (u64, Vec<i64>) {
        let (kind, scale, offset) = match *affine {
            Affine::Constant(value) => (0, 0, value),
            Affine::Over { base, scale, offset } => (1 + base, scale, offset),
        };
        let near = self.addresses.iter().position(|address| is_near(*address, offset));
        let near = near.filter(|_| is_address(offset));
        let distance = offset.wrapping_sub(near.map_or(0, |at| self.addresses[at]));
        let is_scaled = kind != 0 && self.scales.get(&kind) != Some(&scale);
        self.note(kind, scale, offset);
        let near = near.map_or(0, |at| 1 + at as u64);
        let code = u64::from(kind) << 3 | near << 1 | u64::from(is_scaled);
        (code, is_scaled.then_some(scale).into_iter().chain([distance]).collect())
    }

    /// The number with this code.
    fn affine(&mut self, code: u32, plain: &mut impl Iterator<Item = i64>) -> Option<Affine> {
        let (kind, near, is_scaled) = (code >> 3, code >> 1 & 3, code & 1 != 0);
        let scale = match is_scaled {
            true => plain.next()?,
            false => self.scales.get(&kind).copied().unwrap_or(0),
        };
        let address = near.checked_sub(1).and_then(|at| self.addresses.get(at as usize));
        let offset = plain.next()?.wrapping_add(address.copied().unwrap_or(0));
        self.note(kind, scale, offset);
        Some(affine_of(kind, scale, offset))
    }

    fn note(&mut self, kind: u32, scale: i64, offset: i64) {
        if kind != 0 {
            self.scales.insert(kind, scale);
        }
        if is_address(offset) {
            self.addresses.retain(|address| !is_near(*address, offset));
            self.addresses.insert(0, offset);
            self.addresses.truncate(REMEMBERED);
        }
    }
}

fn is_address(number: i64) -> bool {
    number.unsigned_abs() >= FAR
}

fn is_near(address: i64, other: i64) -> bool {
    other.wrapping_sub(address).unsigned_abs() < NEAR
}

fn affine_of(kind: u32, scale: i64, offset: i64) -> Affine {
    match kind.checked_sub(1) {
        None => Affine::Constant(offset),
        Some(base) => Affine::Over { base, scale, offset },
    }
}

/// Decodes bases of these threads.
pub fn take_bases(
    input: &mut &[u8],
    threads: &IdList,
    version: u8,
) -> Result<Vec<Base>, MemoryError> {
    let count = varint::take_count(input, "number of bases")?;
    if count.saturating_mul(threads.len()) > MOST_VALUES {
        return Err(MemoryError::OutOfRange("number of bases"));
    }
    let base = |_| {
        if version > 1 && input.first() == Some(&0) {
            varint::take_byte(input)?;
            let of = varint::take_u32(input, "base")?;
            if of == 0 {
                return Ok(Base::Others);
            }
            let (scale, plus) = (varint::take_signed(input)?, varint::take_signed(input)?);
            return Ok(Base::Sum { of, scale, plus });
        }
        let column = Column::decode_values(input, threads).map_err(MemoryError::Elastic)?;
        Ok(Base::Column(column))
    };
    (0..count).map(base).collect()
}
