//! Turns MPI handles, which differ between processes and runs, into numbers that do not.
//!
//! * Predefined handles have names.
//! * An object that the program creates gets the smallest free number among the objects of its kind
//!   that the same *thread* created. So threads that work independently number their objects
//!   independently, however they interleave.
//! * Requests are numbered within the signature that created them (Pilgrim §2.4.2). So the order in
//!   which earlier requests completed does not affect later numbers.
//! * MPICH returns the same handle for several requests that are complete from the start.
//!   Therefore a handle maps to a queue of objects.
//! * MPI may return the same group, error handler or datatype several times. The program must free
//!   it as often.

use crate::pool::Pool;
use refrain_bytes::table::Map;
use refrain_mpi::abi::{Family, Source};
use refrain_mpi::names;
use refrain_signature::cells::{Cells, put_bytes, put_list, put_unsigned};
use refrain_signature::plan::{Kinds, REQUEST};
use std::collections::VecDeque;

/// An object, as signatures name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ref {
    /// A predefined handle, by its index among those that this process has used.
    Predefined(u32),
    /// An object that a thread created; numbers count from 1.
    Object {
        /// The thread.
        thread: u32,
        /// The number.
        number: u32,
    },
    /// A request.
    Request {
        /// The thread that created it.
        thread: u32,
        /// The signature that created it, as it is when no other of its requests is in flight.
        signature: u32,
        /// The number among the requests of that signature, from 0.
        number: u32,
        /// The pool that the number comes from.
        pool: u32,
        /// The function that created it.
        function: u16,
    },
}

impl Ref {
    /// Whether that thread created it.
    fn is_of(&self, by: u32) -> bool {
        match *self {
            Ref::Predefined(_) => false,
            Ref::Object { thread, .. } | Ref::Request { thread, .. } => thread == by,
        }
    }

    /// Writes it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (tag, fields) = match *self {
            Ref::Predefined(index) => (0, [index, 0, 0, 0, 0]),
            Ref::Object { thread, number } => (1, [thread, number, 0, 0, 0]),
            Ref::Request { thread, signature, number, pool, function } => {
                (2, [thread, signature, number, pool, function.into()])
            }
        };
        out.push(tag);
        let used = [1, 2, 5].get(usize::from(tag)).copied().unwrap_or(0);
        fields.into_iter().take(used).for_each(|v| put_unsigned(out, v.into()));
    }

    /// Reads it.
    pub fn get(cells: &mut Cells<'_>) -> Option<Ref> {
        let tag = *cells.take(1)?.first()?;
        // Numbers are indices into tables: one that no process can reach is damage.
        let mut below = |most: u32| cells.get_u32().filter(|n| *n < most);
        const THREADS: u32 = 1 << 16;
        const NUMBERS: u32 = 1 << 24;
        Some(match tag {
            0 => Ref::Predefined(below(THREADS)?),
            1 => {
                Ref::Object { thread: below(THREADS)?, number: below(NUMBERS).filter(|n| *n > 0)? }
            }
            2 => Ref::Request {
                thread: below(THREADS)?,
                signature: below(u32::MAX)?,
                number: below(NUMBERS)?,
                pool: below(u32::MAX)?,
                function: u16::try_from(below(u32::MAX)?).ok()?,
            },
            _ => return None,
        })
    }
}

/// A live object.
#[derive(Clone, Copy, Debug)]
struct Object {
    re: Ref,
    references: u32,
    /// The program called `MPI_Cancel` on it.
    cancelled: bool,
}

#[derive(Clone, Debug)]
struct Queue {
    first: Object,
    more: VecDeque<Object>,
    /// There is no object now. The entry stays, because MPI will probably return the handle again.
    vacant: bool,
    /// The queue has had objects of several threads, or predefined ones.
    mixed: bool,
}

/// The live objects of a process.
#[derive(Debug)]
pub struct Objects {
    live: Map<(u64, u8), Queue>,
    /// Names of predefined handles, by value and kind.
    predefined: Map<(u64, u8), String>,
    /// Predefined handles that the log defined, in order: kind, value, name.
    defined: Vec<(u8, u64, String)>,
    /// Names of the predefined handles that were used, in order.
    used: Vec<String>,
    /// Which of the used handles are null handles.
    null: Vec<bool>,
    /// Numbers by thread and kind.
    numbers: Vec<Vec<Pool>>,
    /// Numbers of requests by thread and pool.
    requests: Vec<Vec<Pool>>,
    request: u8,
    /// Whether the program has ever called `MPI_Cancel`.
    cancels: bool,
    epoch: u64,
    counted: [u8; 3],
}

impl Objects {
    /// Starts with the predefined handles whose values are the same in every process of that family.
    pub fn new(family: Family, kinds: &mut Kinds) -> Objects {
        let mut objects = Objects {
            live: Map::default(),
            predefined: Map::default(),
            defined: Vec::new(),
            used: Vec::new(),
            null: Vec::new(),
            numbers: Vec::new(),
            requests: Vec::new(),
            request: kinds.number(REQUEST),
            cancels: false,
            epoch: 0,
            counted: ["group", "errhandler", "datatype"].map(|kind| kinds.number(kind)),
        };
        for (kind, name, source) in names::predefined_handles(family) {
            if let Source::Value(value) = source {
                objects.name(kinds.number(kind), value as u64, name, kinds);
            }
        }
        objects
    }

    fn name(&mut self, kind: u8, value: u64, name: &str, kinds: &Kinds) {
        let name = format!("{} {name}", kinds.name(kind));
        self.predefined.entry((value, kind)).or_insert(name);
    }

    /// Names a predefined handle whose value is known only inside the process.
    pub fn define(&mut self, kind: u8, value: u64, name: &str, kinds: &Kinds) {
        self.epoch += 1;
        self.name(kind, value, name, kinds);
        self.defined.push((kind, value, name.to_owned()));
    }

    /// Writes everything that [`Objects::new`] does not restore.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.defined.iter(), |out, (kind, value, name)| {
            out.push(*kind);
            put_unsigned(out, *value);
            put_bytes(out, name.as_bytes());
        });
        put_list(out, self.used.iter(), |out, name| put_bytes(out, name.as_bytes()));
        let live: Vec<_> = self.live.iter().filter(|(_, queue)| !queue.vacant).collect();
        put_list(out, live.into_iter(), |out, ((value, kind), queue)| {
            out.push(*kind);
            put_unsigned(out, *value);
            put_unsigned(out, 1 + queue.more.len() as u64);
            for object in queue.all() {
                object.re.put(out);
                put_unsigned(out, object.references.into());
                out.push(object.cancelled.into());
            }
        });
        for rows in [&self.numbers, &self.requests] {
            put_list(out, rows.iter(), |out, row| put_list(out, row.iter(), |out, p| p.put(out)));
        }
    }

    /// Restores what [`Objects::put`] wrote.
    pub fn get(&mut self, cells: &mut Cells<'_>, kinds: &Kinds) -> Option<()> {
        let byte = |cells: &mut Cells<'_>| cells.take(1)?.first().copied();
        for _ in 0..cells.get_length()? {
            let (kind, value) = (byte(cells)?, cells.get_unsigned()?);
            self.define(kind, value, &cells.get_text()?, kinds);
        }
        self.used = cells.get_list(Cells::get_text)?;
        self.null = self.used.iter().map(|name| name.ends_with("_NULL")).collect();
        for _ in 0..cells.get_length()? {
            let (kind, value) = (byte(cells)?, cells.get_unsigned()?);
            let mut all = cells
                .get_list(|cells| {
                    let (re, references) = (Ref::get(cells)?, cells.get_u32()?.max(1));
                    let cancelled = byte(cells)? != 0;
                    self.cancels |= cancelled;
                    Some(Object { re, references, cancelled })
                })?
                .into_iter();
            let mut queue = Queue::of(all.next()?);
            all.for_each(|object| queue.push(object));
            self.live.insert((value, kind), queue);
        }
        let mut rows = || cells.get_list(|cells| cells.get_list(Pool::get));
        (self.numbers, self.requests) = (rows()?, rows()?);
        Some(())
    }

    /// `kind name` of a predefined handle.
    pub fn predefined_name(&self, index: u32) -> &str {
        self.used.get(index as usize).map_or("", String::as_str)
    }

    /// Whether it is the null handle of its kind.
    #[inline]
    pub fn is_null(&self, re: Ref) -> bool {
        matches!(re, Ref::Predefined(index) if self.null.get(index as usize) == Some(&true))
    }

    /// The live objects of a handle.
    #[inline]
    fn live(&self, value: u64, kind: u8) -> Option<&Queue> {
        self.live.get(&(value, kind)).filter(|queue| !queue.vacant)
    }

    /// Whether that kind is requests.
    #[inline]
    pub fn is_request(&self, kind: u8) -> bool {
        kind == self.request
    }

    /// A number that changes whenever a handle may get another meaning. Requests that are created and
    /// completed do not change it.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether handles that a call of `thread` passes mean these requests. A handle that means several requests
    /// means the next one at each further occurrence.
    #[inline]
    pub fn are(&self, all: &[(u64, Ref, bool)], thread: u32) -> bool {
        let mut turn = 0;
        let mut before = None;
        all.iter().enumerate().all(|(i, (value, re, _))| {
            let Some(queue) = self.live(*value, self.request) else { return false };
            if queue.more.is_empty() {
                return queue.first.re == *re;
            }
            turn = match before == Some(value) {
                true => turn + 1,
                false => all.iter().take(i).filter(|(other, ..)| other == value).count(),
            };
            before = Some(value);
            queue.at(turn, thread).re == *re
        })
    }

    /// The stream of `thread` frees or completes a request.
    #[inline]
    pub fn free_request(&mut self, value: u64, re: Ref, thread: u32) {
        self.free(self.request, value, re, thread);
    }

    /// The index of a predefined handle, if the value is one.
    pub fn find_predefined(&mut self, kind: u8, value: u64) -> Option<u32> {
        if let Some(Queue { first: Object { re: Ref::Predefined(index), .. }, .. }) =
            self.live(value, kind)
        {
            return Some(*index);
        }
        let name = self.predefined.get(&(value, kind))?.clone();
        let index = self.used.len() as u32;
        self.null.push(name.ends_with("_NULL"));
        self.used.push(name);
        let first = Object { re: Ref::Predefined(index), references: 1, cancelled: false };
        self.live.insert((value, kind), Queue::of(first));
        Some(index)
    }

    /// The object of a handle that the program passes to MPI. `turn` counts how often the same handle
    /// has occurred before in this call.
    #[inline]
    pub fn resolve(&mut self, kind: u8, value: u64, thread: u32, turn: usize) -> Ref {
        match self.live(value, kind) {
            Some(queue) if queue.more.is_empty() => queue.first.re,
            Some(queue) => queue.at(turn, thread).re,
            None => self.unknown(kind, value, thread),
        }
    }

    /// The number of live objects with that handle.
    pub fn queued(&self, kind: u8, value: u64) -> usize {
        self.live(value, kind).map_or(0, |queue| 1 + queue.more.len())
    }

    /// A handle whose creation was not recorded.
    #[cold]
    fn unknown(&mut self, kind: u8, value: u64, thread: u32) -> Ref {
        match self.find_predefined(kind, value) {
            Some(index) => Ref::Predefined(index),
            None => self.create(kind, value, thread),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "resized just before")]
    fn create(&mut self, kind: u8, value: u64, thread: u32) -> Ref {
        self.epoch += 1;
        let pools = row(&mut self.numbers, thread);
        if pools.len() <= usize::from(kind) {
            pools.resize(usize::from(kind) + 1, Pool::default());
        }
        let number = pools[usize::from(kind)].take() + 1;
        let re = Ref::Object { thread, number };
        self.add(kind, value, re);
        re
    }

    fn add(&mut self, kind: u8, value: u64, re: Ref) {
        let object = Object { re, references: 1, cancelled: false };
        match self.live.get_mut(&(value, kind)) {
            Some(queue) if queue.vacant => (queue.first, queue.vacant) = (object, false),
            Some(queue) => queue.push(object),
            None => {
                self.live.insert((value, kind), Queue::of(object));
            }
        }
    }

    /// MPI returned a handle, of a new object or of one that the program has already.
    pub fn register(&mut self, kind: u8, value: u64, thread: u32) -> Ref {
        if let Some(index) = self.find_predefined(kind, value) {
            return Ref::Predefined(index);
        }
        match self.live.get_mut(&(value, kind)).filter(|queue| !queue.vacant) {
            Some(queue) if kind != self.request => {
                self.epoch += 1;
                if self.counted.contains(&kind) {
                    queue.first.references += 1;
                }
                queue.first.re
            }
            _ => self.create(kind, value, thread),
        }
    }

    /// A new pool for the requests of a signature.
    pub fn new_pool(&mut self, thread: u32) -> u32 {
        let pools = row(&mut self.requests, thread);
        pools.push(Pool::default());
        (pools.len() - 1) as u32
    }

    /// The number that the next request of a pool gets.
    #[inline]
    pub fn next_request(&self, thread: u32, pool: u32) -> u32 {
        let pools = self.requests.get(thread as usize);
        pools.and_then(|pools| pools.get(pool as usize)).map_or(0, Pool::next)
    }

    /// MPI returned a request.
    #[inline]
    pub fn register_request(&mut self, value: u64, re: Ref) {
        if let Ref::Request { thread, number, pool, .. } = re
            && let Some(pool) = row(&mut self.requests, thread).get_mut(pool as usize)
        {
            pool.reserve(number);
        }
        self.add(self.request, value, re);
    }

    /// Whether a request is in flight according to the stream of `thread`.
    #[inline]
    pub fn seems_live(&self, re: Ref, thread: u32) -> bool {
        let Ref::Request { thread: maker, number, pool, .. } = re else { return false };
        maker != thread
            || self
                .requests
                .get(maker as usize)
                .and_then(|pools| pools.get(pool as usize))
                .is_some_and(|pool| pool.seems_used(number))
    }

    /// The program called `MPI_Cancel` on a request.
    pub fn cancel(&mut self, value: u64, re: Ref) {
        let Some(queue) = self.live.get_mut(&(value, self.request)) else { return };
        let mut all = std::iter::once(&mut queue.first).chain(&mut queue.more);
        if let Some(object) = all.find(|object| object.re == re) {
            object.cancelled = true;
            self.cancels = true;
            self.epoch += 1;
        }
    }

    /// Whether the program called `MPI_Cancel` on a request.
    pub fn is_cancelled(&self, value: u64, re: Ref) -> bool {
        if !self.cancels {
            return false;
        }
        let queue = self.live(value, self.request);
        queue.is_some_and(|queue| queue.all().any(|object| object.re == re && object.cancelled))
    }

    /// The stream of `thread` frees an object.
    pub fn free(&mut self, kind: u8, value: u64, re: Ref, thread: u32) {
        self.epoch += u64::from(kind != self.request);
        let queue = self.live.get_mut(&(value, kind)).filter(|queue| !queue.vacant);
        let Some(queue) = queue else { return };
        let Some(at) = queue.all().position(|object| object.re == re) else { return };
        let object = if at == 0 { Some(&mut queue.first) } else { queue.more.get_mut(at - 1) };
        let Some(object) = object else { return };
        object.references -= 1;
        if object.references > 0 || matches!(re, Ref::Predefined(_)) {
            object.references = object.references.max(1);
            return;
        }
        if at > 0 {
            queue.more.remove(at - 1);
        } else if let Some(next) = queue.more.pop_front() {
            queue.first = next;
        } else if kind == self.request {
            queue.vacant = true;
        } else {
            self.live.remove(&(value, kind));
        }
        let (maker, number, pool) = match re {
            Ref::Predefined(_) => return,
            Ref::Object { thread, number } => {
                (thread, number - 1, row(&mut self.numbers, thread).get_mut(usize::from(kind)))
            }
            Ref::Request { thread, number, pool, .. } => {
                (thread, number, row(&mut self.requests, thread).get_mut(pool as usize))
            }
        };
        if let Some(pool) = pool {
            pool.release(number, maker == thread);
        }
    }
}

impl Queue {
    /// A queue of one object.
    fn of(first: Object) -> Queue {
        Queue { first, more: VecDeque::new(), vacant: false, mixed: false }
    }

    /// Appends an object.
    fn push(&mut self, object: Object) {
        let is_like = match self.first.re {
            Ref::Predefined(_) => false,
            Ref::Object { thread, .. } | Ref::Request { thread, .. } => object.re.is_of(thread),
        };
        // A queue of one object is not mixed, whatever it contained earlier.
        self.mixed = !is_like || (self.mixed && !self.more.is_empty());
        self.more.push_back(object);
    }

    /// The object that a thread means: one that it created, if there is any. MPI may return a handle
    /// to one thread before the call of another thread that frees it has returned. `turn` counts how
    /// often the same handle has occurred before in this call.
    fn at(&self, turn: usize, thread: u32) -> &Object {
        // Fast path: the queue of requests that were complete from the start can be very long.
        if !self.mixed && self.first.re.is_of(thread) {
            return match turn {
                0 => &self.first,
                _ => self.more.get(turn - 1).or(self.more.back()).unwrap_or(&self.first),
            };
        }
        let own = self.all().filter(|object| object.re.is_of(thread)).nth(turn);
        own.or(self.all().nth(turn)).unwrap_or(&self.first)
    }

    fn all(&self) -> impl Iterator<Item = &Object> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

#[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
fn row(rows: &mut Vec<Vec<Pool>>, thread: u32) -> &mut Vec<Pool> {
    let thread = thread as usize;
    if rows.len() <= thread {
        rows.resize(thread + 1, Vec::new());
    }
    &mut rows[thread]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mpich_objects() -> (Objects, Kinds) {
        let mut kinds = Kinds::default();
        (Objects::new(Family::Mpich, &mut kinds), kinds)
    }

    #[test]
    fn predefined_handles_have_names_and_are_never_freed() {
        let (mut objects, mut kinds) = mpich_objects();
        let comm = kinds.number("comm");
        let world = objects.resolve(comm, 0x4400_0000, 0, 0);
        assert_eq!(world, Ref::Predefined(0));
        assert_eq!(objects.predefined_name(0), "comm MPI_COMM_WORLD");
        objects.free(comm, 0x4400_0000, world, 0);
        assert_eq!(objects.resolve(comm, 0x4400_0000, 0, 0), world);
        let null = objects.resolve(comm, 0x0400_0000, 0, 0);
        assert!(objects.is_null(null) && !objects.is_null(world));
    }

    #[test]
    fn threads_number_their_objects_independently() {
        let (mut objects, mut kinds) = mpich_objects();
        let comm = kinds.number("comm");
        assert_eq!(objects.register(comm, 11, 0), Ref::Object { thread: 0, number: 1 });
        assert_eq!(objects.register(comm, 12, 1), Ref::Object { thread: 1, number: 1 });
        assert_eq!(objects.register(comm, 13, 0), Ref::Object { thread: 0, number: 2 });
        let first = objects.resolve(comm, 11, 1, 0);
        objects.free(comm, 11, first, 1);
        assert_eq!(objects.register(comm, 14, 0), Ref::Object { thread: 0, number: 1 });
    }

    #[test]
    fn a_group_returned_twice_is_freed_twice() {
        let (mut objects, mut kinds) = mpich_objects();
        let group = kinds.number("group");
        let first = objects.register(group, 11, 0);
        assert_eq!(objects.register(group, 11, 0), first);
        objects.free(group, 11, first, 0);
        assert_eq!(objects.resolve(group, 11, 0, 0), first);
        objects.free(group, 11, first, 0);
        assert_eq!(objects.register(group, 12, 0), first);
    }

    #[test]
    fn a_handle_means_the_next_of_its_requests_each_time() {
        let (mut objects, _) = mpich_objects();
        let pool = objects.new_pool(0);
        let all = [(70, 0), (71, 1), (70, 2), (70, 3)].map(|(raw, number)| {
            let re = Ref::Request { thread: 0, signature: 5, number, pool, function: 1 };
            objects.register_request(raw, re);
            (raw, re, true)
        });
        assert!(objects.are(&all, 0));
        let [first, second, third, fourth] = all;
        assert!(objects.are(&[first, third, second, fourth], 0));
        assert!(!objects.are(&[third, first], 0));
        assert!(!objects.are(&[first, second, fourth], 0));
        objects.free_request(70, first.1, 0);
        assert!(!objects.are(&all, 0));
        assert!(objects.are(&[third, fourth], 0));
    }

    #[test]
    fn requests_with_the_same_handle_form_a_queue() {
        let (mut objects, mut kinds) = mpich_objects();
        let request = kinds.number(REQUEST);
        let pool = objects.new_pool(0);
        let make = |objects: &mut Objects| {
            let number = objects.next_request(0, pool);
            let re = Ref::Request { thread: 0, signature: 5, number, pool, function: 9 };
            objects.register_request(77, re);
            re
        };
        let (first, second) = (make(&mut objects), make(&mut objects));
        assert_eq!(objects.resolve(request, 77, 0, 0), first);
        assert_eq!(objects.resolve(request, 77, 0, 1), second);
        objects.free(request, 77, second, 0);
        assert!(objects.seems_live(first, 0) && !objects.seems_live(second, 0));
        assert_eq!(make(&mut objects), second);
    }
}
