//! The modes in which the times of every call can be stored.

use crate::TimingError;
use std::fmt;
use std::str::FromStr;

/// How the times of every call are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Exactly.
    Lossless,
    /// Within a relative bound, clustered by position in the program's loops: the future work of
    /// Pilgrim §4.5.
    Loop,
    /// Within a relative bound, as two grammars over exponential bins (Pilgrim §2.3.2).
    Cfg,
    /// Within a relative bound, by the most frequent bins of each signature (Pilgrim §2.3.2).
    Hist,
    /// Within a relative bound, by SZ3 in the order of the calls; no longer read or written.
    Sz,
    /// Within a relative bound, by SZ3 signature by signature; no longer read or written.
    SzClustered,
    /// Within an absolute bound, by ZFP in the order of the calls.
    Zfp,
    /// Within an absolute bound, by ZFP signature by signature.
    ZfpClustered,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 8] = [
        Mode::Lossless,
        Mode::Loop,
        Mode::Cfg,
        Mode::Hist,
        Mode::Sz,
        Mode::SzClustered,
        Mode::Zfp,
        Mode::ZfpClustered,
    ];

    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Lossless => "lossless",
            Mode::Loop => "loop",
            Mode::Cfg => "cfg",
            Mode::Hist => "hist",
            Mode::Sz => "sz",
            Mode::SzClustered => "sz-clustered",
            Mode::Zfp => "zfp",
            Mode::ZfpClustered => "zfp-clustered",
        }
    }

    /// Whether this build supports the mode, if its library is installed.
    fn is_supported(self) -> bool {
        !matches!(self, Mode::Sz | Mode::SzClustered)
    }

    /// The names of all supported modes, as a phrase.
    pub fn words() -> String {
        let supported = Mode::ALL.into_iter().filter(|mode| mode.is_supported());
        let words: Vec<_> = supported.map(Mode::word).collect();
        let (last, first) =
            words.split_last().map_or(("", &[][..]), |(last, first)| (*last, first));
        format!("{} or {last}", first.join(", "))
    }

    /// Whether the mode can be used: this build supports it, and its library is installed.
    pub fn is_available(self) -> bool {
        match self {
            Mode::Lossless | Mode::Loop | Mode::Cfg | Mode::Hist => true,
            Mode::Sz | Mode::SzClustered => false,
            #[cfg(feature = "zfp")]
            Mode::Zfp | Mode::ZfpClustered => crate::zfp::is_there(),
            #[cfg(not(feature = "zfp"))]
            Mode::Zfp | Mode::ZfpClustered => false,
        }
    }

    /// The kind of its error bound.
    pub fn bound(self) -> Bound {
        match self {
            Mode::Lossless => Bound::Exact,
            Mode::Zfp | Mode::ZfpClustered => Bound::Absolute,
            _ => Bound::Relative,
        }
    }

    /// The first byte of a block in this mode.
    pub(crate) fn tag(self) -> u8 {
        Mode::ALL.iter().position(|mode| *mode == self).unwrap_or(0) as u8
    }

    /// The mode of a block that begins with this byte.
    pub(crate) fn from_tag(tag: u8) -> Option<Mode> {
        Mode::ALL.get(usize::from(tag)).copied()
    }
}

/// The error bound that a mode guarantees for each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Exact.
    Exact,
    /// The error is at most a fraction of the time.
    Relative,
    /// The error is at most a number of ticks.
    Absolute,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Mode {
    type Err = TimingError;

    fn from_str(word: &str) -> Result<Mode, TimingError> {
        let found = Mode::ALL.into_iter().find(|mode| mode.word() == word);
        found.ok_or_else(|| TimingError::UnknownMode(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_reads_back_from_its_word_and_its_tag() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(Mode::from_tag(mode.tag()), Some(mode));
        }
        assert_eq!(Mode::from_tag(8), None);
    }

    #[test]
    fn the_error_for_an_unknown_mode_lists_the_modes() {
        let error = "zpf".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`zpf` is not a timing mode: use lossless, loop, cfg, hist, zfp or zfp-clustered"
        );
    }
}
