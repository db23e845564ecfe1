//! A decoded call: its function, its values before and after, its times in ticks.
//!
//! Both sources of calls give events: the compressed trace ([`crate::decoder`]) and raw logs ([`crate::raw`]).
//! Handles in raw logs are those of the MPI library; the decoder numbers handles itself.

use refrain_format::define::FunctionDef;
use refrain_mpi::kind::Class;
use refrain_signature::notes;
use std::fmt;
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
    /// A named address instead of an array.
    Special(u64),
    /// MPI did not set it.
    Unset,
    /// Not significant on this process.
    Insignificant,
    /// A string (any bytes).
    Text(Vec<u8>),
    /// An array.
    List(Vec<Value>),
    /// A status: its bytes, and whether the program ignored it.
    Status {
        /// The bytes, as the ABI lays them out.
        bytes: Vec<u8>,
        /// The program passed `MPI_STATUS_IGNORE`.
        ignored: bool,
    },
    /// A status that the program ignored and that was not recorded.
    Ignored,
    /// An address: a segment of memory and an offset in it.
    Location {
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
    /// An address as a plain number, for functions that return one: the offset in its segment.
    pub fn as_result(&self) -> i64 {
        match self {
            Value::Int(n) => *n,
            Value::Word(word) => *word as i64,
            Value::Location { offset, .. } => *offset,
            _ => 0,
        }
    }
}

/// For a look at it: `4`, `heap3+0x40`, `[1, 2]`. The names of predefined handles are in the call: see
/// [`Call`](crate::Call)'s own text.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => n.fmt(f),
            Value::Word(word) | Value::Special(word) => write!(f, "{word:#x}"),
            Value::Null => f.pad("NULL"),
            Value::Unset => f.pad("unset"),
            Value::Insignificant => f.pad("insignificant"),
            Value::Text(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Value::List(all) => write_list(f, all),
            Value::Status { .. } => f.pad("status"),
            Value::Ignored => f.pad("ignored"),
            Value::Location { name, offset: 0, .. } => f.pad(name),
            Value::Location { name, offset, .. } if *offset < 0 => {
                write!(f, "{name}-{:#x}", offset.unsigned_abs())
            }
            Value::Location { name, offset, .. } => write!(f, "{name}+{offset:#x}"),
        }
    }
}

/// Elements in brackets.
pub(crate) fn write_list(f: &mut fmt::Formatter<'_>, all: &[impl fmt::Display]) -> fmt::Result {
    f.write_str("[")?;
    for (i, element) in all.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(f, "{comma}{element}")?;
    }
    f.write_str("]")
}

/// One call of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The number of the call in its stream, from 0.
    pub number: u64,
    /// Nesting depth: inside how many calls of this stream a callback made it.
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
    /// Whether it is a note between calls, not a call.
    pub fn is_note(&self) -> bool {
        notes::is_note(&self.function.name)
    }

    /// The program ignores the status of this call, which has not returned.
    pub(crate) fn ignore_status(&mut self) {
        for (param, output) in self.function.params.iter().zip(&mut self.outputs) {
            if param.class == Class::Status && param.is_output() {
                *output = Some(Value::Ignored);
            }
        }
    }

    /// Whether it returned an error.
    pub fn is_failed(&self) -> bool {
        self.function.result_reads_as == "error" && self.result.is_some_and(|code| code != 0)
    }

    /// The value of a parameter: the output if there is one, else the input.
    pub fn value(&self, param: usize) -> Option<&Value> {
        let output = self.outputs.get(param).and_then(Option::as_ref);
        output.or_else(|| self.inputs.get(param).and_then(Option::as_ref))
    }
}
