//! How far lossy times may be off.

use crate::TimingError;
use crate::bytes::{Reader, put_number};
use std::collections::BTreeMap;

/// The largest relative bound.
pub const MOST_RELATIVE: f64 = 0.5;

/// The smallest, in units of 2^-32: about a millionth. Numbers of bins then fit 32 bits.
const LEAST_UNITS: u32 = 4096;

/// How many different relative bounds there may be.
pub(crate) const MOST_LEVELS: usize = 64;

/// Terminals below this can have a bound of their own.
const MOST_TERMINALS: u32 = 1 << 24;

/// A relative bound in units of 2^-32, rounded down: what encoder and decoder compute with is an
/// integer, the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Relative(u32);

impl Relative {
    /// Of a fraction.
    fn new(fraction: f64) -> Result<Relative, TimingError> {
        let units = (fraction * 2f64.powi(32)).floor();
        if !(fraction <= MOST_RELATIVE && units >= LEAST_UNITS.into()) {
            return Err(TimingError::Relative(fraction));
        }
        Ok(Relative(units as u32))
    }

    /// Of what a block says.
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

/// How far lossy times may be off: a fraction of each time, by signature where one is given, or a
/// number of ticks where the mode knows only that.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Different relative bounds; the first is that of all signatures without one of their own.
    levels: Vec<Relative>,
    /// For each terminal the place of its bound in `levels`.
    places: Vec<u8>,
    absolute: u64,
}

impl Default for Bounds {
    /// A tenth of each time; a thousand ticks.
    fn default() -> Bounds {
        Bounds { levels: vec![Relative(429_496_729)], places: Vec::new(), absolute: 1000 }
    }
}

impl Bounds {
    /// The same relative bound for all, from a millionth to [`MOST_RELATIVE`].
    pub fn relative(fraction: f64) -> Result<Bounds, TimingError> {
        Ok(Bounds { levels: vec![Relative::new(fraction)?], ..Bounds::default() })
    }

    /// With that many ticks as the absolute bound.
    pub fn with_absolute(self, ticks: u64) -> Bounds {
        Bounds { absolute: ticks, ..self }
    }

    /// Gives a terminal a relative bound of its own.
    pub fn set(&mut self, terminal: u32, fraction: f64) -> Result<(), TimingError> {
        if terminal >= MOST_TERMINALS {
            return Err(TimingError::Terminal(terminal));
        }
        let level = Relative::new(fraction)?;
        let place = match self.levels.iter().position(|known| *known == level) {
            Some(place) => place,
            None if self.levels.len() == MOST_LEVELS => return Err(TimingError::TooManyBounds),
            None => {
                self.levels.push(level);
                self.levels.len() - 1
            }
        };
        if self.places.len() <= terminal as usize {
            self.places.resize(terminal as usize + 1, 0);
        }
        self.places[terminal as usize] = place as u8;
        Ok(())
    }

    /// The absolute bound, in ticks.
    pub fn absolute(&self) -> u64 {
        self.absolute
    }

    /// The relative bound of a terminal.
    pub fn relative_of(&self, terminal: u32) -> f64 {
        self.levels[self.place(terminal)].0 as f64 / 2f64.powi(32)
    }

    pub(crate) fn levels(&self) -> &[Relative] {
        &self.levels
    }

    /// Where in `levels` the bound of a terminal is.
    #[inline]
    pub(crate) fn place(&self, terminal: u32) -> usize {
        self.places.get(terminal as usize).copied().unwrap_or(0).into()
    }

    /// Whether all terminals have the same.
    pub(crate) fn is_uniform(&self) -> bool {
        self.places.is_empty()
    }

    /// Writes the relative bounds of these terminals.
    pub(crate) fn put(&self, terminals: &[u32], out: &mut Vec<u8>) {
        let mut own = BTreeMap::new();
        if !self.is_uniform() {
            let places = terminals.iter().map(|terminal| (*terminal, self.place(*terminal)));
            own.extend(places.filter(|(_, place)| *place != 0));
        }
        let levels = if own.is_empty() { &self.levels[..1] } else { &self.levels };
        put_number(out, levels.len() as u64);
        levels.iter().for_each(|level| put_number(out, level.units()));
        if levels.len() > 1 {
            put_number(out, own.len() as u64);
            for (terminal, place) in own {
                put_number(out, terminal.into());
                out.push(place as u8);
            }
        }
    }

    /// Reads what [`put`](Bounds::put) wrote of these terminals.
    pub(crate) fn get(terminals: &[u32], reader: &mut Reader<'_>) -> Result<Bounds, TimingError> {
        let damaged = |what| Err(TimingError::Damaged(what));
        let n = reader.amount()?;
        if !(1..=MOST_LEVELS).contains(&n) {
            return damaged("the number of relative bounds");
        }
        let level = |_| Relative::from_units(reader.number()?);
        let levels = (0..n).map(level).collect::<Result<Vec<_>, _>>()?;
        let mut bounds = Bounds { levels, ..Bounds::default() };
        if n > 1 {
            let most = terminals.iter().max().map_or(0, |terminal| u64::from(*terminal));
            for _ in 0..reader.amount()? {
                let terminal = reader.number()?;
                let place = reader.byte()?;
                if terminal > most.min(MOST_TERMINALS.into()) || usize::from(place) >= n {
                    return damaged("the bound of a signature");
                }
                let terminal = terminal as usize;
                if bounds.places.len() <= terminal {
                    bounds.places.resize(terminal + 1, 0);
                }
                bounds.places[terminal] = place;
            }
        }
        Ok(bounds)
    }
}
