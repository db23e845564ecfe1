//! Checks that a trace is complete, consistent, and equal to the records that were kept.
//!
//! * [`structure`]: invariants of grammars and references between sections
//! * [`survey`]: remarks about the calls, such as requests that were never completed
//! * [`compare`]: if records were kept, compares them with the decoded calls, argument by argument
//! * [`times`]: every call has its times, and they are within the requested bound of those in the records
//!
//! The comparison does not use the encoder's logic. It determines the meaning of handles and addresses
//! from the records alone ([`handles`], [`memory`], [`records`]).

pub mod compare;
pub mod handles;
pub mod memory;
pub mod records;
pub mod structure;
pub mod survey;
pub mod times;
mod values;

pub use compare::{Comparison, Difference, compare};
pub use structure::{Structure, check_structure};
pub use survey::{Survey, survey};
pub use times::{TimesCheck, check_times};
