//! Whether a trace is whole, sound, and what was recorded.
//!
//! * [`structure`]: grammars hold what grammars promise, and every number leads somewhere
//! * [`survey`]: what a reader of the calls may wonder about, such as requests nobody waited for
//! * [`compare`]: where the records were kept, the calls that the compressed trace gives back are
//!   those of the records, argument by argument
//!
//! The comparison knows nothing of how calls are compressed. It has its own idea of what a handle
//! or an address stands for, from the records alone ([`handles`], [`memory`], [`records`]).

pub mod compare;
pub mod handles;
pub mod memory;
pub mod records;
pub mod structure;
pub mod survey;
mod values;

pub use compare::{Comparison, Difference, compare};
pub use structure::{Structure, check_structure};
pub use survey::{Survey, survey};
