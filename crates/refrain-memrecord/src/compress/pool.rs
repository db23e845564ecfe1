//! A pool of threads that compress streams concurrently.

use crate::part::RawWriter;
use crate::streams::{Stream, StreamError};
use crate::tables::Tables;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread::JoinHandle;

use super::{lock, read};

/// The most threads that compress one process.
const MOST: usize = 8;

/// Some parts of a stream, to be compressed.
pub struct Job {
    /// The stream.
    pub stream: Arc<Stream>,
    /// How many parts.
    pub parts: u64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// How many jobs are not finished.
    open: usize,
    error: Option<StreamError>,
    is_closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    has_jobs: Condvar,
    is_done: Condvar,
    tables: Arc<RwLock<Tables>>,
    raw: Option<Arc<Mutex<RawWriter>>>,
}

/// Threads that compress. The thread that calls [`Pool::run`] is one of them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    most: usize,
}

impl Pool {
    /// A pool of as many threads as there are processors. Each thread is started when there is work for it.
    pub fn new(tables: Arc<RwLock<Tables>>, raw: Option<Arc<Mutex<RawWriter>>>) -> Self {
        let most = std::thread::available_parallelism().map_or(1, |n| n.get()).min(MOST);
        let shared = Shared {
            queue: Mutex::default(),
            has_jobs: Condvar::new(),
            is_done: Condvar::new(),
            tables,
            raw,
        };
        Self { shared: Arc::new(shared), workers: Vec::new(), most }
    }

    /// Executes the jobs; returns when all are finished.
    pub fn run(&mut self, jobs: Vec<Job>) -> Result<(), StreamError> {
        while self.workers.len() + 1 < self.most.min(jobs.len()) {
            let shared = self.shared.clone();
            let name = std::thread::Builder::new().name("refrain-compress".into());
            match name.spawn(move || shared.work()) {
                Ok(worker) => self.workers.push(worker),
                Err(_) => break,
            }
        }
        let is_shared = jobs.len() > 1 && !self.workers.is_empty();
        {
            let mut queue = self.shared.queue();
            queue.open = jobs.len();
            queue.jobs.extend(jobs);
        }
        if is_shared {
            self.shared.has_jobs.notify_all();
        }
        while let Some(job) = { self.shared.queue().jobs.pop_front() } {
            self.shared.perform(&job);
        }
        let mut queue = self.shared.queue();
        while queue.open > 0 {
            let waited = self.shared.is_done.wait(queue);
            queue = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        queue.error.take().map_or(Ok(()), Err)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.queue().is_closed = true;
        self.shared.has_jobs.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn work(&self) {
        loop {
            let mut queue = self.queue();
            let job = loop {
                if let Some(job) = queue.jobs.pop_front() {
                    break job;
                }
                if queue.is_closed {
                    return;
                }
                let waited = self.has_jobs.wait(queue);
                queue = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            };
            drop(queue);
            self.perform(&job);
        }
    }

    fn perform(&self, job: &Job) {
        let take = || {
            let tables = read(&self.tables);
            lock(&job.stream).take(job.parts, job.stream.thread, &tables, self.raw.as_deref())
        };
        // A panic counts as an error, so that `run` does not wait for this job for ever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(take))
            .unwrap_or(Err(StreamError::NoRecord));
        let mut queue = self.queue();
        queue.open -= 1;
        if let Err(error) = result {
            queue.error.get_or_insert(error);
        }
        if queue.open == 0 {
            self.is_done.notify_all();
        }
    }
}
