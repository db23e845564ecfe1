//! Names of the sections of traces of calls and of records. A name that ends in `/` is followed by a number or a
//! range.

/// Facts about the run and its processes.
pub const META: &str = "meta";
/// Signatures and grammars.
pub const STRUCTURE: &str = "structure";
/// Signatures and loop nests, instead of `structure` where they are smaller.
pub const NEST: &str = "nest";
/// Loop nests with histograms, instead of signatures and sequences.
pub const HISTOGRAMS: &str = "histograms";
/// Statistics of durations.
pub const TIMING: &str = "timing";
/// Per-rank residue: outcomes and failed polls that a group does not share.
pub const OWN: &str = "own/";
/// Clocks of the processes.
pub const CLOCKS: &str = "clocks";
/// Mode and error bounds of the times of every call.
pub const TIMING_SETTING: &str = "timing-setting";
/// Times of every call.
pub const TIMES: &str = "times/";
/// Uncompressed records.
pub const RAW: &str = "raw/";

/// Facts of a record of receive orders.
pub const ORDER_FACTS: &str = "order/facts";
/// Receive orders of a rank.
pub const ORDER: &str = "order/";

/// Whether a trace of calls may have such a section.
pub fn is_known(name: &str) -> bool {
    [META, STRUCTURE, NEST, HISTOGRAMS, TIMING, CLOCKS, TIMING_SETTING].contains(&name)
        || [OWN, TIMES, RAW].iter().any(|prefix| name.starts_with(prefix))
}
