//! How far the assembly of a trace is, for a line on a terminal.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts what is done. Other threads may read it meanwhile.
#[derive(Debug, Default)]
pub struct Steps {
    what: Mutex<&'static str>,
    all: AtomicUsize,
    done: AtomicUsize,
}

impl Steps {
    /// Begins something that has `all` steps; 0 if they are not counted.
    pub fn begin(&self, what: &'static str, all: usize) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what;
        self.all.store(all, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    /// Counts a step.
    pub fn advance(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// What is being done, and how far it is: `ranks, 12 of 64`.
    pub fn text(&self) -> String {
        let what = *self.what.lock().unwrap_or_else(PoisonError::into_inner);
        match self.all.load(Ordering::Relaxed) {
            0 => what.to_owned(),
            all => format!("{what}, {} of {all}", self.done.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_where_their_number_is_known() {
        let steps = Steps::default();
        steps.begin("encoding ranks", 3);
        steps.advance();
        assert_eq!(steps.text(), "encoding ranks, 1 of 3");
        steps.begin("compressing", 0);
        assert_eq!(steps.text(), "compressing");
    }
}
