//! Names for the objects of a process: `comm1`, `type3`, `r2`.
//!
//! A log holds handles as MPI gives them out, numbers or addresses that mean nothing to a
//! reader and differ from run to run. Here every object that the program creates gets the
//! smallest number that is free among its kind, and gives it back when it is freed, so the
//! same program shows the same names in every run, under every MPI.
//!
//! MPICH gives the *same* handle to several requests that are complete from the start, so a
//! handle stands for a queue of requests: the first created is the first completed.

use refrain_format::decode::{Event, Value};
use refrain_format::define::ParamDef;
use refrain_mpi::abi::Family;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::names::{self, HandleTable};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// The live objects of a process.
pub struct Objects {
    family: Family,
    predefined: HandleTable,
    live: HashMap<(String, u64), VecDeque<u32>>,
    pools: HashMap<String, Pool>,
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

/// Names of the handles in one call: for each parameter, before and after.
#[derive(Debug, Default)]
pub struct CallNames {
    /// For each parameter the names of its handles before the call.
    pub before: Vec<Vec<String>>,
    /// For each parameter the names of its handles after the call.
    pub after: Vec<Vec<String>>,
}

impl Objects {
    /// No objects yet; `predefined` holds the names that only the process itself knew.
    pub fn new(family: Family, predefined: HandleTable) -> Objects {
        Objects { family, predefined, live: HashMap::new(), pools: HashMap::new() }
    }

    /// The name of a predefined handle or a named address.
    pub fn predefined(&self, kind: &str, value: u64) -> Option<&str> {
        self.predefined.name(kind, value).or_else(|| names::handle_name(self.family, kind, value))
    }

    /// Names every handle of a call, and takes note of what it creates and frees.
    pub fn name_call(&mut self, event: &Event) -> CallNames {
        let params = &event.function.params;
        let mut names = CallNames {
            before: vec![Vec::new(); params.len()],
            after: vec![Vec::new(); params.len()],
        };
        // The same handle twice in one call stands for two requests of its queue.
        let mut seen = HashMap::new();
        for (i, p) in params.iter().enumerate() {
            for value in handles(p, event.inputs[i].as_ref()) {
                let turn = seen.entry((p.reads_as.as_str(), value)).or_insert(0);
                names.before[i].push(self.name(p, value, *turn));
                *turn += usize::from(p.reads_as == "request");
            }
        }
        for (i, p) in params.iter().enumerate() {
            let before = handles(p, event.inputs[i].as_ref());
            let after = handles(p, event.outputs[i].as_ref());
            if p.direction == Direction::InOut {
                for (&old, &new) in before.iter().zip(&after) {
                    if old != new {
                        self.free(p, old);
                    }
                }
            }
            for (at, value) in after.into_iter().enumerate() {
                let is_new = before.get(at) != Some(&value);
                if is_new && p.reads_as == "request" && self.predefined("request", value).is_none()
                {
                    self.create(p, value);
                    let turn = self.queue_length(p, value) - 1;
                    names.after[i].push(self.name(p, value, turn));
                } else {
                    names.after[i].push(self.name(p, value, 0));
                }
            }
        }
        names
    }

    fn queue_length(&self, p: &ParamDef, value: u64) -> usize {
        self.live.get(&(p.reads_as.clone(), value)).map_or(0, VecDeque::len)
    }

    fn name(&mut self, p: &ParamDef, value: u64, turn: usize) -> String {
        if let Some(name) = self.predefined(&p.reads_as, value) {
            return name.to_owned();
        }
        let length = self.queue_length(p, value);
        if length == 0 {
            self.create(p, value);
        }
        let queue = &self.live[&(p.reads_as.clone(), value)];
        let number = queue.get(turn.min(queue.len() - 1)).copied().unwrap_or(0);
        format!("{}{number}", prefix(&p.reads_as))
    }

    fn create(&mut self, p: &ParamDef, value: u64) {
        let number = self.pools.entry(p.reads_as.clone()).or_default().take();
        self.live.entry((p.reads_as.clone(), value)).or_default().push_back(number);
    }

    fn free(&mut self, p: &ParamDef, value: u64) {
        let key = (p.reads_as.clone(), value);
        if let Some(queue) = self.live.get_mut(&key)
            && let Some(number) = queue.pop_front()
        {
            if queue.is_empty() {
                self.live.remove(&key);
            }
            self.pools.entry(key.0).or_default().free.insert(number);
        }
    }
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
