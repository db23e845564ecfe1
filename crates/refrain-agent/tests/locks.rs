//! The agent's locks by themselves: their tests stand beside the code, and run here, without the
//! thousands of wrappers that the whole library has.

#![allow(dead_code, reason = "the agent uses what the tests do not")]

#[path = "../src/inside"]
mod inside {
    pub mod abandon;
}
#[path = "../src/order/guarded.rs"]
mod guarded;
