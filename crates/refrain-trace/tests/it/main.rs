//! Traces and records of earlier versions.

mod golden;
