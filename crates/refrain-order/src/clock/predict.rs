//! Linear prediction: numbers that lie on a line cost nothing (Sato et al., §3.4).
//!
//! Each number is expected on the line through the two before it; only the error is kept. Places
//! in tables rise steadily, and errors are small and alike, which is what gzip likes.

/// The errors of so many predictions. Arithmetic wraps, so that any numbers come back.
pub fn errors(numbers: impl Iterator<Item = u64>) -> impl Iterator<Item = i64> {
    let mut line = Line::default();
    numbers.map(move |number| {
        let error = number.wrapping_sub(line.expected()) as i64;
        line.comes(number);
        error
    })
}

/// Numbers from the errors of their predictions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    last: u64,
    before: u64,
}

impl Line {
    fn expected(&self) -> u64 {
        self.last.wrapping_mul(2).wrapping_sub(self.before)
    }

    fn comes(&mut self, number: u64) {
        (self.before, self.last) = (self.last, number);
    }

    /// The next number.
    pub fn next(&mut self, error: i64) -> u64 {
        let number = self.expected().wrapping_add(error as u64);
        self.comes(number);
        number
    }
}
