//! Work on many ranks at once, with results that do not depend on the number of threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads would wait for memory and for each other.
const MOST_THREADS: usize = 16;

/// The number of threads that work at once.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_THREADS)
}

/// The results of `work` for 0 to `count` - 1, in this order. Threads take the next number when they are done with one,
/// so that long and short pieces of work share the cores evenly.
pub fn map<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    map_on(threads(), count, work)
}

fn map_on<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if threads.min(count) < 2 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return done;
            }
            done.push((number, work(number)));
        }
    };
    let mut all: Vec<(usize, T)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(count)).map(|_| scope.spawn(take)).collect();
        let mut all = take();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Joins the results of `make` for 0 to `count` - 1 pairwise; `None` if `count` is 0. The pairs are those of
/// [`refrain_elastic::tree::reduce`], so the result is the same. At most some dozen results exist at a time, besides
/// the partial results of each thread.
pub fn reduce<T: Send>(
    count: usize,
    make: impl Fn(usize) -> T + Sync,
    join: impl Fn(T, T) -> T + Sync,
) -> Option<T> {
    reduce_on(threads(), count, make, join)
}

fn reduce_on<T: Send>(
    threads: usize,
    count: usize,
    make: impl Fn(usize) -> T + Sync,
    join: impl Fn(T, T) -> T + Sync,
) -> Option<T> {
    const CHUNKS_PER_THREAD: usize = 4;
    // A chunk of a power of two is a whole branch of the tree.
    let chunk = count.div_ceil(CHUNKS_PER_THREAD * threads).next_power_of_two();
    let chunks = map_on(threads, count.div_ceil(chunk), |number| {
        let items = (number * chunk..count.min((number + 1) * chunk)).map(&make);
        refrain_elastic::tree::reduce(items, &join)
    });
    let mut layer: Vec<T> = chunks.into_iter().flatten().collect();
    while layer.len() > 1 {
        let mut pairs = Vec::new();
        let mut items = layer.into_iter();
        while let Some(first) = items.next() {
            pairs.push(std::sync::Mutex::new(Some((first, items.next()))));
        }
        let joined = map_on(threads, pairs.len(), |number| {
            let pair = pairs.get(number)?.lock().ok()?.take();
            pair.map(|(first, second)| match second {
                Some(second) => join(first, second),
                None => first,
            })
        });
        layer = joined.into_iter().flatten().collect();
    }
    layer.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_with_any_number_of_threads() {
        for threads in 1..6 {
            for count in 0..40 {
                let squares: Vec<usize> = (0..count).map(|n| n * n).collect();
                assert_eq!(map_on(threads, count, |n| n * n), squares);
            }
        }
    }

    #[test]
    fn the_tree_is_that_of_one_thread() {
        let join = |a: String, b: String| format!("({a}{b})");
        for threads in 1..6 {
            for count in 0..100 {
                let one = refrain_elastic::tree::reduce((0..count).map(|n| n.to_string()), join);
                assert_eq!(reduce_on(threads, count, |n| n.to_string(), join), one);
            }
        }
    }

    #[test]
    #[should_panic(expected = "of number 7")]
    fn a_panic_reaches_the_caller() {
        map_on(3, 20, |n| assert!(n != 7, "of number {n}"));
    }
}
