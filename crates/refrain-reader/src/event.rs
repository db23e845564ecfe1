//! A decoded call: its function, its values before and after, its times in ticks.
//!
//! Both sources of calls give events: the compressed trace ([`crate::decoder`]) and raw logs ([`crate::raw`]).
//! Handles in raw logs are those of the MPI library; the decoder numbers handles itself.

use refrain_format::define::FunctionDef;
use std::sync::Arc;

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Int(i64),
    /// A handle or an address.
    Word(u64),
    /// The program gave a null address.
    Null,
    /// A named address in place of an array.
    Special(u64),
    /// MPI did not set it.
    Unset,
    /// Not significant on this process.
    Insignificant,
    /// A string (any bytes).
    Text(Vec<u8>),
    /// An array.
    List(Vec<Value>),
    /// A status: its bytes, and whether the program had asked for it.
    Status {
        /// The bytes, as the ABI lays them out.
        bytes: Vec<u8>,
        /// The program passed `MPI_STATUS_IGNORE`.
        ignored: bool,
    },
    /// A status the program ignored and that was not kept.
    Ignored,
    /// An address: somewhere in a segment of memory.
    Place {
        /// The thread that first used the segment; none: the one that made the call.
        thread: Option<u32>,
        /// The segment's number.
        segment: u32,
        /// What it is called: `heap3`, `stack`, a module's name.
        name: Arc<str>,
        /// Bytes from the segment's beginning.
        offset: i64,
    },
}

impl Value {
    /// An address as a plain number, where functions return one: places as offsets.
    pub fn as_result(&self) -> i64 {
        match self {
            Value::Int(n) => *n,
            Value::Word(word) => *word as i64,
            Value::Place { offset, .. } => *offset,
            _ => 0,
        }
    }
}

/// One call of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The number of the call in its stream, from 0.
    pub number: u64,
    /// How many calls of this stream it was made inside of (from a callback).
    pub depth: u8,
    /// The function.
    pub function: Arc<FunctionDef>,
    /// Where in the program it was made, if that was kept: a line for each frame, innermost
    /// first, as `module+hex-offset`.
    pub site: Option<Arc<str>>,
    /// Ticks when it began.
    pub start: u64,
    /// Ticks when it returned; `None` if it never did.
    pub end: Option<u64>,
    /// What it returned.
    pub result: Option<i64>,
    /// The class of the error code it returned.
    pub error_class: Option<i32>,
    /// For each parameter the value before the call.
    pub inputs: Vec<Option<Value>>,
    /// For each parameter the value after the call.
    pub outputs: Vec<Option<Value>>,
}

impl Event {
    /// Whether it is no call, but a note between calls.
    pub fn is_note(&self) -> bool {
        self.function.name.starts_with("refrain_")
    }

    /// Whether it returned an error.
    pub fn is_failed(&self) -> bool {
        self.function.result_reads_as == "error" && self.result.is_some_and(|code| code != 0)
    }

    /// What a parameter is worth showing as: the output if there is one, else the input.
    pub fn value(&self, param: usize) -> Option<&Value> {
        let output = self.outputs.get(param).and_then(Option::as_ref);
        output.or_else(|| self.inputs.get(param).and_then(Option::as_ref))
    }
}
