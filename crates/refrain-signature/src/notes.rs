//! Notes: facts between calls, encoded as calls of functions that MPI does not have.
//!
//! A note says that a segment of memory came into use or was freed, or which processes are in a new
//! communicator. Notes are part of a task's sequence like calls, so they repeat with the loop that they
//! are in.

/// Numbers of functions from here on are notes.
pub const FIRST: u16 = 0xff00;
/// A segment of memory was first used.
pub const SEGMENT: u16 = FIRST;
/// A segment was freed, or another one replaced it.
pub const RELEASE: u16 = FIRST + 1;
/// The processes in a new communicator.
pub const MEMBERS: u16 = FIRST + 2;

/// The forms of the notes, as [`refrain_format::define`] has them.
///
/// The length of a segment is an output, so it is part of the outcome: a program that allocates a different
/// length in each iteration still repeats one signature.
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

/// Whether a function of that name is a note.
pub fn is_note(function: &str) -> bool {
    function.starts_with("refrain_")
}
