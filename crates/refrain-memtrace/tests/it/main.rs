//! Memory traces as files.

mod golden;
mod states;
