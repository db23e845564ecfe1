//! Names of the sections of a trace of calls.

/// Facts.
pub const META: &str = "meta";
/// Signatures and grammars.
pub const STRUCTURE: &str = "structure";
/// Durations.
pub const TIMING: &str = "timing";
/// What ranks have of their own.
pub const OWN: &str = "own/";
/// Clocks of the processes.
pub const CLOCKS: &str = "clocks";
/// How times of every call are kept.
pub const TIMING_SETTING: &str = "timing-setting";
/// Times of every call.
pub const TIMES: &str = "times/";
/// Records.
pub const RAW: &str = "raw/";

/// Whether there is such a section.
pub fn is_known(name: &str) -> bool {
    [META, STRUCTURE, TIMING, CLOCKS, TIMING_SETTING].contains(&name)
        || [OWN, TIMES, RAW].iter().any(|prefix| name.starts_with(prefix))
}
