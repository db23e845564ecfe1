//! Notes: what a log says besides calls, as calls of functions that do not exist.
//!
//! That a segment of memory came into use or was freed, and who is in a new communicator, stands
//! in the sequence of a task like a call, so that it repeats with the loop it is part of.

/// Numbers of functions from here on are notes.
pub const FIRST: u16 = 0xff00;
/// A segment of memory was first used.
pub const SEGMENT: u16 = FIRST;
/// It was freed, or gave way to another.
pub const RELEASE: u16 = FIRST + 1;
/// Who is in a new communicator.
pub const MEMBERS: u16 = FIRST + 2;

/// The forms of the notes, as [`refrain_format::define`] has them.
///
/// The length of a segment is given as an output: it is kept as an outcome, since a program that
/// allocates another length each time does not do something else each time.
pub const DEFINITIONS: [(u16, &str); 3] = [
    (
        SEGMENT,
        "refrain_segment int:error segment:in:int:number kind:in:int:number \
         device:in:int:number module:in:string:- bytes:out:count:number",
    ),
    (RELEASE, "refrain_release int:error thread:in:int:number segment:in:int:number"),
    (
        MEMBERS,
        "refrain_members int:error comm:in:handle:comm ranks:in:int[]:number \
         remote_ranks:in:int[]:number",
    ),
];
