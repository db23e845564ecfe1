//! Values that are linear in the digits of a rank.
//!
//! On a Cartesian grid, a rank is a number in mixed radix whose digits are the coordinates. Linear
//! combinations of digits are coordinates, transposes of a grid (CG's exchange partner) and
//! positions in row and column communicators. A digit that is rotated within its radix is the
//! neighbour on a periodic grid.

use std::fmt;

use crate::error::ElasticError;
use refrain_bytes::varint;

/// The most digits below the top one.
pub const MOST_DIGITS: usize = 3;

/// One digit of the rank. It contributes `scale * ((digit + shift) mod radix)` to the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digit {
    /// The number of values of the digit.
    pub radix: u32,
    /// The rotation; less than the radix.
    pub shift: u32,
    /// The factor.
    pub scale: i64,
}

/// A linear combination of up to four digits of the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    offset: i64,
    depth: u8,
    digits: [Digit; MOST_DIGITS],
    top: i64,
}

impl Grid {
    /// `offset`, plus the contribution of each of the `digits` (from the lowest), plus `top` times the
    /// rest of the rank above them. `None` for no or more than three digits, for a radix of zero, or for
    /// a shift that is not less than its radix.
    pub fn new(offset: i64, digits: &[Digit], top: i64) -> Option<Self> {
        let good = (1..=MOST_DIGITS).contains(&digits.len());
        if !good || digits.iter().any(|d| d.shift >= d.radix) {
            return None;
        }
        let mut grid = Self { offset, depth: digits.len() as u8, digits: Default::default(), top };
        grid.digits.iter_mut().zip(digits).for_each(|(to, from)| *to = *from);
        Some(grid)
    }

    /// The summand.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The digits below the top one, from the lowest.
    pub fn digits(&self) -> &[Digit] {
        self.digits.get(..usize::from(self.depth)).unwrap_or_default()
    }

    /// The factor of the top digit.
    pub fn top(&self) -> i64 {
        self.top
    }

    /// The value for `rank`, in wrapping arithmetic.
    pub fn eval(&self, rank: u32) -> i64 {
        let mut value = self.offset;
        let mut rank = rank;
        for d in self.digits() {
            let digit = (u64::from(rank % d.radix) + u64::from(d.shift)) % u64::from(d.radix);
            value = value.wrapping_add(d.scale.wrapping_mul(digit as i64));
            rank /= d.radix;
        }
        value.wrapping_add(self.top.wrapping_mul(i64::from(rank)))
    }

    /// Appends the grid. The caller stores the number of digits.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        varint::put_signed(out, self.offset);
        for d in self.digits() {
            varint::put(out, u64::from(d.radix));
            varint::put(out, u64::from(d.shift));
            varint::put_signed(out, d.scale);
        }
        varint::put_signed(out, self.top);
    }

    /// Reads a grid of `depth` digits.
    pub(crate) fn decode(input: &mut &[u8], depth: usize) -> Result<Self, ElasticError> {
        const WHAT: ElasticError = ElasticError::OutOfRange("grid");
        let offset = varint::take_signed(input)?;
        let mut digits = [Digit::default(); MOST_DIGITS];
        let used = digits.get_mut(..depth).ok_or(WHAT)?;
        for d in used.iter_mut() {
            d.radix = varint::take_u32(input, "radix")?;
            d.shift = varint::take_u32(input, "shift")?;
            d.scale = varint::take_signed(input)?;
        }
        Self::new(offset, used, varint::take_signed(input)?).ok_or(WHAT)
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut below = 1u64;
        let mut begun = false;
        for d in self.digits() {
            let digit = match below {
                1 => "rank".to_owned(),
                _ => format!("rank / {below}"),
            };
            below = below.saturating_mul(u64::from(d.radix));
            if d.scale == 0 {
                continue;
            }
            if begun {
                f.write_str(" + ")?;
            }
            begun = true;
            if d.scale != 1 {
                write!(f, "{} * ", d.scale)?;
            }
            match d.shift {
                0 => write!(f, "({digit} mod {})", d.radix)?,
                shift => write!(f, "(({digit} + {shift}) mod {})", d.radix)?,
            }
        }
        if self.top != 0 {
            if begun {
                f.write_str(" + ")?;
            }
            begun = true;
            match self.top {
                1 => write!(f, "rank / {below}")?,
                top => write!(f, "{top} * (rank / {below})")?,
            }
        }
        match self.offset {
            0 if begun => Ok(()),
            offset if !begun => write!(f, "{offset}"),
            offset if offset < 0 => write!(f, " - {}", offset.unsigned_abs()),
            offset => write!(f, " + {offset}"),
        }
    }
}
