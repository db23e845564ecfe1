//! Names for the objects of a process: `comm1`, `type3`, `r2`.
//!
//! A log has the handles that MPI returned, which are meaningless to a reader and differ from run to
//! run. Here every object that the program creates gets the smallest free number of its kind, and
//! the number is free again when the object is freed. So a program has the same names in every run,
//! with every MPI.
//!
//! A handle does not always mean one object:
//!
//! * MPICH returns the *same* handle for several requests that are complete from the start. So a
//!   handle maps to a queue of requests: the first created is the first completed.
//! * A group, an error handler or a part of a datatype that the program requests may be one that it
//!   has already. It lives until it was freed as often as it was returned.
//!
//! Calls come in the order in which they began. An object has its name from the beginning of the call
//! that creates it to the end of the call that frees it: callbacks and other threads may use it until then.

use refrain_format::define::ParamDef;
use refrain_mpi::abi::Family;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::names::{self, HandleTable};
use refrain_reader::event::{Event, Value};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};

/// A kind of object and a handle.
type Key = (String, u64);

/// The live objects of a process.
pub struct Objects {
    family: Family,
    predefined: HandleTable,
    live: HashMap<Key, VecDeque<Object>>,
    pools: HashMap<String, Pool>,
    /// Handles that are freed by calls that have not returned; the earliest return is on top.
    freed: BinaryHeap<Reverse<(u64, Key)>>,
    /// How often each handle is in `freed`.
    dying: HashMap<Key, usize>,
}

struct Object {
    number: u32,
    /// How often MPI returned it minus how often it was freed.
    references: u32,
}

/// Numbers in use are below `next` and not in `free`.
#[derive(Default)]
struct Pool {
    next: u32,
    free: BTreeSet<u32>,
}

impl Pool {
    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next
        })
    }
}

/// The names of the handles in one call.
#[derive(Debug, Default)]
pub struct CallNames {
    /// For each parameter, the names of its handles before the call.
    pub before: Vec<Vec<String>>,
    /// For each parameter, the names of its handles after the call.
    pub after: Vec<Vec<String>>,
}

impl Objects {
    /// Starts without objects; `predefined` has the names of handles that are known only inside the process.
    pub fn new(family: Family, predefined: HandleTable) -> Objects {
        Objects {
            family,
            predefined,
            live: HashMap::new(),
            pools: HashMap::new(),
            freed: BinaryHeap::new(),
            dying: HashMap::new(),
        }
    }

    /// The name of a predefined handle or a named address.
    pub fn predefined(&self, kind: &str, value: u64) -> Option<&str> {
        self.predefined.name(kind, value).or_else(|| names::handle_name(self.family, kind, value))
    }

    /// Names every handle of a call, and adds and removes the objects that it creates and frees.
    pub fn name_call(&mut self, event: &Event) -> CallNames {
        self.free_until(event.start);
        let params = &event.function.params;
        let mut names = CallNames {
            before: vec![Vec::new(); params.len()],
            after: vec![Vec::new(); params.len()],
        };
        // The same handle twice in one call means two requests of its queue.
        let mut seen = HashMap::new();
        for (i, p) in params.iter().enumerate() {
            for value in handles(p, event.inputs[i].as_ref()) {
                let turn = seen.entry((p.reads_as.as_str(), value)).or_insert(0);
                names.before[i].push(self.name_given(p, value, *turn));
                *turn += 1;
            }
        }
        for (i, p) in params.iter().enumerate() {
            if p.direction == Direction::Out && event.is_failed() {
                continue;
            }
            let before = handles(p, event.inputs[i].as_ref());
            let after = handles(p, event.outputs[i].as_ref());
            for (&old, &new) in before.iter().zip(&after) {
                if old != new {
                    self.free(p, old, event.end);
                }
            }
            for (at, value) in after.into_iter().enumerate() {
                if before.get(at) != Some(&value) {
                    self.receive(p, value);
                }
                names.after[i].push(self.name_received(p, value));
            }
        }
        names
    }

    /// The name of a handle that the program passes to MPI. `turn` counts how often the same handle has
    /// occurred before in this call.
    fn name_given(&mut self, p: &ParamDef, value: u64, turn: usize) -> String {
        if let Some(name) = self.predefined(&p.reads_as, value) {
            return name.to_owned();
        }
        let key = (p.reads_as.clone(), value);
        if !self.live.contains_key(&key) {
            self.create(&key);
        }
        // Requests that another call is freeing are no longer meant.
        let index = match is_queued(p) {
            true => turn + self.dying.get(&key).copied().unwrap_or(0),
            false => usize::MAX,
        };
        self.name(&key, index)
    }

    /// The name of a handle that MPI returned.
    fn name_received(&mut self, p: &ParamDef, value: u64) -> String {
        match self.predefined(&p.reads_as, value) {
            Some(name) => name.to_owned(),
            None => self.name(&(p.reads_as.clone(), value), usize::MAX),
        }
    }

    /// The name of the object with that index in a handle's queue, or of the last.
    fn name(&self, key: &Key, index: usize) -> String {
        let queue = self.live.get(key);
        let object = queue.and_then(|queue| queue.get(index.min(queue.len() - 1)));
        object.map_or("?".to_owned(), |object| format!("{}{}", prefix(&key.0), object.number))
    }

    fn create(&mut self, key: &Key) {
        let number = self.pools.entry(key.0.clone()).or_default().take();
        self.live.entry(key.clone()).or_default().push_back(Object { number, references: 1 });
    }

    /// MPI returned a handle, of a new object or of one that the program has already.
    fn receive(&mut self, p: &ParamDef, value: u64) {
        if self.predefined(&p.reads_as, value).is_some() {
            return;
        }
        let key = (p.reads_as.clone(), value);
        let dying = self.dying.get(&key).copied().unwrap_or(0);
        let queue = self.live.get_mut(&key).filter(|queue| !is_queued(p) && queue.len() > dying);
        match queue.and_then(VecDeque::back_mut) {
            Some(object) if is_counted(p) => object.references += 1,
            Some(_) => {}
            None => self.create(&key),
        }
    }

    /// The program frees a handle in a call that returns at `end`.
    fn free(&mut self, p: &ParamDef, value: u64, end: Option<u64>) {
        let key = (p.reads_as.clone(), value);
        let dying = self.dying.get(&key).copied().unwrap_or(0);
        let Some(object) = self.live.get_mut(&key).and_then(|queue| queue.get_mut(dying)) else {
            return;
        };
        object.references -= 1;
        if object.references == 0 {
            *self.dying.entry(key.clone()).or_default() += 1;
            self.freed.push(Reverse((end.unwrap_or(u64::MAX), key)));
        }
    }

    /// Removes the objects that were freed by calls that returned by that time.
    fn free_until(&mut self, time: u64) {
        while let Some(Reverse((end, _))) = self.freed.peek()
            && *end <= time
            && let Some(Reverse((_, key))) = self.freed.pop()
        {
            if let Some(dying) = self.dying.get_mut(&key) {
                *dying -= 1;
                if *dying == 0 {
                    self.dying.remove(&key);
                }
            }
            if let Some(queue) = self.live.get_mut(&key) {
                let gone = queue.pop_front();
                if queue.is_empty() {
                    self.live.remove(&key);
                }
                let pool = self.pools.entry(key.0).or_default();
                pool.free.extend(gone.map(|object| object.number));
            }
        }
    }
}

/// Whether one handle may mean several objects, each created by a different call.
fn is_queued(p: &ParamDef) -> bool {
    p.reads_as == "request"
}

/// Whether MPI may return the same object several times, and the program must free it as often.
fn is_counted(p: &ParamDef) -> bool {
    matches!(p.reads_as.as_str(), "group" | "errhandler" | "datatype")
}

fn prefix(kind: &str) -> &str {
    match kind {
        "request" => "r",
        "datatype" => "type",
        other => other,
    }
}

/// The handles in a value.
fn handles(p: &ParamDef, value: Option<&Value>) -> Vec<u64> {
    if p.class != Class::Handle {
        return Vec::new();
    }
    match value {
        Some(Value::Word(handle)) => vec![*handle],
        Some(Value::List(all)) => all
            .iter()
            .filter_map(|v| if let Value::Word(handle) = v { Some(*handle) } else { None })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_format::define::FunctionDef;
    use std::sync::Arc;

    /// A call with handles before and after it, over that time.
    fn call(function: &str, handles: &[(Option<u64>, Option<u64>)], time: (u64, u64)) -> Event {
        let function = refrain_mpi::interface::function(function).unwrap();
        let word = |value: Option<u64>| value.map(Value::Word);
        Event {
            number: 0,
            depth: 0,
            function: Arc::new(FunctionDef::from(function)),
            site: None,
            start: time.0,
            end: Some(time.1),
            result: Some(0),
            error_class: Some(0),
            inputs: handles.iter().map(|(before, _)| word(*before)).collect(),
            outputs: handles.iter().map(|(_, after)| word(*after)).collect(),
        }
    }

    fn get(objects: &mut Objects, function: &str, handle: u64, at: u64) -> String {
        let event = call(function, &[(Some(0x4400_0000), None), (None, Some(handle))], (at, at));
        objects.name_call(&event).after[1].concat()
    }

    fn free(objects: &mut Objects, function: &str, handle: u64, at: (u64, u64)) -> String {
        let null = if function == "MPI_Comm_free" { 0x0400_0000 } else { 0x0800_0000 };
        let event = call(function, &[(Some(handle), Some(null))], at);
        objects.name_call(&event).before[0].concat()
    }

    fn of_mpich() -> Objects {
        Objects::new(Family::Mpich, HandleTable::default())
    }

    #[test]
    fn the_smallest_free_number_is_taken() {
        let mut objects = of_mpich();
        assert_eq!(get(&mut objects, "MPI_Comm_dup", 11, 1), "comm1");
        assert_eq!(get(&mut objects, "MPI_Comm_dup", 12, 2), "comm2");
        assert_eq!(free(&mut objects, "MPI_Comm_free", 11, (3, 3)), "comm1");
        assert_eq!(get(&mut objects, "MPI_Comm_dup", 13, 4), "comm1");
        assert_eq!(get(&mut objects, "MPI_Comm_dup", 11, 5), "comm3");
    }

    #[test]
    fn an_object_returned_twice_is_freed_twice() {
        let mut objects = of_mpich();
        assert_eq!(get(&mut objects, "MPI_Comm_group", 11, 1), "group1");
        assert_eq!(get(&mut objects, "MPI_Comm_group", 11, 2), "group1");
        assert_eq!(free(&mut objects, "MPI_Group_free", 11, (3, 3)), "group1");
        assert_eq!(get(&mut objects, "MPI_Comm_group", 12, 4), "group2");
        assert_eq!(free(&mut objects, "MPI_Group_free", 11, (5, 5)), "group1");
        assert_eq!(get(&mut objects, "MPI_Comm_group", 13, 6), "group1");
    }

    #[test]
    fn an_object_has_its_name_until_the_call_that_frees_it_returned() {
        let mut objects = of_mpich();
        get(&mut objects, "MPI_Comm_dup", 11, 1);
        assert_eq!(free(&mut objects, "MPI_Comm_free", 11, (2, 9)), "comm1");
        // Inside, a callback uses the object and makes another.
        let event = call("MPI_Comm_rank", &[(Some(11), None), (None, None)], (3, 4));
        assert_eq!(objects.name_call(&event).before[0], ["comm1"]);
        assert_eq!(get(&mut objects, "MPI_Comm_dup", 12, 5), "comm2");
        // MPI returns the handle to another thread before the end of this call is recorded.
        assert_eq!(get(&mut objects, "MPI_Comm_dup", 11, 6), "comm3");
        assert_eq!(get(&mut objects, "MPI_Comm_dup", 13, 9), "comm1");
        assert_eq!(free(&mut objects, "MPI_Comm_free", 11, (10, 11)), "comm3");
    }

    #[test]
    fn a_failed_call_creates_nothing() {
        let mut objects = of_mpich();
        let mut event =
            call("MPI_Comm_dup", &[(Some(0x0400_0000), None), (None, Some(99))], (1, 2));
        (event.result, event.error_class) = (Some(5), Some(5));
        assert!(objects.name_call(&event).after[1].is_empty());
        assert_eq!(get(&mut objects, "MPI_Comm_dup", 11, 3), "comm1");
    }

    #[test]
    fn requests_with_the_same_handle_complete_in_the_order_of_their_creation() {
        let mut objects = of_mpich();
        let ibarrier =
            |at| call("MPI_Ibarrier", &[(Some(0x4400_0000), None), (None, Some(77))], (at, at));
        assert_eq!(objects.name_call(&ibarrier(1)).after[1], ["r1"]);
        assert_eq!(objects.name_call(&ibarrier(2)).after[1], ["r2"]);
        let wait = |time| call("MPI_Wait", &[(Some(77), Some(0x2c00_0000)), (None, None)], time);
        assert_eq!(objects.name_call(&wait((3, 9))).before[0], ["r1"]);
        // Another thread, at the same time.
        assert_eq!(objects.name_call(&wait((4, 8))).before[0], ["r2"]);
        assert_eq!(objects.name_call(&ibarrier(5)).after[1], ["r3"]);
        assert_eq!(objects.name_call(&ibarrier(9)).after[1], ["r1"]);
    }
}
