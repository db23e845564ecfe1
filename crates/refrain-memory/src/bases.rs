//! Numbers as functions of the thread, over a few shared bases.
//!
//! The numbers of a trace that differ between threads mostly differ in the same way. All addresses in a
//! thread's share of the rows follow from the first row of the share, which is affine in the thread for an
//! even static schedule, and piecewise affine (floor and ceiling) for an uneven one. So a number is a
//! constant, or affine in the thread's number or in one of a few *bases*; each base is a [`Column`] over
//! the threads.

use std::collections::HashMap;

use refrain_elastic::{Column, RankList};

use crate::bulk;
use crate::error::MemoryError;
use crate::segment::{swap_own, usual_addresses};
use refrain_bytes::varint;

/// The most values that the columns of a damaged trace may unpack to.
pub const MOST_VALUES: usize = 1 << 25;

/// A number as a function of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affine {
    /// The same for every thread.
    Constant(i64),
    /// `scale * base + offset`. Base 0 is the thread's number; base n is `ColumnSet::bases[n - 1]`.
    Over {
        /// Which base.
        base: u32,
        /// The factor.
        scale: i64,
        /// The summand.
        offset: i64,
    },
}

/// A value for each thread of a list that several numbers are affine in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// Any values.
    Column(Column),
    /// 0 for the first thread, 1 for the others: the initial thread starts deep in its own stack, the
    /// others at the top of theirs.
    Others,
    /// The sum over all earlier threads of `scale * base + plus`, where `base` is an earlier base. If that
    /// base is the size of each thread's share, this is where the share begins.
    Sum {
        /// Which base, from 1.
        of: u32,
        /// The factor.
        scale: i64,
        /// The summand.
        plus: i64,
    },
}

/// Numbers over the threads of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnSet {
    /// The bases that the columns share.
    pub bases: Vec<Base>,
    /// One entry for each number.
    pub columns: Vec<Affine>,
    /// Whether addresses on a thread's own stack are relative to it ([`swap_own`]).
    pub own_stacks: bool,
}

impl ColumnSet {
    /// Fits the numbers. `numbers` has all numbers of each thread of the list, in ascending order of the
    /// threads; `None` where any value will do.
    pub fn fit(threads: &RankList, numbers: &[Vec<Option<i64>>]) -> Self {
        let ids: Vec<i64> = threads.iter().map(i64::from).collect();
        let mut fitted = Self { own_stacks: true, ..Self::default() };
        let mut bases = vec![ids];
        for at in 0..numbers.first().map_or(0, Vec::len) {
            let value = |(thread, numbers): (u32, &Vec<Option<i64>>)| {
                Some(swap_own(thread, numbers.get(at).copied().flatten()?))
            };
            let values: Vec<Option<i64>> = threads.iter().zip(numbers).map(value).collect();
            let affine = bases.iter().enumerate().find_map(|(i, base)| affine(&values, base, i));
            fitted.columns.push(affine.unwrap_or_else(|| {
                let (base, scale, offset) = new_base(&values);
                let column = || Base::Column(Column::fit_over(threads, &base));
                let base_is = match base.split_first() {
                    Some((0, others)) if others.iter().all(|other| *other == 1) => {
                        Some(Base::Others)
                    }
                    _ => (1..bases.len())
                        .filter(|of| matches!(fitted.bases[of - 1], Base::Column(_)))
                        .find_map(|of| sum(&base, &bases[of], of)),
                };
                fitted.bases.push(base_is.unwrap_or_else(column));
                bases.push(base);
                Affine::Over { base: bases.len() as u32 - 1, scale, offset }
            }));
        }
        fitted
    }

    /// The numbers of a thread of the list.
    pub fn values(&self, threads: &RankList, thread: u32) -> Vec<i64> {
        let bases: Vec<i64> =
            (0..self.bases.len()).map(|at| self.base(threads, thread, at)).collect();
        let number = |affine: &Affine| match *affine {
            Affine::Constant(value) => value,
            Affine::Over { base: 0, scale, offset } => {
                scale.wrapping_mul(i64::from(thread)).wrapping_add(offset)
            }
            Affine::Over { base, scale, offset } => {
                let base = bases.get(base as usize - 1).copied().unwrap_or(0);
                scale.wrapping_mul(base).wrapping_add(offset)
            }
        };
        let own = |number| if self.own_stacks { swap_own(thread, number) } else { number };
        self.columns.iter().map(|affine| own(number(affine))).collect()
    }

    /// A base of a thread of the list.
    fn base(&self, threads: &RankList, thread: u32, at: usize) -> i64 {
        match &self.bases[at] {
            Base::Column(column) => column.eval(thread).unwrap_or(0),
            Base::Others => i64::from(threads.first() != Some(thread)),
            Base::Sum { of, scale, plus } => {
                // Only columns are summed up.
                let column = match self.bases.get((*of as usize).wrapping_sub(1)) {
                    Some(Base::Column(column)) => column,
                    _ => return 0,
                };
                let before = threads.iter().take_while(|before| *before < thread);
                before.fold(0i64, |sum, before| {
                    let base = column.eval(before).unwrap_or(0);
                    sum.wrapping_add(scale.wrapping_mul(base)).wrapping_add(*plus)
                })
            }
        }
    }

    /// The structure: which base each number uses, and whether it is near an earlier address.
    pub fn kinds(&self) -> Vec<u8> {
        let mut nearby = Nearby::default();
        let codes: Vec<u64> = self.columns.iter().map(|affine| nearby.code(affine).0).collect();
        let mut kinds = Vec::new();
        for run in codes.chunk_by(|a, b| a == b) {
            varint::put(&mut kinds, run[0] << 1 | u64::from(run.len() > 1));
            if run.len() > 1 {
                varint::put(&mut kinds, run.len() as u64);
            }
        }
        kinds
    }

    /// The scales and offsets: what [`ColumnSet::kinds`] leaves out.
    pub fn plain(&self) -> Vec<i64> {
        let mut nearby = Nearby::default();
        self.columns.iter().flat_map(|affine| nearby.code(affine).1).collect()
    }

    /// The inverse of [`ColumnSet::kinds`] and [`ColumnSet::plain`].
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
        Ok(Self { bases, columns, own_stacks: version > 1 })
    }

    /// Appends the bases. A base that is no column begins with a 0 byte; a column begins so only if it is
    /// constant, and no base is.
    pub fn put_bases(&self, out: &mut Vec<u8>) {
        varint::put(out, self.bases.len() as u64);
        for base in &self.bases {
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

    /// Appends the set; the reader knows the threads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put_bases(out);
        bulk::put_packed(out, &self.kinds());
        bulk::put_numbers(out, &self.plain());
    }

    /// Takes a set over these threads.
    pub fn decode(input: &mut &[u8], threads: &RankList, version: u8) -> Result<Self, MemoryError> {
        let bases = take_bases(input, threads, version)?;
        let kinds = bulk::take_packed(input)?;
        let plain = bulk::take_numbers(input, bulk::MOST_NUMBERS)?;
        Self::assemble(bases, &kinds, &plain, version)
    }
}

/// Numbers of at least this size are taken for addresses: large, and many of them close together.
const FAR: u64 = 1 << 40;
/// Addresses that are nearer to each other than this are written as their distance.
const NEAR: u64 = 1 << 36;
/// How many addresses that are not near each other are remembered.
const REMEMBERED: usize = 3;

/// The last addresses, of which the next is mostly near one (on the same stack, or in the same
/// allocation), and the last scale over each base.
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

/// Takes bases of these threads.
pub fn take_bases(
    input: &mut &[u8],
    threads: &RankList,
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

/// A base as the sum of another, if it is one.
fn sum(base: &[i64], of: &[i64], at: usize) -> Option<Base> {
    if base.first() != Some(&0) || base.len() < 3 {
        return None;
    }
    let steps: Vec<Option<i64>> =
        base.windows(2).map(|pair| Some(pair[1].wrapping_sub(pair[0]))).collect();
    match affine(&steps, &of[..steps.len()], at)? {
        Affine::Over { base, scale, offset } => Some(Base::Sum { of: base, scale, plus: offset }),
        Affine::Constant(_) => None,
    }
}

/// The values as a constant, or as affine in the base of index `at`.
fn affine(values: &[Option<i64>], base: &[i64], at: usize) -> Option<Affine> {
    let mut known = values.iter().zip(base).filter_map(|(value, base)| Some(((*value)?, *base)));
    let Some((first, first_base)) = known.next() else { return Some(Affine::Constant(0)) };
    let Some((other, other_base)) = known.clone().find(|(value, _)| *value != first) else {
        return Some(Affine::Constant(first));
    };
    let (rise, run) = (other.wrapping_sub(first), other_base.wrapping_sub(first_base));
    if run == 0 || rise.checked_rem(run)? != 0 {
        return None;
    }
    let scale = rise / run;
    let offset = first.wrapping_sub(scale.wrapping_mul(first_base));
    let holds = |(value, base): (i64, i64)| scale.wrapping_mul(base).wrapping_add(offset) == value;
    known.all(holds).then_some(Affine::Over { base: at as u32, scale, offset })
}

/// A base for values that are not affine in any other base. Offset and common divisor are taken out, so
/// that addresses of rows become indices of rows. Returns base, scale and offset. Where any value will
/// do, the base repeats the value before.
fn new_base(values: &[Option<i64>]) -> (Vec<i64>, i64, i64) {
    let offset = values.iter().copied().flatten().next().unwrap_or(0);
    let mut near = 0;
    let distances = values.iter().map(|value| {
        near = value.map_or(near, |value| value.wrapping_sub(offset));
        near
    });
    let distances: Vec<i64> = distances.collect();
    let divisor = distances.iter().fold(0, |divisor, d| common_divisor(divisor, d.unsigned_abs()));
    match i64::try_from(divisor) {
        Ok(scale @ 1..) => (distances.iter().map(|d| d / scale).collect(), scale, offset),
        _ => (distances, 1, offset),
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
