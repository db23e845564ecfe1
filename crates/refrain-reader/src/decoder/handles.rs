//! Handles of a call, as numbers that the decoder assigns.

use super::{Decoder, IMPLIED, LONGEST, PREDEFINED, REQUESTS, Reading};
use crate::event::Value;
use refrain_format::record::state;
use refrain_mpi::names;
use refrain_signature::array;
use refrain_signature::cells::Cells;
use refrain_signature::codes::{change, code};
use refrain_signature::plan::{Op, Plan, REQUEST};

impl Decoder<'_> {
    pub(super) fn handles(&mut self, kind: u8, n: usize, cells: &mut Cells<'_>) -> Option<Value> {
        // Handles before the call may be held, too.
        self.hold_array(n.saturating_mul(2), cells)?;
        let firsts = array::get(cells, n, LONGEST, &[])?;
        if self.view.functions.kinds().name(kind) != REQUEST {
            return firsts
                .into_iter()
                .map(|first| self.object(first))
                .collect::<Option<_>>()
                .map(Value::List);
        }
        let seconds = array::get(cells, n, LONGEST, &[])?;
        let one = |(first, second): (i64, i64)| {
            if first < 0 {
                return self.object(first);
            }
            let (base, number) = (u32::try_from(first - 1).ok()?, u32::try_from(second).ok()?);
            let is_live = self.keeps_requests || self.live.contains(&(base, number));
            Some(Value::Word(if is_live {
                self.request_word(None, base, number)
            } else {
                null_of(REQUEST)
            }))
        };
        firsts.into_iter().zip(seconds).map(one).collect::<Option<_>>().map(Value::List)
    }

    pub(super) fn handle(&mut self, kind: u8, cells: &mut Cells<'_>) -> Option<Value> {
        if self.view.functions.kinds().name(kind) == REQUEST {
            return self.request(cells);
        }
        match cells.get()? {
            0 => {
                let (thread, number) = (cells.get()?, cells.get()?);
                Some(object_of(u32::try_from(thread).ok()?, number))
            }
            first => self.object(first),
        }
    }

    fn request(&mut self, cells: &mut Cells<'_>) -> Option<Value> {
        let id = |v: i64| u32::try_from(v).ok();
        match cells.get()? {
            0 => {
                let thread = cells.get()?;
                if thread < 0 {
                    return self.unmade_request(cells);
                }
                let (base, number) = (cells.get()?, cells.get()?);
                Some(Value::Word(self.request_word(Some(id(thread)?), id(base)?, id(number)?)))
            }
            first if first < 0 => self.object(first),
            first => {
                let number = id(cells.get()?)?;
                Some(Value::Word(self.request_word(None, id(first - 1)?, number)))
            }
        }
    }

    /// One of an array of handles of several threads.
    pub(super) fn mixed_handle(&mut self, kind: u8, cells: &mut Cells<'_>) -> Option<Value> {
        self.handle(kind, cells)
    }

    pub(super) fn new_handle(
        &mut self,
        kind: u8,
        plan: &Plan,
        reading: &mut Reading<'_>,
    ) -> Option<Option<Value>> {
        let cells = if plan.decides { &mut reading.outcome } else { &mut reading.signature };
        match cells.get()? as u8 {
            state::VALUE => {}
            state::NULL => return Some(Some(Value::Null)),
            _ => return Some(Some(Value::Unset)),
        }
        if self.view.functions.kinds().name(kind) == REQUEST {
            if cells.get()? == 0 {
                return Some(None);
            }
            return self.unmade_request(cells).map(Some);
        }
        self.handle(kind, cells).map(Some)
    }

    /// A request that no recorded call made.
    fn unmade_request(&mut self, cells: &mut Cells<'_>) -> Option<Value> {
        match cells.get()? {
            0 => {
                let (thread, number) = (cells.get()?, cells.get()?);
                Some(object_of(u32::try_from(thread).ok()?, number))
            }
            first => self.object(first),
        }
    }

    /// Handles after a call that may change them.
    pub(super) fn change(
        &mut self,
        kind: u8,
        op: &Op,
        plan: &Plan,
        reading: &mut Reading<'_>,
    ) -> Option<Value> {
        let before = std::mem::take(&mut reading.before);
        let indices = &reading.indices;
        let cells = if plan.decides { &mut reading.outcome } else { &mut reading.signature };
        let is_request = self.view.functions.kinds().name(kind) == REQUEST;
        let null = self.null(kind);
        let how = cells.get()?;
        let after: Vec<Value> = match how {
            change::NONE => before.clone(),
            change::ALL | change::INDEXED => {
                let one = |(i, value): (usize, &Value)| match value {
                    Value::Word(handle)
                        if (how == change::ALL || indices.contains(&(i as i64)))
                            && *handle != null
                            && !(is_request && self.is_persistent(*handle)) =>
                    {
                        Value::Word(null)
                    }
                    other => other.clone(),
                };
                before.iter().enumerate().map(one).collect()
            }
            change::EACH => {
                let n = cells.get_checked(LONGEST)?;
                let mut after = Vec::new();
                for i in 0..n {
                    if cells.get()? != 0 {
                        after.push(before.get(i)?.clone());
                    } else if is_request {
                        after.push(self.unmade_request(cells)?);
                    } else {
                        after.push(self.handle(kind, cells)?);
                    }
                }
                after
            }
            change::UNSET => {
                let what = cells.get()?;
                return Some(match what {
                    0 | code::NULL => Value::Null,
                    code::INSIGNIFICANT => Value::Insignificant,
                    code::IGNORED => Value::Ignored,
                    _ => Value::Unset,
                });
            }
            _ => return None,
        };
        if is_request {
            for (old, new) in before.iter().zip(&after) {
                if old != new
                    && let Value::Word(handle) = old
                    && let Some(key) = self.own_request(*handle)
                {
                    self.live.remove(&key);
                }
            }
        }
        if op.array { Some(Value::List(after)) } else { after.into_iter().next() }
    }

    pub(super) fn object(&self, first: i64) -> Option<Value> {
        Some(match first {
            first if first < 0 => Value::Word(PREDEFINED | (-1 - first) as u64),
            number => object_of(self.view.thread(), number),
        })
    }

    pub(super) fn request_word(&self, thread: Option<u32>, base: u32, number: u32) -> u64 {
        request_of(thread.unwrap_or(self.view.thread()), base, number)
    }

    fn own_request(&self, handle: u64) -> Option<(u32, u32)> {
        let is_own = handle & (REQUESTS | PREDEFINED) == REQUESTS
            && handle >> 49 & 0x7ff == u64::from(self.view.thread() & 0x7ff);
        is_own.then_some(((handle >> 20 & 0x1fff_ffff) as u32, (handle & 0xf_ffff) as u32))
    }

    /// The null handle of a kind, as this decoder numbers it.
    pub(super) fn null(&self, kind: u8) -> u64 {
        let kind = self.view.functions.kinds().name(kind);
        let is_null = |name: &String| {
            name.split_once(' ').is_some_and(|(k, name)| k == kind && name.ends_with("_NULL"))
        };
        match self.view.predefined().iter().position(is_null) {
            Some(index) => PREDEFINED | index as u64,
            None => null_of(kind),
        }
    }

    pub(super) fn is_persistent(&self, handle: u64) -> bool {
        let Some((base, _)) = self.own_request(handle) else { return false };
        let head = self.view.group.rows.get(base as usize).and_then(|row| row.head());
        let function = head.and_then(|head| self.view.functions.get(head.function));
        function.is_some_and(|function| function.plan.persistent)
    }
}

/// What the handle of a decoded call stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Handle {
    /// A predefined object: the names of the task's handles say which.
    Predefined,
    /// An object that the program made.
    Object {
        /// The thread that made it.
        thread: u32,
        /// The smallest number of its kind that was free; from 1.
        number: u32,
    },
    /// A request.
    Request {
        /// The thread that made it.
        thread: u32,
        /// The signature that makes it if no other of its requests is active.
        signature: u32,
        /// Its number among the active requests of that signature, from 0.
        number: u32,
    },
}

impl Handle {
    /// What a handle ([`Value::Word`]) stands for.
    pub fn of(word: u64) -> Handle {
        if word & PREDEFINED != 0 {
            return Handle::Predefined;
        }
        if word & REQUESTS != 0 {
            return Handle::Request {
                thread: (word >> 49 & 0x7ff) as u32,
                signature: (word >> 20 & 0x1fff_ffff) as u32,
                number: (word & 0xf_ffff) as u32,
            };
        }
        Handle::Object {
            thread: ((word >> 32) as u32).saturating_sub(1),
            number: (word & 0xffff_ffff) as u32,
        }
    }
}

/// The handle that decoded calls have for an object of a thread.
pub(crate) fn object_handle(thread: u32, number: i64) -> u64 {
    (u64::from(thread & 0x0fff_ffff) + 1) << 32 | number as u64 & 0xffff_ffff
}

fn object_of(thread: u32, number: i64) -> Value {
    Value::Word(object_handle(thread, number))
}

/// A number for a request: thread, signature, number.
fn request_of(thread: u32, base: u32, number: u32) -> u64 {
    let thread = u64::from(thread & 0x7ff);
    REQUESTS | thread << 49 | u64::from(base & 0x1fff_ffff) << 20 | u64::from(number & 0xf_ffff)
}

/// The null handles that a trace may imply without naming them: kind, value, name.
pub(crate) fn nulls() -> impl Iterator<Item = (&'static str, u64, &'static str)> {
    let rows = names::handles().iter().enumerate();
    let nulls = rows.filter(|(_, row)| row.name.ends_with("_NULL"));
    nulls.map(|(index, row)| (row.group, IMPLIED | index as u64, row.name))
}

/// The null handle of a kind.
fn null_of(kind: &str) -> u64 {
    nulls().find(|(k, ..)| *k == kind).map_or(IMPLIED, |(_, value, _)| value)
}
