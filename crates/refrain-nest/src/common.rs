//! The longest common subsequence of two sequences of tokens: which iterations, threads or ranks do the same.

/// Sequences with more pairs of tokens to compare than this are not aligned.
pub const MOST_PAIRS: usize = 1 << 22;

/// A longest common subsequence as pairs of positions, ascending; empty if there are more than
/// [`MOST_PAIRS`] pairs to compare. Both sequences must be shorter than 2^16.
pub fn common_subsequence<T: Eq>(ours: &[T], theirs: &[T]) -> Vec<(usize, usize)> {
    let width = theirs.len() + 1;
    let is_long = ours.len().min(theirs.len()) > usize::from(u16::MAX);
    let mut pairs = Vec::new();
    if ours.is_empty() || theirs.is_empty() || is_long || (ours.len() + 1) * width > MOST_PAIRS {
        return pairs;
    }
    let mut longest = vec![0u16; (ours.len() + 1) * width];
    for (i, x) in ours.iter().enumerate().rev() {
        for (j, y) in theirs.iter().enumerate().rev() {
            longest[i * width + j] = match x == y {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < ours.len() && j < theirs.len() {
        if ours[i] == theirs[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}
