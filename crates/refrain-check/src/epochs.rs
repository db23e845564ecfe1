//! Epochs of windows, on one process (MPI 4.1 §12.5).

use crate::finding::{Class, Findings, Place};
use refrain_mpi::names::constant_value;
use refrain_mpi::semantics::{Argument, Sync};
use refrain_reader::{Call, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// A lock on one rank of a window.
#[derive(Debug)]
struct Lock {
    place: Arc<Place>,
    is_exclusive: bool,
}

/// A window of a process.
#[derive(Debug)]
pub struct Window {
    /// The call that made it.
    pub place: Arc<Place>,
    /// The last fence, if accesses may follow it.
    fence: Option<Arc<Place>>,
    /// An access since the last fence that only a fence can complete.
    fenced_access: Option<Arc<Place>>,
    /// An access under a lock since the last fence: wrong, if another fence follows.
    locked_access: Option<(Arc<Place>, Arc<Place>)>,
    locks: HashMap<i64, Lock>,
    lock_all: Option<Arc<Place>>,
    start: Option<Arc<Place>>,
    post: Option<Arc<Place>>,
}

impl Window {
    /// A new window.
    pub fn new(place: Arc<Place>) -> Window {
        Window {
            place,
            fence: None,
            fenced_access: None,
            locked_access: None,
            locks: HashMap::new(),
            lock_all: None,
            start: None,
            post: None,
        }
    }

    /// Whether a lock excludes other origins from that rank.
    pub fn is_exclusive(&self, target: i64) -> bool {
        self.locks.get(&target).is_some_and(|lock| lock.is_exclusive)
    }

    /// Whether a lock of that rank is held.
    pub fn is_locked(&self, target: i64) -> bool {
        self.locks.contains_key(&target)
    }

    /// Checks and follows an access.
    pub fn access(&mut self, target: i64, place: &Arc<Place>, findings: &mut Findings) {
        let lock = self.locks.get(&target).map(|lock| &lock.place).or(self.lock_all.as_ref());
        match (lock, &self.start, &self.fence) {
            (Some(lock), ..) => {
                if self.fence.is_some() && self.locked_access.is_none() {
                    self.locked_access = Some((lock.clone(), place.clone()));
                }
            }
            (None, Some(_), _) => {}
            (None, None, Some(_)) => self.fenced_access = Some(place.clone()),
            (None, None, None) => {
                let message = format!("{} accesses a window outside of an epoch.", place.function);
                let places = vec![(**place).clone(), (*self.place).clone()];
                findings.add(Class::RmaEpoch, message, places);
            }
        }
    }

    /// Checks and follows a synchronization.
    pub fn synchronize(
        &mut self,
        call: &Call,
        sync: Sync,
        place: &Arc<Place>,
        findings: &mut Findings,
    ) {
        let function = &place.function;
        let target = call.arguments().int(Argument::Target).unwrap_or(-1);
        let mut report = |message: String, other: Option<&Arc<Place>>| {
            let mut places = vec![(**place).clone()];
            places.extend(other.map(|other| (**other).clone()));
            findings.add(Class::RmaEpoch, message, places);
        };
        let held = self.locks.values().map(|lock| &lock.place).chain(&self.lock_all).next();
        match sync {
            Sync::Fence => {
                if let Some(held) = held {
                    report(
                        format!("{function} is called while a lock of the window is held."),
                        Some(held),
                    );
                } else if let Some(start) = self.start.as_ref().or(self.post.as_ref()) {
                    let what = &start.function;
                    report(
                        format!("{function} is called inside the epoch that {what} has opened."),
                        Some(start),
                    );
                } else if let (Some((lock, _)), false) =
                    (&self.locked_access, asserts(call, "MPI_MODE_NOPRECEDE"))
                {
                    report(
                        format!(
                            "{} opens an epoch, with accesses, inside the epoch between two fences.",
                            lock.function
                        ),
                        Some(lock),
                    );
                }
                self.fence = (!asserts(call, "MPI_MODE_NOSUCCEED")).then(|| place.clone());
                (self.fenced_access, self.locked_access) = (None, None);
            }
            Sync::Lock | Sync::LockAll => {
                let same = match sync {
                    Sync::Lock => self.locks.get(&target).map(|lock| &lock.place),
                    _ => held,
                };
                if let Some(other) = same.or(self.lock_all.as_ref()) {
                    let what = &other.function;
                    report(
                        format!(
                            "{function} is called inside the epoch that {what} has opened on the window."
                        ),
                        Some(other),
                    );
                } else if let Some(access) = &self.fenced_access {
                    report(
                        format!(
                            "{function} is called after accesses that only a fence can complete."
                        ),
                        Some(access),
                    );
                }
                match sync {
                    Sync::Lock => {
                        let exclusive = constant_value(call.layout().family, "MPI_LOCK_EXCLUSIVE");
                        let is_exclusive = match call.input("lock_type") {
                            Some(Value::Int(kind)) => Some(*kind) == exclusive,
                            _ => false,
                        };
                        self.locks.insert(target, Lock { place: place.clone(), is_exclusive });
                    }
                    _ => self.lock_all = Some(place.clone()),
                }
            }
            Sync::Unlock => {
                if self.locks.remove(&target).is_none() {
                    report(
                        format!(
                            "{function} is called, and rank {target} of the window is not locked."
                        ),
                        None,
                    );
                }
            }
            Sync::UnlockAll => {
                if self.lock_all.take().is_none() {
                    report(format!("{function} is called without MPI_Win_lock_all."), None);
                }
            }
            Sync::Start => self.start = Some(place.clone()),
            Sync::Complete => {
                if self.start.take().is_none() {
                    report(format!("{function} is called without MPI_Win_start."), None);
                }
            }
            Sync::Post => self.post = Some(place.clone()),
            Sync::Wait => {
                if self.post.is_none() {
                    report(format!("{function} is called without MPI_Win_post."), None);
                }
                if call.returned() && call.arguments().found() {
                    self.post = None;
                }
            }
            Sync::Flush | Sync::FlushAll | Sync::FlushLocal | Sync::FlushLocalAll => {
                let is_one = matches!(sync, Sync::Flush | Sync::FlushLocal);
                let is_open = match is_one {
                    true => self.locks.contains_key(&target) || self.lock_all.is_some(),
                    false => held.is_some(),
                };
                if !is_open {
                    report(format!("{function} is called outside of a lock epoch."), None);
                }
            }
            Sync::Memory => {}
        }
    }

    /// The window is freed.
    pub fn free(&self, place: &Arc<Place>, findings: &mut Findings) {
        let held = self.locks.values().map(|lock| &lock.place).chain(&self.lock_all).next();
        let open = held.or(self.start.as_ref()).or(self.fenced_access.as_ref());
        if let Some(open) = open {
            let message =
                format!("{} frees a window inside an epoch that is never closed.", place.function);
            findings.add(Class::RmaEpoch, message, vec![(**place).clone(), (**open).clone()]);
        }
    }
}

/// Whether a call passes an assertion.
fn asserts(call: &Call, mode: &str) -> bool {
    match (call.input("assert"), constant_value(call.layout().family, mode)) {
        (Some(Value::Int(given)), Some(mode)) => given & mode != 0,
        _ => false,
    }
}
