//! How the times of every call are stored: the mode, and error bounds.

use refrain_timing::{Bound, Mode};
use std::io;
use std::path::Path;

pub use refrain_signature::setting::Setting;

/// The file in a folder of parts that holds the setting.
pub const FILE: &str = "timing";

/// The setting of `--timing`.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Mode and relative bounds.
    pub setting: Setting,
    /// The absolute bound in nanoseconds, for modes that know only that.
    pub absolute: f64,
}

impl Wanted {
    /// The setting for the agent. Only exact times and Refrain's own mode are written by processes: these are cheap and
    /// need no other library. All other modes are made from exact times afterwards.
    pub fn in_processes(&self) -> Setting {
        match self.setting.mode {
            Mode::Lossless | Mode::Loop => self.setting.clone(),
            _ => Setting { mode: Mode::Lossless, ..self.setting.clone() },
        }
    }

    /// As text: a line for mode and relative bounds, and one for the absolute bound.
    pub fn to_text(&self) -> String {
        format!("{}\n{}\n", self.setting.to_text(), self.absolute)
    }

    /// Writes it into a folder of parts, for the command that makes the trace.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join(FILE), self.to_text())
    }

    /// Reads it from a folder of parts.
    pub fn of(folder: &Path) -> Option<Wanted> {
        Wanted::from_text(&std::fs::read_to_string(folder.join(FILE)).ok()?)
    }

    /// Reads the text; `None` if it is malformed.
    pub fn from_text(text: &str) -> Option<Wanted> {
        let mut lines = text.lines();
        let setting = Setting::from_text(lines.next()?)?;
        let absolute = lines.next()?.parse().ok().filter(|nanos: &f64| *nanos >= 0.0)?;
        Some(Wanted { setting, absolute })
    }

    /// The bound in words: `exact`, `within 10 %`, `within 10 us`.
    pub fn bound(&self) -> String {
        let percent = |fraction: f64| format!("{} %", (fraction * 1e6).round() / 1e4);
        match self.setting.mode.bound() {
            Bound::Exact => "exact".to_owned(),
            Bound::Absolute => format!("within {} us", self.absolute / 1e3),
            Bound::Relative => {
                let mut words = format!("within {}", percent(self.setting.relative));
                for (function, bound) in &self.setting.functions {
                    words += &format!(", {function} {}", percent(*bound));
                }
                words
            }
        }
    }
}
