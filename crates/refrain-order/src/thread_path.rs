//! Creation paths of threads: numbers that are the same in every run.

use refrain_bytes::stable;

/// The path of the n-th child of a thread: a hash of the parent's path and n; never 0, the initial thread's path.
pub fn child(path: u64, n: u64) -> u64 {
    stable::mix::<17, 31>(path, n) | 1
}

#[cfg(test)]
mod tests {
    use super::child;
    use std::collections::BTreeSet;

    #[test]
    fn children_of_children_have_distinct_paths() {
        let first: Vec<u64> = (1..100).map(|n| child(0, n)).collect();
        let second = first.iter().flat_map(|path| (1..100).map(|n| child(*path, n)));
        let all: BTreeSet<u64> = first.iter().copied().chain(second).collect();
        assert_eq!(all.len(), 99 * 100);
        assert!(!all.contains(&0));
    }
}
