//! Error bounds of lossy times.

use crate::TimingError;
use crate::bytes::{Reader, put_number};
use std::collections::BTreeMap;

/// The largest relative bound.
pub const MOST_RELATIVE: f64 = 0.5;

/// The smallest relative bound, in units of 2^-32: about a millionth. Bin numbers then fit 32 bits.
const LEAST_UNITS: u32 = 4096;

/// The most different relative bounds.
pub(crate) const MOST_LEVELS: usize = 64;

/// Only terminals below this can have an individual bound.
const MOST_TERMINALS: u32 = 1 << 24;

/// A relative bound in units of 2^-32, rounded down. Encoder and decoder compute with integers, so
/// that they agree on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Relative(u32);

impl Relative {
    /// From a fraction.
    fn new(fraction: f64) -> Result<Relative, TimingError> {
        let units = (fraction * 2f64.powi(32)).floor();
        if !(fraction <= MOST_RELATIVE && units >= LEAST_UNITS.into()) {
            return Err(TimingError::Relative(fraction));
        }
        Ok(Relative(units as u32))
    }

    /// From the number in a block.
    fn from_units(units: u64) -> Result<Relative, TimingError> {
        match u32::try_from(units) {
            Ok(units @ LEAST_UNITS..=0x8000_0000) => Ok(Relative(units)),
            _ => Err(TimingError::Damaged("a relative bound out of range")),
        }
    }

    /// In units of 2^-32.
    pub fn units(self) -> u64 {
        self.0.into()
    }
}

/// Error bounds of lossy times: a fraction of each time, which may differ by signature, or a number of
/// ticks for modes with an absolute bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// The different relative bounds; the first is the default.
    levels: Vec<Relative>,
    /// For each terminal, the index of its bound in `levels`.
    level_of_terminal: Vec<u8>,
    absolute: u64,
}

impl Default for Bounds {
    /// 10 % of each time; 1000 ticks.
    fn default() -> Bounds {
        Bounds {
            levels: vec![Relative(429_496_729)],
            level_of_terminal: Vec::new(),
            absolute: 1000,
        }
    }
}

impl Bounds {
    /// The same relative bound for all terminals, from a millionth to [`MOST_RELATIVE`].
    pub fn relative(fraction: f64) -> Result<Bounds, TimingError> {
        Ok(Bounds { levels: vec![Relative::new(fraction)?], ..Bounds::default() })
    }

    /// Sets the absolute bound, in ticks.
    pub fn with_absolute(self, ticks: u64) -> Bounds {
        Bounds { absolute: ticks, ..self }
    }

    /// Sets the relative bound of one terminal.
    #[expect(clippy::indexing_slicing, reason = "resized just before")]
    pub fn set(&mut self, terminal: u32, fraction: f64) -> Result<(), TimingError> {
        if terminal >= MOST_TERMINALS {
            return Err(TimingError::Terminal(terminal));
        }
        let level = Relative::new(fraction)?;
        let index = match self.levels.iter().position(|known| *known == level) {
            Some(index) => index,
            None if self.levels.len() == MOST_LEVELS => return Err(TimingError::TooManyBounds),
            None => {
                self.levels.push(level);
                self.levels.len() - 1
            }
        };
        if self.level_of_terminal.len() <= terminal as usize {
            self.level_of_terminal.resize(terminal as usize + 1, 0);
        }
        self.level_of_terminal[terminal as usize] = index as u8;
        Ok(())
    }

    /// The absolute bound, in ticks.
    pub fn absolute(&self) -> u64 {
        self.absolute
    }

    /// The relative bound of a terminal.
    #[expect(
        clippy::indexing_slicing,
        reason = "`Bounds` returns only indices of existing levels, and level 0 exists"
    )]
    pub fn relative_of(&self, terminal: u32) -> f64 {
        self.levels[self.level_index(terminal)].0 as f64 / 2f64.powi(32)
    }

    pub(crate) fn levels(&self) -> &[Relative] {
        &self.levels
    }

    /// The index in `levels` of the bound of a terminal.
    #[inline]
    pub(crate) fn level_index(&self, terminal: u32) -> usize {
        self.level_of_terminal.get(terminal as usize).copied().unwrap_or(0).into()
    }

    /// Whether all terminals have the same bound.
    pub(crate) fn is_uniform(&self) -> bool {
        self.level_of_terminal.is_empty()
    }

    /// Writes the relative bounds of these terminals.
    #[expect(
        clippy::indexing_slicing,
        reason = "`Bounds` returns only indices of existing levels, and level 0 exists"
    )]
    pub(crate) fn put(&self, terminals: &[u32], out: &mut Vec<u8>) {
        let mut own = BTreeMap::new();
        if !self.is_uniform() {
            let indices = terminals.iter().map(|terminal| (*terminal, self.level_index(*terminal)));
            own.extend(indices.filter(|(_, index)| *index != 0));
        }
        let levels = if own.is_empty() { &self.levels[..1] } else { &self.levels };
        put_number(out, levels.len() as u64);
        levels.iter().for_each(|level| put_number(out, level.units()));
        if levels.len() > 1 {
            put_number(out, own.len() as u64);
            for (terminal, index) in own {
                put_number(out, terminal.into());
                out.push(index as u8);
            }
        }
    }

    /// Reads what [`put`](Bounds::put) wrote for these terminals.
    #[expect(clippy::indexing_slicing, reason = "resized just before")]
    pub(crate) fn get(terminals: &[u32], reader: &mut Reader<'_>) -> Result<Bounds, TimingError> {
        let damaged = |what| Err(TimingError::Damaged(what));
        let n = reader.amount()?;
        if !(1..=MOST_LEVELS).contains(&n) {
            return damaged("wrong number of relative bounds");
        }
        let level = |_| Relative::from_units(reader.number()?);
        let levels = (0..n).map(level).collect::<Result<Vec<_>, _>>()?;
        let mut bounds = Bounds { levels, ..Bounds::default() };
        if n > 1 {
            let most = terminals.iter().max().map_or(0, |terminal| u64::from(*terminal));
            for _ in 0..reader.amount()? {
                let terminal = reader.number()?;
                let index = reader.byte()?;
                if terminal > most.min(MOST_TERMINALS.into()) || usize::from(index) >= n {
                    return damaged("wrong bound of a signature");
                }
                let terminal = terminal as usize;
                if bounds.level_of_terminal.len() <= terminal {
                    bounds.level_of_terminal.resize(terminal + 1, 0);
                }
                bounds.level_of_terminal[terminal] = index;
            }
        }
        Ok(bounds)
    }
}
