//! What the agent writes: the bridge between a traced program and the offline tools.
//!
//! ```text
//!  in the program                                on disk                      offline
//!  agent ── records ([`record`]) ──▶ NAME.refrain.parts/*.part ([`part`]) ──▶ refrain trace ──▶ NAME.refrain
//!                                                        *.state ([`state`])
//! ```
//!
//! A *part* is the log of one thread: a page of facts about its process, then records. A record is safe as soon as it is
//! written, so a killed program leaves a readable part. A *state* is the encoder's memory of a process: everything that
//! was encoded and removed from the log. When the program has ended, both become one file, a container
//! (`refrain-container`). [`define`] describes functions. Every file carries the definitions that it uses, so any later
//! version can read it.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod define;
pub mod part;
pub mod record;
pub mod state;
