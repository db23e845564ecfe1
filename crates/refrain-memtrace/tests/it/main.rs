//! Memory traces as files.

mod golden;
