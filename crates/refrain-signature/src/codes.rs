//! The cells of a signature and of an outcome: which numbers stand for which value.
//!
//! A signature begins with a [`Head`](crate::head::Head). Then come the inputs, the result of
//! functions that return no error code, and, unless the function decides, the outputs. An
//! outcome begins with statuses among the inputs; then 0 for success, or error class and code;
//! then the outputs, if the function decides.
//!
//! | value | cells |
//! |---|---|
//! | int, count, offset | the number |
//! | aint | the number doubled; or an address, its first cell doubled plus 1; or -5 and the number |
//! | handle | own object: its number, from 1 · predefined: -1 - its number in the task · of another thread: 0, thread, number |
//! | request | own: signature + 1, number · predefined: as above · of another thread: 0, thread, signature, number · not made by a recorded call: 0, -1, and as a handle |
//! | address | null: 0 · own segment, from 1, and offset · in no known segment: -1 and the address · segment of another thread: -2, thread, segment, offset · named: -3 - its number in the task |
//! | string | its number in the task; or a code as for arrays |
//! | by address | state ([`refrain_format::record::state`]); then the value if it is one |
//! | array | number of elements; elements ([`crate::array`]) |
//! | array, otherwise | null -1 · named address -2 and an address · insignificant -3 · unset -4 · ignored -5 · of mixed elements -6, their number, each |
//! | array of requests | number of elements; array of first cells; array of numbers |
//! | new request | state; 1 and a request, or 0 and at the very end of the signature its number; if that is not 0, the signature that has number 0 |
//! | changed handles | how: unchanged 0 · all that can complete became null 1 · those at the completed indices 2 · otherwise 3 and each · unset 4 and a state or code; at the end of the outputs |
//! | status | `state * 16 + shape` and its fields ([`Shape`]) |
//! | input status | 0: the last one seen · 1 and its fields · 2 + state |

/// Codes that replace a number of elements.
pub mod code {
    /// A null address.
    pub const NULL: i64 = -1;
    /// A named address.
    pub const SPECIAL: i64 = -2;
    /// Not significant here.
    pub const INSIGNIFICANT: i64 = -3;
    /// Not set.
    pub const UNSET: i64 = -4;
    /// Statuses ignored.
    pub const IGNORED: i64 = -5;
    /// Elements of other threads among them.
    pub const MIXED: i64 = -6;
}

/// How handles changed.
pub mod change {
    /// Not at all.
    pub const NONE: i64 = 0;
    /// All that could complete became null.
    pub const ALL: i64 = 1;
    /// The handles at the completed indices became null.
    pub const INDEXED: i64 = 2;
    /// Otherwise: each handle follows.
    pub const EACH: i64 = 3;
    /// MPI did not set them.
    pub const UNSET: i64 = 4;
}

/// The fields of a status that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Shape {
    /// None: MPI defines none of them.
    Nothing = 0,
    /// Source, tag, bytes (-1: unknown), cancelled.
    Message = 1,
    /// Bytes.
    Transfer = 2,
    /// Cancelled.
    Cancelled = 3,
}

/// The source and tag of a file access's status, which has neither.
pub const NOT_KEPT: i32 = i32::MIN;

/// Added to a shape: the error code follows.
pub const WITH_ERROR: i64 = 4;
