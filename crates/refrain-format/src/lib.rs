//! Everything Refrain writes to disk: the only bridge between the agent and the offline tools.
//!
//! ```text
//!  in the program                                on disk                      offline
//!  agent ── records ([`record`]) ──▶ NAME.refrain.parts/*.part ([`part`]) ──▶ refrain trace
//!                                                                               │
//!                    NAME.refrain ([`container`]) ◀── one section per stream ──┘
//! ```
//!
//! A *part* is the log of one thread: a page of facts about its process, then records, each
//! complete on disk the moment it is written, so that a killed program leaves a readable
//! part. When the program has ended, the parts become sections of one *container*, a single
//! checksummed file with random access to any stream.
//!
//! The agent uses [`part`], [`record`] and [`define`] only (`default-features = false`);
//! [`decode`] and [`container`] are for tools.

pub mod define;
pub mod part;
pub mod record;
pub mod state;

#[cfg(feature = "container")]
pub mod container;
#[cfg(feature = "container")]
pub mod decode;
