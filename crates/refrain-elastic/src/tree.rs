//! Reduction in a binary tree.

/// Joins all items, pairwise in a binary tree; `None` if there are none.
///
/// Each join is of neighbours, in their order, so `join` need not be commutative. At most one partial result
/// of each size 1, 2, 4, 8, … exists at a time: n items take log₂ n partial results of memory and no
/// item takes part in more than log₂ n + 1 joins.
///
/// ```
/// let pairs = |a: String, b: String| format!("({a}{b})");
/// let items = ["a", "b", "c", "d", "e"].map(String::from);
/// assert_eq!(refrain_elastic::tree::reduce(items, pairs).unwrap(), "(((ab)(cd))e)");
/// ```
///
/// The agent joins the ranks of a running job in a binomial tree over MPI instead
/// (`refrain-agent/src/trace/merge.rs`), which makes the same pairs.
pub fn reduce<T>(items: impl IntoIterator<Item = T>, mut join: impl FnMut(T, T) -> T) -> Option<T> {
    // Entry n is the result of 2^n items, or none, as the digits of a binary counter.
    let mut partial: Vec<Option<T>> = Vec::new();
    for mut item in items {
        let mut level = 0;
        while let Some(earlier) = partial.get_mut(level).and_then(Option::take) {
            item = join(earlier, item);
            level += 1;
        }
        if partial.len() <= level {
            partial.resize_with(level + 1, || None);
        }
        if let Some(slot) = partial.get_mut(level) {
            *slot = Some(item);
        }
    }
    partial.into_iter().flatten().reduce(|later, earlier| join(earlier, later))
}
