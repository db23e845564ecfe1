//! What the agent writes: the bridge between a traced program and the offline tools.
//!
//! ```text
//!  in the program                                on disk                      offline
//!  agent ── records ([`record`]) ──▶ NAME.refrain.parts/*.part ([`part`]) ──▶ refrain trace ──▶ NAME.refrain
//!                                                        *.state ([`state`])
//! ```
//!
//! A *part* is the log of one thread: a page of facts about its process, then records, each complete on disk the moment
//! it is written, so that a killed program leaves a readable part. A *state* is the encoder's, with what it has encoded.
//! When the program has ended, both become one file, a container (`refrain-container`). [`define`] has the forms of
//! functions, which every file carries, so that any later version can read it.

pub mod define;
pub mod part;
pub mod record;
pub mod state;
