//! What the caches look like.

use std::str::FromStr;

/// The most levels of a hierarchy.
pub const MOST_LEVELS: usize = 3;

/// Which line of a set is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The least recently used one.
    #[default]
    Lru,
    /// The one that a tree of bits points to (tree pseudo-LRU).
    Plru,
}

/// A level of the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Bytes.
    pub size: u64,
    /// Lines in a set.
    pub ways: u32,
    /// Whether all threads share one cache. Otherwise each has its own.
    pub shared: bool,
}

/// A hierarchy of caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The levels, the first one first.
    pub levels: Vec<Level>,
    /// Bytes of a line.
    pub line: u64,
    /// Which line is replaced.
    pub policy: Policy,
}

/// A hierarchy that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A level as text is not understood.
    #[error("`{0}` is no cache: give its size and its ways, such as 32k:8, 1m:16 or 32m:16:shared")]
    Text(String),
    /// The number of levels.
    #[error("a hierarchy has 1 to {MOST_LEVELS} levels, not {0}")]
    Levels(usize),
    /// The size of lines.
    #[error("lines of {0} bytes: give a power of two from 8 to 4096")]
    Line(u64),
    /// The number of ways.
    #[error("level {level} has {ways} ways: give 1 to 64 and, for plru, a power of two")]
    Ways {
        /// The level, from 1.
        level: usize,
        /// Its ways.
        ways: u32,
    },
    /// The number of sets.
    #[error(
        "level {level}: {size} bytes in {ways} ways of {line}-byte lines are not a power of two of \
         sets"
    )]
    Sets {
        /// The level, from 1.
        level: usize,
        /// Its bytes.
        size: u64,
        /// Its ways.
        ways: u32,
        /// Bytes of a line.
        line: u64,
    },
    /// A private level behind a shared one.
    #[error("level {0} is private, but the level before it is shared")]
    PrivateBehindShared(usize),
}

impl FromStr for Level {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let wrong = || GeometryError::Text(text.to_owned());
        let mut words = text.split(':');
        let (size, ways) = (words.next().ok_or_else(wrong)?, words.next().ok_or_else(wrong)?);
        let shared = match words.next() {
            None => false,
            Some("shared") => true,
            Some(_) => return Err(wrong()),
        };
        let lower = size.to_ascii_lowercase();
        let (digits, unit) = match lower.strip_suffix(['k', 'm', 'g']) {
            Some(digits) if lower.ends_with('k') => (digits, 1 << 10),
            Some(digits) if lower.ends_with('m') => (digits, 1 << 20),
            Some(digits) => (digits, 1 << 30),
            None => (&lower[..], 1),
        };
        let size = digits.parse::<u64>().ok().and_then(|size| size.checked_mul(unit));
        let ways = ways.parse().map_err(|_| wrong())?;
        match words.next() {
            None => Ok(Self { size: size.ok_or_else(wrong)?, ways, shared }),
            Some(_) => Err(wrong()),
        }
    }
}

impl Geometry {
    /// A checked hierarchy.
    pub fn new(levels: Vec<Level>, line: u64, policy: Policy) -> Result<Self, GeometryError> {
        if !(1..=MOST_LEVELS).contains(&levels.len()) {
            return Err(GeometryError::Levels(levels.len()));
        }
        if !line.is_power_of_two() || !(8..=4096).contains(&line) {
            return Err(GeometryError::Line(line));
        }
        for (level, &Level { size, ways, shared }) in (1..).zip(&levels) {
            let is_tree = policy == Policy::Plru;
            if !(1..=64).contains(&ways) || is_tree && !ways.is_power_of_two() {
                return Err(GeometryError::Ways { level, ways });
            }
            let row = line * u64::from(ways);
            if !size.is_multiple_of(row) || !(size / row).is_power_of_two() || size > 1 << 36 {
                return Err(GeometryError::Sets { level, size, ways, line });
            }
            let is_behind = level > 1 && levels.get(level - 2).is_some_and(|before| before.shared);
            if is_behind && !shared {
                return Err(GeometryError::PrivateBehindShared(level));
            }
        }
        Ok(Self { levels, line, policy })
    }

    /// How many sets a level has.
    pub fn sets(&self, level: &Level) -> u64 {
        level.size / (self.line * u64::from(level.ways))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_and_checked() {
        assert_eq!("32k:8".parse(), Ok(Level { size: 32 << 10, ways: 8, shared: false }));
        assert_eq!("2M:16:shared".parse(), Ok(Level { size: 2 << 20, ways: 16, shared: true }));
        for text in
            ["", "32k", "32k:", "x:8", "32k:8:private", "32k:8:shared:x", "99999999999999g:1"]
        {
            assert!(text.parse::<Level>().is_err(), "{text}");
        }
        let check = |levels: &[&str], line, policy| {
            let levels = levels.iter().map(|level| level.parse().unwrap()).collect();
            Geometry::new(levels, line, policy).map(|_| ())
        };
        assert_eq!(check(&["32k:8", "1m:16", "32m:16:shared"], 64, Policy::Lru), Ok(()));
        assert_eq!(check(&["48k:12"], 64, Policy::Lru), Ok(()));
        assert!(check(&["48k:12"], 64, Policy::Plru).is_err());
        assert!(check(&["40k:8"], 64, Policy::Lru).is_err());
        assert!(check(&["32k:8"], 48, Policy::Lru).is_err());
        assert!(check(&["32k:8:shared", "1m:16"], 64, Policy::Lru).is_err());
        assert!(check(&[], 64, Policy::Lru).is_err());
    }
}
