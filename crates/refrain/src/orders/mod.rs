//! Receive orders on the command line: recorded, replayed, and looked at.
//!
//! * [`record`], [`replay`]: run a program

pub mod record;
pub mod replay;
