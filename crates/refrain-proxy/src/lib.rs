//! Proxy applications: a C program whose trace is the trace that it comes from (Pilgrim §3).
//!
//! [`generate`] walks the loop nest of a trace and writes C: a function for each named block, `for` for loops,
//! formulas and tables of the rank for arguments. All ranks run the same program. Communicators, datatypes and other objects are
//! variables, numbered as in the trace; buffers are a segment of memory and an offset, allocated and freed where the
//! traced program did so. What MPI decided, such as which message a receive from any source got, is enforced by a
//! small library between the program and MPI (`support/outcomes.c`).
//!
//! The text of the program is in proportion to the nest: neither iterations nor ranks make it longer.
//!
//! * [`program`]: the trace as the generator needs it
//! * [`outcomes`]: what MPI decided
//! * [`call`]: a call as a statement; [`formula`]: numbers that depend on the rank
//! * [`body`]: loop nests as functions
//! * [`refused`]: what cannot be reproduced

mod body;
mod call;
mod formula;
mod memory;
mod names;
mod outcomes;
mod program;
mod refused;
mod text;

use crate::program::Program;
use refrain_reader::{CallTrace, TraceError};
pub use refused::Refused;

/// Where in the traced program a call was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The function, if it is known.
    pub function: Option<String>,
    /// The place in words.
    pub place: String,
}

/// What a program does between calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// Nothing.
    #[default]
    None,
    /// Sleeps as long as the traced program computed on average.
    Sleep,
    /// Computes as long.
    Spin,
}

/// How a program is generated.
pub struct Options<'o> {
    /// What it does between calls.
    pub compute: Compute,
    /// The names of call sites.
    pub site: &'o dyn Fn(&str) -> Option<Site>,
    /// What the trace is called in texts.
    pub trace: String,
    /// Nanoseconds of a tick, if computation is asked for.
    pub(crate) tick: Option<f64>,
}

impl<'o> Options<'o> {
    /// Options.
    pub fn new(
        trace: String,
        compute: Compute,
        site: &'o dyn Fn(&str) -> Option<Site>,
    ) -> Options<'o> {
        Options { compute, site, trace, tick: None }
    }
}

/// A generated program.
#[derive(Clone, Debug, Default)]
pub struct Proxy {
    /// Its files: name and text.
    pub files: Vec<(String, String)>,
    /// What it cannot reproduce.
    pub refused: Refused,
    /// How many ranks it is for.
    pub ranks: u32,
    /// Lines of `proxy.c`.
    pub lines: usize,
    /// Calls of all ranks in the trace, failed polls not counted.
    pub calls: u64,
}

/// Generates the program of a trace.
pub fn generate(trace: &CallTrace, options: Options<'_>) -> Result<Proxy, TraceError> {
    let program = Program::of(trace)?;
    let tick = (options.compute != Compute::None).then_some(trace.meta().tick);
    let options = Options { tick, ..options };
    Ok(text::write(&program, &options))
}
