//! How times are kept, as one line of text: from the command line to the agent, and in its state.

use refrain_timing::{Bounds, Mode};

/// How the times of every call are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The mode.
    pub mode: Mode,
    /// The relative bound.
    pub relative: f64,
    /// Functions with a bound of their own.
    pub functions: Vec<(String, f64)>,
}

impl Setting {
    /// Exactly.
    pub fn lossless() -> Setting {
        Setting { mode: Mode::Lossless, relative: 0.1, functions: Vec::new() }
    }

    /// As text: `loop 0.1 MPI_Send=0.01`.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}", self.mode, self.relative);
        for (function, bound) in &self.functions {
            text += &format!(" {function}={bound}");
        }
        text
    }

    /// Reads the text; `None` if it is malformed, or a bound is out of range.
    pub fn from_text(text: &str) -> Option<Setting> {
        let mut words = text.split_ascii_whitespace();
        let mode = words.next()?.parse().ok()?;
        let relative = words.next()?.parse().ok()?;
        let function = |word: &str| {
            let (name, bound) = word.split_once('=')?;
            Some((name.to_owned(), bound.parse().ok()?))
        };
        let functions = words.map(function).collect::<Option<Vec<_>>>()?;
        let setting = Setting { mode, relative, functions };
        let bounds = setting.functions.iter().map(|(_, bound)| *bound);
        let is_sound = bounds.chain([relative]).all(|bound| Bounds::relative(bound).is_ok());
        is_sound.then_some(setting)
    }

    /// The bound of a function, if it has one of its own.
    pub fn own_bound(&self, function: &str) -> Option<f64> {
        self.functions.iter().rev().find(|(name, _)| name == function).map(|(_, bound)| *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_line_of_text() {
        let functions = vec![("MPI_Send".to_owned(), 0.01)];
        let setting = Setting { mode: Mode::Loop, relative: 0.1, functions };
        assert_eq!(setting.to_text(), "loop 0.1 MPI_Send=0.01");
        assert_eq!(Setting::from_text(&setting.to_text()), Some(setting));
        for bad in ["", "loop", "lop 0.1", "loop 7", "loop 0.1 MPI_Send", "loop 0.1 MPI_Send=x"] {
            assert_eq!(Setting::from_text(bad), None, "{bad}");
        }
    }
}
