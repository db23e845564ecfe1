//! A set of numbers from which numbers are removed, with ranks (a Fenwick tree).

/// Which of 0, 1, 2, … are left.
#[derive(Clone, Debug)]
pub struct Ranks {
    /// Fenwick tree, from index 1: entry `n` counts what is left of the `lowest set bit of n` numbers up to `n`.
    sums: Vec<u32>,
}

impl Ranks {
    /// All numbers below `length`.
    pub fn full(length: usize) -> Self {
        Self { sums: (0..=length).map(|n| (n & n.wrapping_neg()) as u32).collect() }
    }

    /// Removes a number that is left.
    pub fn remove(&mut self, number: usize) {
        let mut at = number + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum -= 1;
            at += at & at.wrapping_neg();
        }
    }

    /// How many are left before a number.
    pub fn before(&self, number: usize) -> u32 {
        let (mut at, mut sum) = (number, 0);
        while at > 0 {
            sum += self.sums.get(at).copied().unwrap_or(0);
            at &= at - 1;
        }
        sum
    }

    /// The number with this rank: that many smaller numbers are left.
    pub fn nth(&self, mut rank: u32) -> Option<usize> {
        let length = self.sums.len() - 1;
        let mut at = 0;
        let mut step = (length + 1).next_power_of_two();
        while step > 0 {
            if let Some(sum) = self.sums.get(at + step)
                && *sum <= rank
            {
                at += step;
                rank -= *sum;
            }
            step /= 2;
        }
        (at < length).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::Ranks;

    #[test]
    fn remaining_numbers_have_the_same_ranks_as_in_a_list() {
        for length in [0usize, 1, 2, 7, 8, 33, 100] {
            let mut left: Vec<usize> = (0..length).collect();
            let mut ranks = Ranks::full(length);
            for turn in 0..length {
                for (rank, number) in left.iter().enumerate() {
                    assert_eq!(ranks.nth(rank as u32), Some(*number));
                    assert_eq!(ranks.before(*number), rank as u32);
                }
                assert_eq!(ranks.nth(left.len() as u32), None);
                let gone = left.remove(turn * 7919 % left.len());
                ranks.remove(gone);
            }
            assert_eq!(ranks.nth(0), None);
        }
    }
}
