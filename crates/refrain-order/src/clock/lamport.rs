//! The clock that every message carries (Sato et al., definition 4; Lamport 1978).

/// A process's Lamport clock.
///
/// It counts sends and receives. After a receive it is later than the stamp of the received message, so every
/// message sent afterwards has a later stamp. A replay needs nothing else to conclude that a message with an
/// earlier stamp does not depend on that receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lamport(u64);

impl Lamport {
    /// The stamp of the next message.
    pub fn now(&self) -> u64 {
        self.0
    }

    /// A message is sent. Returns its stamp.
    pub fn send(&mut self) -> u64 {
        let stamp = self.0;
        self.0 = self.0.saturating_add(1);
        stamp
    }

    /// A message with that stamp is received.
    pub fn receive(&mut self, stamp: u64) {
        self.0 = self.0.max(stamp).saturating_add(1);
    }

    /// A collective operation has brought the clock of another process.
    pub fn merge(&mut self, clock: u64) {
        self.0 = self.0.max(clock);
    }
}
