//! The bytes of a log: the records that the agent writes for every call.
//!
//! A log is a sequence of records. Numbers are little-endian and unaligned. Every record
//! begins with eight bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 0-1 | function number (see *define*), or 0 |
//! | 2 | [`Tag`]; of an enter also [`IGNORES_STATUS`] |
//! | 3 | enter: nesting depth (more than 0 for calls made by callbacks); leave: [`PLAIN`] or 0 |
//! | 4-7 | length of the whole record |
//!
//! This word is stored *after* the rest of the record, so a log truncated by `kill -9` ends in
//! zeros, never in an incomplete record.
//!
//! * **define**: the definition of a function, as text ([`crate::define::FunctionDef`]). It precedes
//!   the function's first call, so a log explains itself.
//! * **enter**: `u64` start ticks, then the inputs. Written before the call is forwarded: a
//!   program that dies inside a call leaves its arguments.
//! * **leave**: `u64` end ticks, `i64` result, `u32` number of its *enter* (counted from 0 in this
//!   log), `i32` error class, then the outputs. Calls made by callbacks during the call are between
//!   its enter and its leave. A *plain* leave means success (0) and directly follows its enter; it
//!   has neither result, number nor class.
//! * **handles**: text, one line `kind hex-value name` for each predefined handle; only if handles
//!   are addresses (Open MPI). Once per process.
//! * **segment**: a piece of memory that the next record refers to: `u64` ticks, `u64` first address,
//!   `u64` bytes, `u64` anchor (offsets count from it; the first address, except for stacks), `u8`
//!   [`segment`] kind, `u32` device (0 for the host), then text: the module's file, for static data.
//!   It precedes the enter (or leave) that first names an address in it. The same segment may be
//!   announced again, by this thread or another. It exists until its release, or until an
//!   overlapping segment is announced.
//! * **release**: `u64` ticks, `u64` first address: the program freed a segment that MPI used.
//! * **members**: the members of a communicator that was just created: `u64` ticks, `u64` handle,
//!   `u32` number and `i32` ranks in `MPI_COMM_WORLD` (-1: not in it) of the group, then the same for
//!   the remote group (number 0 if there is none). It follows the leave of the call that created the
//!   communicator.
//! * **site**: `u32` number of a call site, then text: frames, innermost first, as
//!   `module@build-id+hex-offset`, one line each; without `@build-id` if the module has none. It
//!   precedes the first *enter at* that names it.
//! * **enter at**: an enter with `u32` call site between ticks and inputs.
//!
//! # Values
//!
//! Inputs are the parameters with direction `in` or `inout` and all of class memory, outputs
//! those with `out` or `inout` except memory, in order. By [`refrain_mpi::kind::Class`]:
//!
//! | form | bytes |
//! |---|---|
//! | int, by value | `i32` |
//! | aint, count, offset, handle, memory, address, by value | 8 bytes |
//! | one value by address | state `u8` ([`state`]), then as by value if it is [`state::VALUE`] |
//! | array | `u32` elements or an [`array`] code; elements as by value |
//! | string | `u32` bytes or a code; the bytes |
//! | strings, strings2 | `u32` elements or a code; strings, strings each |
//! | status | state `u8`; then the size as `u8` and the bytes if it is VALUE or CAPTURED |
//! | array of statuses | `u32` elements or a code; state, size, the bytes of all |
//!
//! # Example
//!
//! `MPI_Comm_rank(MPI_COMM_WORLD, &rank)` under MPICH, giving 3, where the function has
//! number 5:
//!
//! ```text
//! 05 00 02 00 18 00 00 00   enter, 24 bytes
//! 10 32 54 76 98 00 00 00   started at tick 0x9876543210
//! 00 00 00 44 00 00 00 00   comm = 0x44000000
//! 05 00 03 01 15 00 00 00   leave, plain, 21 bytes
//! 2c 32 54 76 98 00 00 00   ended 28 ticks later
//! 01 03 00 00 00            rank: a value, 3
//! ```

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// The end of the log.
    End = 0,
    /// A function definition.
    Define = 1,
    /// A call begins.
    Enter = 2,
    /// A call has returned.
    Leave = 3,
    /// Names of predefined handles.
    Handles = 4,
    /// A piece of memory that the next record refers to.
    Segment = 5,
    /// A piece of memory was freed.
    Release = 6,
    /// The members of a new communicator.
    Members = 7,
    /// A call site.
    Site = 8,
    /// A call begins, at a known call site.
    EnterAt = 9,
}

impl Tag {
    /// The tag in a record's third byte.
    pub fn from_byte(byte: u8) -> Option<Tag> {
        const ALL: [Tag; 10] = [
            Tag::End,
            Tag::Define,
            Tag::Enter,
            Tag::Leave,
            Tag::Handles,
            Tag::Segment,
            Tag::Release,
            Tag::Members,
            Tag::Site,
            Tag::EnterAt,
        ];
        let tag = ALL.get(usize::from(byte & !IGNORES_STATUS)).copied();
        let is_enter = matches!(tag, Some(Tag::Enter | Tag::EnterAt));
        tag.filter(|_| byte & IGNORES_STATUS == 0 || is_enter)
    }
}

/// In the third byte of an enter: the program passed `MPI_STATUS_IGNORE` or `MPI_STATUSES_IGNORE`. If the call
/// returns, its outputs say so too.
pub const IGNORES_STATUS: u8 = 1 << 7;

/// In a leave: the call succeeded, and no other call was made inside it.
pub const PLAIN: u8 = 1;

/// Bytes before a record's content.
pub const HEAD: usize = 8;

/// The first eight bytes of a record, as one number.
#[inline(always)]
pub const fn head(function: u16, tag: Tag, detail: u8, length: usize) -> u64 {
    function as u64 | (tag as u64) << 16 | (detail as u64) << 24 | (length as u64) << 32
}

/// Kinds of memory.
pub mod segment {
    /// From `malloc` and its relatives.
    pub const HEAP: u8 = 0;
    /// From `mmap`, or a mapping of unknown origin.
    pub const MAPPED: u8 = 1;
    /// A module's static data.
    pub const STATIC: u8 = 2;
    /// A thread's stack.
    pub const STACK: u8 = 3;
    /// Memory of a GPU.
    pub const DEVICE: u8 = 4;
    /// Memory that migrates between host and GPU.
    pub const MANAGED: u8 = 5;
    /// Host memory that a GPU can access.
    pub const PINNED: u8 = 6;
}

/// States of a value that C passes by address.
pub mod state {
    /// The program passed a null address.
    pub const NULL: u8 = 0;
    /// The value follows.
    pub const VALUE: u8 = 1;
    /// MPI did not set it (a failed test, an error).
    pub const UNSET: u8 = 2;
    /// A status that the program ignored (`MPI_STATUS_IGNORE`) and the agent recorded.
    pub const CAPTURED: u8 = 3;
    /// A status that the program ignored and that was not recorded.
    pub const IGNORED: u8 = 4;
}

/// Codes in place of an array's number of elements.
pub mod array {
    /// A null address.
    pub const NULL: u32 = u32::MAX;
    /// A named address (`MPI_UNWEIGHTED`, `MPI_ERRCODES_IGNORE` …), which follows in 8 bytes.
    pub const SPECIAL: u32 = u32::MAX - 1;
    /// Not significant on this process (not the root).
    pub const INSIGNIFICANT: u32 = u32::MAX - 2;
    /// MPI did not set it (a failed test, an error).
    pub const UNSET: u32 = u32::MAX - 3;
    /// `MPI_STATUSES_IGNORE`, and the statuses were not recorded.
    pub const IGNORED: u32 = u32::MAX - 4;
    /// The smallest code.
    pub const FIRST: u32 = IGNORED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_enter_may_say_that_a_status_is_ignored() {
        for byte in 0..IGNORES_STATUS {
            let tag = Tag::from_byte(byte);
            let is_enter = matches!(tag, Some(Tag::Enter | Tag::EnterAt));
            let flagged = Tag::from_byte(byte | IGNORES_STATUS);
            assert_eq!(flagged, tag.filter(|_| is_enter), "{byte}");
        }
    }
}
