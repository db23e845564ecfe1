//! The functions of the rank that a value can be.
//!
//! They are those of communication patterns: a constant, a neighbour at a fixed distance, on a ring,
//! in a hypercube, on a grid, or in a binary tree. Arithmetic wraps, so every formula, fitted or
//! decoded, has a value for every rank.

use std::fmt;
use std::num::NonZeroU32;

use crate::error::ElasticError;
use crate::grid::{Grid, MOST_DIGITS};
use refrain_bytes::varint;

/// A value as a function of the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Formula {
    /// The same for every rank.
    Constant(i64),
    /// `scale * rank + offset`.
    Affine {
        /// The factor.
        scale: i64,
        /// The summand.
        offset: i64,
    },
    /// `(rank + shift) mod modulus + offset`.
    Modulo {
        /// The summand before the division.
        shift: u32,
        /// The size of the ring.
        modulus: NonZeroU32,
        /// The summand after it.
        offset: i64,
    },
    /// `(rank xor mask) + offset`.
    Xor {
        /// The bits that are inverted.
        mask: i64,
        /// The summand.
        offset: i64,
    },
    /// `scale * step(rank) + offset`.
    Tree {
        /// The step in the tree.
        step: TreeStep,
        /// The factor.
        scale: i64,
        /// The summand.
        offset: i64,
    },
    /// Linear in the digits of the rank: coordinates, transposes, neighbours on periodic grids.
    Grid(Grid),
}

/// A step in a binary tree over the ranks, as gathers and broadcasts take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeStep {
    /// The lowest set bit: the number of ranks in the subtree (0 for rank 0).
    LowestBit,
    /// The rank less its lowest set bit: the parent in a binomial tree.
    WithoutLowestBit,
    /// The rank plus its lowest set bit.
    PlusLowestBit,
    /// The rank with its lowest clear bit set.
    WithNextBit,
    /// The highest set bit (0 for rank 0).
    HighestBit,
    /// The rank less its highest set bit: the parent in a hypercube broadcast.
    WithoutHighestBit,
}

impl TreeStep {
    /// Every step, in the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::LowestBit,
        Self::WithoutLowestBit,
        Self::PlusLowestBit,
        Self::WithNextBit,
        Self::HighestBit,
        Self::WithoutHighestBit,
    ];

    /// The result of the step from `rank`.
    pub fn eval(self, rank: u32) -> i64 {
        let rank = i64::from(rank);
        let highest = || rank.checked_ilog2().map_or(0, |bit| 1i64 << bit);
        match self {
            Self::LowestBit => rank & -rank,
            Self::WithoutLowestBit => rank - (rank & -rank),
            Self::PlusLowestBit => rank + (rank & -rank),
            Self::WithNextBit => rank | (rank + 1),
            Self::HighestBit => highest(),
            Self::WithoutHighestBit => rank - highest(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::LowestBit => "lowest bit of rank",
            Self::WithoutLowestBit => "rank without its lowest bit",
            Self::PlusLowestBit => "rank plus its lowest bit",
            Self::WithNextBit => "rank with its lowest clear bit",
            Self::HighestBit => "highest bit of rank",
            Self::WithoutHighestBit => "rank without its highest bit",
        }
    }
}

/// The first code after those of formulas; [`crate::Form`] uses it for tables.
pub(crate) const TABLE_CODE: u8 = 8;

impl Formula {
    /// The value for `rank`, in wrapping arithmetic.
    #[inline]
    pub fn eval(&self, rank: u32) -> i64 {
        match *self {
            Self::Constant(value) => value,
            Self::Affine { scale, offset } => line(scale, i64::from(rank), offset),
            Self::Modulo { shift, modulus, offset } => {
                let turned = (u64::from(rank) + u64::from(shift)) % u64::from(modulus.get());
                offset.wrapping_add(turned as i64)
            }
            Self::Xor { mask, offset } => (i64::from(rank) ^ mask).wrapping_add(offset),
            Self::Tree { step, scale, offset } => line(scale, step.eval(rank), offset),
            Self::Grid(grid) => grid.eval(rank),
        }
    }

    /// `scale * rank + offset`; a constant if `scale` is zero.
    pub(crate) fn line(scale: i64, offset: i64) -> Self {
        match scale {
            0 => Self::Constant(offset),
            _ => Self::Affine { scale, offset },
        }
    }

    /// A grid as the simplest equivalent formula.
    pub(crate) fn grid(grid: Grid) -> Self {
        if let ([d], 0) = (grid.digits(), grid.top())
            && let (1, Some(modulus)) = (d.scale, NonZeroU32::new(d.radix))
        {
            return Self::Modulo { shift: d.shift, modulus, offset: grid.offset() };
        }
        Self::Grid(grid)
    }

    /// The code of the variant.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Constant(_) => 0,
            Self::Affine { .. } => 1,
            Self::Modulo { .. } => 2,
            Self::Xor { .. } => 3,
            Self::Tree { .. } => 4,
            Self::Grid(grid) => 4 + grid.digits().len() as u8,
        }
    }

    /// Appends the numbers of the formula. The caller stores the code.
    pub(crate) fn encode_numbers(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Constant(value) => varint::put_signed(out, value),
            Self::Affine { scale, offset } => {
                varint::put_signed(out, scale);
                varint::put_signed(out, offset);
            }
            Self::Modulo { shift, modulus, offset } => {
                varint::put(out, u64::from(shift));
                varint::put(out, u64::from(modulus.get()));
                varint::put_signed(out, offset);
            }
            Self::Xor { mask, offset } => {
                varint::put_signed(out, mask);
                varint::put_signed(out, offset);
            }
            Self::Tree { step, scale, offset } => {
                out.push(step as u8);
                varint::put_signed(out, scale);
                varint::put_signed(out, offset);
            }
            Self::Grid(grid) => grid.encode(out),
        }
    }

    /// Reads the numbers of the formula with this code.
    pub(crate) fn decode_numbers(input: &mut &[u8], code: u8) -> Result<Self, ElasticError> {
        const WHAT: ElasticError = ElasticError::Unknown("formula");
        const LAST: u8 = 4 + MOST_DIGITS as u8;
        Ok(match code {
            0 => Self::Constant(varint::take_signed(input)?),
            1 => Self::Affine {
                scale: varint::take_signed(input)?,
                offset: varint::take_signed(input)?,
            },
            2 => Self::Modulo {
                shift: varint::take_u32(input, "shift")?,
                modulus: NonZeroU32::new(varint::take_u32(input, "modulus")?)
                    .ok_or(ElasticError::OutOfRange("modulus"))?,
                offset: varint::take_signed(input)?,
            },
            3 => {
                Self::Xor { mask: varint::take_signed(input)?, offset: varint::take_signed(input)? }
            }
            4 => Self::Tree {
                step: TreeStep::ALL
                    .get(usize::from(varint::take_byte(input)?))
                    .copied()
                    .ok_or(WHAT)?,
                scale: varint::take_signed(input)?,
                offset: varint::take_signed(input)?,
            },
            5..=LAST => Self::Grid(Grid::decode(input, usize::from(code - 4))?),
            _ => return Err(WHAT),
        })
    }
}

fn line(scale: i64, x: i64, offset: i64) -> i64 {
    scale.wrapping_mul(x).wrapping_add(offset)
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, what, offset) = match *self {
            Self::Constant(value) => return write!(f, "{value}"),
            Self::Grid(grid) => return grid.fmt(f),
            Self::Affine { scale, offset } => (scale, "rank".to_owned(), offset),
            Self::Modulo { shift: 0, modulus, offset } => {
                (1, format!("(rank mod {modulus})"), offset)
            }
            Self::Modulo { shift, modulus, offset } => {
                (1, format!("((rank + {shift}) mod {modulus})"), offset)
            }
            Self::Xor { mask, offset } => (1, format!("(rank xor {mask})"), offset),
            Self::Tree { step, scale, offset } => (scale, format!("({})", step.name()), offset),
        };
        match scale {
            1 => f.write_str(&what)?,
            -1 => write!(f, "-{what}")?,
            _ => write!(f, "{scale} * {what}")?,
        }
        match offset {
            0 => Ok(()),
            offset if offset < 0 => write!(f, " - {}", offset.unsigned_abs()),
            offset => write!(f, " + {offset}"),
        }
    }
}
