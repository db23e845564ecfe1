//! Linear prediction (Sato et al., §3.4).
//!
//! Each number is predicted to lie on the line through the two before it, and only the error is kept. Positions
//! in tables rise steadily, so errors are small and similar, which DEFLATE compresses well.

/// The errors of the predictions of numbers. Arithmetic wraps, so every sequence can be restored.
pub fn errors(numbers: impl Iterator<Item = u64>) -> impl Iterator<Item = i64> {
    let mut line = Line::default();
    numbers.map(move |number| {
        let error = number.wrapping_sub(line.expected()) as i64;
        line.push(number);
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

    fn push(&mut self, number: u64) {
        (self.before, self.last) = (self.last, number);
    }

    /// The next number, from its error.
    pub fn next(&mut self, error: i64) -> u64 {
        let number = self.expected().wrapping_add(error as u64);
        self.push(number);
        number
    }
}
