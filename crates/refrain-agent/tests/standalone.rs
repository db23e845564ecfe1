//! Modules of the agent that can be tested alone. Their tests stand beside the code, and run here, without the thousands
//! of wrappers that the whole library has.

#![allow(dead_code, reason = "the agent uses what the tests do not")]

#[path = "../src/inside"]
mod inside {
    pub mod abandon;
    pub mod build_id;
    pub mod header_page;
    pub mod locked;
    pub mod panics;
    pub mod permissions;
    pub mod redaction;
    pub mod reentrant;
}
#[path = "../src/order/guarded.rs"]
mod guarded;
#[path = "../src/trace/kernel.rs"]
mod kernel;

/// What `redaction` needs of the rest of the agent.
mod trace {
    pub mod call {
        pub const INSIGNIFICANT: usize = usize::MAX;
    }
}
