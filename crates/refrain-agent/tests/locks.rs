//! The agent's locks and its panic hook by themselves: their tests stand beside the code, and run here, without the
//! thousands of wrappers that the whole library has.

#![allow(dead_code, reason = "the agent uses what the tests do not")]

#[path = "../src/inside"]
mod inside {
    pub mod abandon;
    pub mod locked;
    pub mod panics;
    pub mod reentrant;
}
#[path = "../src/order/guarded.rs"]
mod guarded;
