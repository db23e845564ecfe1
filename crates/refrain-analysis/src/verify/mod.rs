//! Whether a trace is whole, sound, and what was recorded.
//!
//! * [`structure`]: grammars hold what grammars promise, and every number leads somewhere
//! * [`survey`]: what a reader of the calls may wonder about, such as requests nobody waited for
//! * [`compare`]: where the records were kept, the calls that the compressed trace gives back are
//!   those of the records, argument by argument
//! * [`times`]: the times of calls are all there, and as near to those of the records as was asked
//!
//! The comparison knows nothing of how calls are compressed. It has its own idea of what a handle
//! or an address stands for, from the records alone ([`handles`], [`memory`], [`records`]).

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
