//! MPI objects: from the handles of one process and run to numbers that mean the same in all.
//!
//! * Predefined handles have names.
//! * What the program makes gets the smallest free number among the objects of its kind that the
//!   same *thread* made: threads that work independently then name their objects independently,
//!   however they interleave.
//! * Requests are numbered within the signature that made them (Pilgrim §2.4.2), so the order in
//!   which earlier ones completed does not show in later ones.
//! * MPICH hands out the same handle for several requests that are complete from the start: a
//!   handle stands for a queue.
//! * Groups, error handlers and datatypes may be given to the program several times, and are
//!   gone when freed as often.

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
    /// A predefined handle, by its place among those this process has used.
    Predefined(u32),
    /// Made by a thread; numbers count from 1.
    Object {
        /// The thread.
        thread: u32,
        /// The number.
        number: u32,
    },
    /// A request.
    Request {
        /// The thread that made it.
        thread: u32,
        /// The signature that made it (of its first request in flight).
        signature: u32,
        /// The number among those of that signature, from 0.
        number: u32,
        /// The pool it comes from.
        pool: u32,
        /// The function that made it.
        function: u16,
    },
}

impl Ref {
    /// Whether it was made by that thread.
    fn is_of(&self, by: u32) -> bool {
        match *self {
            Ref::Predefined(_) => false,
            Ref::Object { thread, .. } | Ref::Request { thread, .. } => thread == by,
        }
    }

    /// Writes it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (tag, fields) = match *self {
            Ref::Predefined(place) => (0, [place, 0, 0, 0, 0]),
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
        // Numbers are places in tables: larger ones than any process has are damage.
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
    /// The program asked to cancel it.
    cancelled: bool,
}

#[derive(Clone, Debug)]
struct Queue {
    first: Object,
    more: VecDeque<Object>,
    /// There is no object: the handle was given back, and will probably come again.
    vacant: bool,
    /// They were made by several threads, or predefined: some of them, at some time.
    mixed: bool,
}

/// The live objects of a process.
#[derive(Debug)]
pub struct Objects {
    live: Map<(u64, u8), Queue>,
    /// Handles the program did not make, by value and kind.
    predefined: Map<(u64, u8), String>,
    /// Those that only the process knew, in order: kind, value, name.
    told: Vec<(u8, u64, String)>,
    /// Those used, in order.
    used: Vec<String>,
    /// Which of these are null handles.
    null: Vec<bool>,
    /// Numbers by thread and kind.
    numbers: Vec<Vec<Pool>>,
    /// Numbers of requests by thread and pool.
    requests: Vec<Vec<Pool>>,
    request: u8,
    /// Some request was to be cancelled, ever.
    cancels: bool,
    epoch: u64,
    counted: [u8; 3],
}

impl Objects {
    /// No objects yet, but those every process of that family has.
    pub fn new(family: Family, kinds: &mut Kinds) -> Objects {
        let mut objects = Objects {
            live: Map::default(),
            predefined: Map::default(),
            told: Vec::new(),
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

    /// A handle that only the process knew by name.
    pub fn define(&mut self, kind: u8, value: u64, name: &str, kinds: &Kinds) {
        self.epoch += 1;
        self.name(kind, value, name, kinds);
        self.told.push((kind, value, name.to_owned()));
    }

    /// Writes what cannot be known anew.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.told.iter(), |out, (kind, value, name)| {
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

    /// Takes up where [`Objects::put`] was.
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

    /// `kind name` of a predefined handle that was used.
    pub fn predefined_name(&self, place: u32) -> &str {
        self.used.get(place as usize).map_or("", String::as_str)
    }

    /// Whether it is the null handle of its kind.
    #[inline]
    pub fn is_null(&self, re: Ref) -> bool {
        matches!(re, Ref::Predefined(place) if self.null.get(place as usize) == Some(&true))
    }

    /// What a handle stands for.
    #[inline]
    fn live(&self, value: u64, kind: u8) -> Option<&Queue> {
        self.live.get(&(value, kind)).filter(|queue| !queue.vacant)
    }

    /// Whether that kind is the requests.
    #[inline]
    pub fn is_request(&self, kind: u8) -> bool {
        kind == self.request
    }

    /// A number that changes when any handle comes to stand for something else, but for requests
    /// that are made and completed.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether a handle stands for that request, and for no other.
    #[inline]
    pub fn is_only(&self, value: u64, re: Ref) -> bool {
        let queue = self.live(value, self.request);
        queue.is_some_and(|queue| queue.first.re == re && queue.more.is_empty())
    }

    /// The program gives a request back, in the stream of `thread`.
    #[inline]
    pub fn freed_request(&mut self, value: u64, re: Ref, thread: u32) {
        self.freed(self.request, value, re, thread);
    }

    /// The place of a predefined handle, if the value is one.
    pub fn find_predefined(&mut self, kind: u8, value: u64) -> Option<u32> {
        if let Some(Queue { first: Object { re: Ref::Predefined(place), .. }, .. }) =
            self.live(value, kind)
        {
            return Some(*place);
        }
        let name = self.predefined.get(&(value, kind))?.clone();
        let place = self.used.len() as u32;
        self.null.push(name.ends_with("_NULL"));
        self.used.push(name);
        let first = Object { re: Ref::Predefined(place), references: 1, cancelled: false };
        self.live.insert((value, kind), Queue::of(first));
        Some(place)
    }

    /// What a handle stands for that the program passes, for the `turn`-th time in this call.
    #[inline]
    pub fn given(&mut self, kind: u8, value: u64, thread: u32, turn: usize) -> Ref {
        match self.live(value, kind) {
            Some(queue) if queue.more.is_empty() => queue.first.re,
            Some(queue) => queue.at(turn, thread).re,
            None => self.unknown(kind, value, thread),
        }
    }

    /// How many live requests a handle stands for.
    pub fn queued(&self, kind: u8, value: u64) -> usize {
        self.live(value, kind).map_or(0, |queue| 1 + queue.more.len())
    }

    /// A handle nobody has seen made: before recording began, or in a call that was not recorded.
    #[cold]
    fn unknown(&mut self, kind: u8, value: u64, thread: u32) -> Ref {
        match self.find_predefined(kind, value) {
            Some(place) => Ref::Predefined(place),
            None => self.create(kind, value, thread),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
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

    /// The program gets a handle: of a new object, or of one it has already.
    pub fn received(&mut self, kind: u8, value: u64, thread: u32) -> Ref {
        if let Some(place) = self.find_predefined(kind, value) {
            return Ref::Predefined(place);
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

    /// The number the next request of a pool gets.
    #[inline]
    pub fn next_request(&self, thread: u32, pool: u32) -> u32 {
        let pools = self.requests.get(thread as usize);
        pools.and_then(|pools| pools.get(pool as usize)).map_or(0, Pool::next)
    }

    /// The program gets a request.
    #[inline]
    pub fn received_request(&mut self, value: u64, re: Ref) {
        if let Ref::Request { thread, number, pool, .. } = re
            && let Some(pool) = row(&mut self.requests, thread).get_mut(pool as usize)
        {
            pool.hold(number);
        }
        self.add(self.request, value, re);
    }

    /// Whether a request is in flight, as far as the stream of `thread` tells.
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

    /// The program asked to cancel a request.
    pub fn cancel(&mut self, value: u64, re: Ref) {
        let Some(queue) = self.live.get_mut(&(value, self.request)) else { return };
        let mut all = std::iter::once(&mut queue.first).chain(&mut queue.more);
        if let Some(object) = all.find(|object| object.re == re) {
            object.cancelled = true;
            self.cancels = true;
            self.epoch += 1;
        }
    }

    /// Whether it did.
    pub fn is_cancelled(&self, value: u64, re: Ref) -> bool {
        if !self.cancels {
            return false;
        }
        let queue = self.live(value, self.request);
        queue.is_some_and(|queue| queue.all().any(|object| object.re == re && object.cancelled))
    }

    /// The program gives an object back, in the stream of `thread`.
    pub fn freed(&mut self, kind: u8, value: u64, re: Ref, thread: u32) {
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
            pool.give(number, maker == thread);
        }
    }
}

impl Queue {
    /// Of one object.
    fn of(first: Object) -> Queue {
        Queue { first, more: VecDeque::new(), vacant: false, mixed: false }
    }

    /// One more.
    fn push(&mut self, object: Object) {
        let is_like = match self.first.re {
            Ref::Predefined(_) => false,
            Ref::Object { thread, .. } | Ref::Request { thread, .. } => object.re.is_of(thread),
        };
        // With a single object there was nothing to mix with.
        self.mixed = !is_like || (self.mixed && !self.more.is_empty());
        self.more.push_back(object);
    }

    /// The object that a thread means for the `turn`-th time: one of its own, if there is any. A
    /// handle that one thread's call gives back may be in another thread's hands before that call
    /// has returned.
    fn at(&self, turn: usize, thread: u32) -> &Object {
        // Requests that were complete from the start may be very many.
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

    fn of_mpich() -> (Objects, Kinds) {
        let mut kinds = Kinds::default();
        (Objects::new(Family::Mpich, &mut kinds), kinds)
    }

    #[test]
    fn predefined_handles_have_names_and_are_never_freed() {
        let (mut objects, mut kinds) = of_mpich();
        let comm = kinds.number("comm");
        let world = objects.given(comm, 0x4400_0000, 0, 0);
        assert_eq!(world, Ref::Predefined(0));
        assert_eq!(objects.predefined_name(0), "comm MPI_COMM_WORLD");
        objects.freed(comm, 0x4400_0000, world, 0);
        assert_eq!(objects.given(comm, 0x4400_0000, 0, 0), world);
        let null = objects.given(comm, 0x0400_0000, 0, 0);
        assert!(objects.is_null(null) && !objects.is_null(world));
    }

    #[test]
    fn threads_number_their_objects_independently() {
        let (mut objects, mut kinds) = of_mpich();
        let comm = kinds.number("comm");
        assert_eq!(objects.received(comm, 11, 0), Ref::Object { thread: 0, number: 1 });
        assert_eq!(objects.received(comm, 12, 1), Ref::Object { thread: 1, number: 1 });
        assert_eq!(objects.received(comm, 13, 0), Ref::Object { thread: 0, number: 2 });
        let first = objects.given(comm, 11, 1, 0);
        objects.freed(comm, 11, first, 1);
        assert_eq!(objects.received(comm, 14, 0), Ref::Object { thread: 0, number: 1 });
    }

    #[test]
    fn a_group_given_twice_is_freed_twice() {
        let (mut objects, mut kinds) = of_mpich();
        let group = kinds.number("group");
        let first = objects.received(group, 11, 0);
        assert_eq!(objects.received(group, 11, 0), first);
        objects.freed(group, 11, first, 0);
        assert_eq!(objects.given(group, 11, 0, 0), first);
        objects.freed(group, 11, first, 0);
        assert_eq!(objects.received(group, 12, 0), first);
    }

    #[test]
    fn requests_with_one_handle_are_a_queue() {
        let (mut objects, mut kinds) = of_mpich();
        let request = kinds.number(REQUEST);
        let pool = objects.new_pool(0);
        let make = |objects: &mut Objects| {
            let number = objects.next_request(0, pool);
            let re = Ref::Request { thread: 0, signature: 5, number, pool, function: 9 };
            objects.received_request(77, re);
            re
        };
        let (first, second) = (make(&mut objects), make(&mut objects));
        assert_eq!(objects.given(request, 77, 0, 0), first);
        assert_eq!(objects.given(request, 77, 0, 1), second);
        objects.freed(request, 77, second, 0);
        assert!(objects.seems_live(first, 0) && !objects.seems_live(second, 0));
        assert_eq!(make(&mut objects), second);
    }
}
