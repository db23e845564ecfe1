//! Limits for readers: an allocator that counts and refuses too much memory, and a watchdog for time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes that one case may allocate.
pub const MOST_BYTES: isize = 512 << 20;
/// Time that one case may take. The shortest of three tries counts, for busy machines.
pub const MOST_TIME: Duration = Duration::from_secs(2);
/// A case that takes this long is considered endless.
const HANGS: Duration = Duration::from_secs(60);

/// Counts the bytes that each thread has allocated.
pub struct Counted;

thread_local! {
    /// Bytes that this thread has allocated, and its current case, if limits apply.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static CASE: Cell<Option<u64>> = const { Cell::new(None) };
}

impl Counted {
    /// Whether more may be allocated.
    fn take(bytes: usize) -> bool {
        let held = HELD.get() + bytes as isize;
        if let Some(case) = CASE.get().filter(|_| held > MOST_BYTES) {
            // Formatting must not allocate here.
            let _ = writeln!(
                std::io::stderr(),
                "case {case} asks for {bytes} bytes; that makes {held}"
            );
            return false;
        }
        HELD.set(held);
        true
    }
}

// SAFETY: memory comes from the system's allocator, or is refused.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Counted::take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        // SAFETY: the caller's promise; the memory is the system's.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Counted::take(size) {
            return std::ptr::null_mut();
        }
        HELD.set(HELD.get() - layout.size() as isize);
        // SAFETY: the caller's promise; the memory is the system's.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Runs cases on all cores. `each` gets the number of a case; it must not panic or exceed the limits.
/// `REFRAIN_CASE=N` runs that case alone.
pub fn run_cases<T>(cases: u64, make: impl Fn() -> T + Sync, each: impl Fn(&mut T, u64) + Sync) {
    let only = std::env::var("REFRAIN_CASE").ok().and_then(|n| n.parse::<u64>().ok());
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    let current: Vec<Mutex<Option<(u64, Instant)>>> =
        (0..workers).map(|_| Mutex::new(None)).collect();
    let (done, current) = (AtomicBool::new(false), &current);
    std::thread::scope(|scope| {
        let (make, each) = (&make, &each);
        let running: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    let mut state = make();
                    let mine = (worker..cases).step_by(workers as usize);
                    for case in mine.filter(|case| only.is_none_or(|only| only == *case)) {
                        let watch = |now| *current[worker as usize].lock().unwrap() = now;
                        run_case(case, &watch, || each(&mut state, case));
                    }
                })
            })
            .collect();
        scope.spawn(|| watch_over(current, &done));
        let failed = running.into_iter().filter_map(|worker| worker.join().err()).next();
        done.store(true, Ordering::Relaxed);
        if let Some(panic) = failed {
            std::panic::resume_unwind(panic);
        }
    });
}

fn run_case(case: u64, watch: &dyn Fn(Option<(u64, Instant)>), mut run: impl FnMut()) {
    let mut time = MOST_TIME;
    for _ in 0..3 {
        let begin = Instant::now();
        watch(Some((case, begin)));
        HELD.set(0);
        CASE.set(Some(case));
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut run));
        CASE.set(None);
        watch(None);
        if ended.is_err() {
            panic!("case {case} panics: run it alone with REFRAIN_CASE={case}");
        }
        time = begin.elapsed();
        if time < MOST_TIME {
            return;
        }
    }
    panic!("case {case} takes {time:?}");
}

fn watch_over(current: &[Mutex<Option<(u64, Instant)>>], done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        for worker in current {
            if let Some((case, begin)) = *worker.lock().unwrap()
                && begin.elapsed() > HANGS
            {
                let _ = writeln!(std::io::stderr(), "case {case} does not end");
                std::process::abort();
            }
        }
    }
}
