//! Tests of both methods: recording, replaying, and the file format.

mod causal_divergence;
mod causal_hostile;
mod causal_roundtrip;
mod clock_golden;
mod clock_hostile;
mod clock_paper;
mod clock_properties;
#[cfg(not(loom))]
mod clock_queue;
#[cfg(loom)]
mod clock_queue_loom;
mod model;
mod montecarlo;
mod sizes;
