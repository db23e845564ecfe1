//! Receive orders by Lamport clocks.
pub mod arrivals;
#[cfg(not(loom))]
pub mod background;
mod bytes;
pub mod chunk;
pub mod encoder;
pub mod epoch;
pub mod event;
pub mod lamport;
pub mod loaded;
pub mod pairing;
pub mod part;
pub mod permutation;
pub mod predict;
pub mod queue;
pub mod read;
pub mod receives;
pub mod record;
pub mod replay;
pub mod routes;
pub mod table;
pub mod talk;

pub use encoder::Encoder;
pub use lamport::Lamport;
pub use record::Recorder;
pub use replay::Replayer;
