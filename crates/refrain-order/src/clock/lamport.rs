//! The clock that every message carries (Sato et al., definition 4; Lamport 1978).

/// A process's clock.
///
/// It counts sends and receives, and is never behind what it has heard of: whatever follows from
/// a receive is stamped later than the message that was received. That is all a replay needs to
/// know that a message with an earlier stamp can come without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lamport(u64);

impl Lamport {
    /// The stamp of the next message.
    pub fn now(&self) -> u64 {
        self.0
    }

    /// A message is sent: its stamp.
    pub fn send(&mut self) -> u64 {
        let stamp = self.0;
        self.0 = self.0.saturating_add(1);
        stamp
    }

    /// A message with that stamp is received.
    pub fn receive(&mut self, stamp: u64) {
        self.0 = self.0.max(stamp).saturating_add(1);
    }

    /// Something else than a message has told of another process, whose clock was that: a
    /// collective operation.
    pub fn merge(&mut self, clock: u64) {
        self.0 = self.0.max(clock);
    }
}
