//! Turns the values in the records of one call into the cells of a signature and an outcome.
//!
//! [`refrain_signature::codes`] describes the cells of each kind of value.

mod handles;
mod status;

pub use handles::put_ref;

use crate::memo::Effect;
use crate::objects::{Objects, Ref};
use crate::segments::Segments;
use crate::slots::Slots;
use crate::task::Task;
use refrain_format::record::{array as codes, state};
use refrain_mpi::abi::Layout;
use refrain_mpi::status::StatusFields;
use refrain_signature::array;
use refrain_signature::cells::put;
use refrain_signature::codes::code;
use refrain_signature::outcome::IGNORES_STATUS;
use refrain_signature::plan::{Form, Kinds, Op, Plan, Role};

/// How a call returned.
#[derive(Clone, Copy, Debug)]
pub struct Returned<'a> {
    /// When, in ticks.
    pub end: u64,
    /// The result.
    pub result: i64,
    /// The class of the error code, if the result is one.
    pub class: i32,
    /// The outputs.
    pub outputs: &'a [u8],
}

/// What encoding one argument of a call leaves for another, and buffers that are reused between calls.
#[derive(Debug, Default)]
pub struct CallScratch {
    /// Handles that the call may change, before the call.
    before: Vec<(u64, Ref)>,
    /// The same handles after the call.
    after: Vec<u64>,
    /// Requests by array index, for their statuses.
    requests: Vec<(u64, Ref)>,
    /// The previous array argument.
    numbers: Vec<i64>,
    /// Buffer for the next array argument.
    next_numbers: Vec<i64>,
    /// The indices of completed requests.
    indices: Vec<i64>,
    flag: Option<bool>,
    outcount: Option<i64>,
    /// The handle of the request that the call created.
    made: Option<u64>,
    refs: Vec<Ref>,
    /// The handles of an array, and the two numbers of each object.
    raws: Vec<u64>,
    columns: [Vec<i64>; 2],
    /// By array index, whether the request was completed.
    is_completed: Vec<bool>,
    /// The signature's number, if it is known already.
    pub terminal: Option<u32>,
    /// What the call does to requests; `None` if it cannot be repeated.
    pub effect: Option<Effect>,
    /// The call wrote a status.
    pub left_status: bool,
}

impl CallScratch {
    /// Prepares for the next call.
    #[inline]
    pub fn clear(&mut self) {
        self.before.clear();
        self.after.clear();
        self.requests.clear();
        self.numbers.clear();
        self.indices.clear();
        (self.flag, self.outcount, self.made, self.terminal) = (None, None, None, None);
        (self.effect, self.left_status) = (Some(Effect::None), false);
    }
}

/// Reads the values of a record; `None` at their end.
struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    #[inline]
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    #[inline]
    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    #[inline]
    fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*head))
    }

    #[inline]
    fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*head))
    }
}

/// Writes the cells of a call.
pub struct Writer<'e, 'k> {
    /// The data layout of the process's MPI.
    pub layout: &'static Layout,
    /// Kinds by number.
    pub kinds: &'k mut Kinds,
    /// The process's objects.
    pub objects: &'e mut Objects,
    /// The process's memory segments.
    pub segments: &'e mut Segments,
    /// The thread's task.
    pub task: &'e mut Task,
    /// The thread's arrays of requests.
    pub slots: &'e mut Slots,
    /// The last status that MPI wrote for the thread.
    pub last_status: &'e mut Option<StatusFields>,
    /// The thread's number.
    pub thread: u32,
    /// The plans of all functions, by number.
    pub plans: &'e [Option<Box<Plan>>],
    /// The plan of the called function.
    pub plan: &'e Plan,
    /// The number of the called function.
    pub function: u16,
    /// Cells of the signature are appended here.
    pub signature: &'e mut Vec<u8>,
    /// Cells of the outcome are appended here.
    pub outcome: &'e mut Vec<u8>,
    /// State shared between the arguments of a call.
    pub scratch: &'e mut CallScratch,
}

impl Writer<'_, '_> {
    /// Encodes what is known of the outputs of a call that did not return: whether the program ignores its
    /// status.
    pub fn in_flight(&mut self, ignores_status: bool) {
        if ignores_status {
            put(self.outcome, IGNORES_STATUS);
        }
    }

    /// Encodes the inputs.
    #[inline]
    pub fn inputs(&mut self, inputs: &[u8]) -> Option<()> {
        let mut bytes = Bytes { rest: inputs };
        let plan = self.plan;
        for op in &plan.inputs {
            match op.form {
                Form::Int if op.by_value && !op.array => {
                    put(self.signature, i64::from(bytes.u32()? as i32));
                }
                Form::Handle(kind) if op.by_value && !op.array => {
                    let raw = bytes.u64()?;
                    let re = self.objects.resolve(kind, raw, self.thread, 0);
                    if self.is_request(kind) {
                        self.scratch.requests.push((raw, re));
                        if plan.cancels {
                            self.objects.cancel(raw, re);
                        }
                    }
                    self.mark_unknown_request(kind, re, false);
                    put_ref(self.task, self.thread, self.signature, re);
                }
                Form::Address(kind) if op.by_value && !op.array => {
                    let address = bytes.u64()?;
                    self.address(kind, address, false);
                }
                Form::Status => self.input_status(op, &mut bytes)?,
                _ => self.value(op, &mut bytes, false, false)?,
            }
        }
        Some(())
    }

    /// Encodes the result and the outputs. Returns false for a failed poll.
    pub fn outputs(&mut self, returned: &Returned<'_>) -> Option<bool> {
        let plan = self.plan;
        match plan.result {
            None if returned.result == 0 => put(self.outcome, 0),
            None => {
                // A class of 0 would mean success.
                put(self.outcome, if returned.class == 0 { -1 } else { returned.class.into() });
                put(self.outcome, returned.result);
            }
            Some(_) if plan.tells_time => put(self.outcome, 0),
            Some(form) => {
                put(self.outcome, 0);
                match form {
                    Form::Handle(kind) => {
                        let raw = self.narrow(kind, returned.result as u64);
                        let re = self.objects.resolve(kind, raw, self.thread, 0);
                        self.mark_unknown_request(kind, re, false);
                        put_ref(self.task, self.thread, self.signature, re);
                    }
                    Form::Address(kind) => self.address(kind, returned.result as u64, false),
                    _ => put(self.signature, returned.result),
                }
            }
        }
        let failed = plan.result.is_none() && returned.result != 0;
        let mut bytes = Bytes { rest: returned.outputs };
        let mut changed = None;
        for op in &plan.outputs {
            match op.form {
                Form::Status => self.status(op, &mut bytes, failed)?,
                Form::Handle(kind) if op.changes => {
                    changed = Some((kind, op.array, self.handles_after(op, &mut bytes)?));
                }
                Form::Handle(kind) if !op.array && !op.by_value => {
                    self.new_handle(kind, &mut bytes)?;
                }
                _ => self.value(op, &mut bytes, plan.decides, true)?,
            }
        }
        if let Some((kind, is_array, unset)) = changed {
            self.change(kind, is_array, unset);
        }
        self.request_made();
        if !self.scratch.requests.is_empty() && matches!(self.scratch.effect, Some(Effect::None)) {
            // A repeat would have to look up again which request the handle means.
            self.scratch.effect = None;
        }
        let succeeded = match (self.scratch.flag, self.scratch.outcount) {
            (Some(flag), _) => flag,
            (None, Some(n)) => n != 0,
            (None, None) => true,
        };
        Some(succeeded || failed)
    }

    /// A handle returned in a register: MPICH's are 32 bits wide.
    fn narrow(&self, kind: u8, raw: u64) -> u64 {
        match self.layout.bytes_of(self.kinds.name(kind)) {
            4 => raw & 0xffff_ffff,
            _ => raw,
        }
    }

    #[inline]
    fn out(&mut self, to_outcome: bool) -> &mut Vec<u8> {
        if to_outcome { self.outcome } else { self.signature }
    }

    #[inline]
    fn put(&mut self, to_outcome: bool, value: i64) {
        put(self.out(to_outcome), value);
    }

    /// Encodes a value that `inputs` and `outputs` do not encode themselves.
    fn value(&mut self, op: &Op, bytes: &mut Bytes<'_>, to: bool, output: bool) -> Option<()> {
        match op.form {
            Form::Text => return self.text(bytes, to),
            Form::Texts => return self.texts(bytes, to),
            Form::Texts2 => {
                let n = self.elements(bytes, to)?;
                for _ in 0..n {
                    self.texts(bytes, to)?;
                }
                return Some(());
            }
            _ if op.array => return self.array(op, bytes, to, output),
            _ => {}
        }
        if !op.by_value {
            let found = bytes.u8()?;
            self.put(to, found.into());
            if found != state::VALUE {
                return Some(());
            }
        }
        match op.form {
            Form::Int => {
                let value = i64::from(bytes.u32()? as i32);
                match op.role {
                    Role::Flag => self.scratch.flag = Some(value != 0),
                    Role::Index => self.scratch.indices.push(value),
                    Role::Outcount => self.scratch.outcount = Some(value),
                    Role::None | Role::Indices => {}
                }
                self.put(to, value);
            }
            Form::Long => {
                let value = bytes.u64()? as i64;
                self.put(to, value);
            }
            Form::Aint => {
                let value = bytes.u64()? as i64;
                self.aint(value, to);
            }
            Form::Handle(kind) => {
                let raw = bytes.u64()?;
                let re = self.objects.resolve(kind, raw, self.thread, 0);
                if op.changes {
                    self.scratch.before.push((raw, re));
                }
                if self.is_request(kind) {
                    self.scratch.requests.push((raw, re));
                    if self.plan.cancels {
                        self.objects.cancel(raw, re);
                    }
                }
                self.mark_unknown_request(kind, re, to);
                let (task, thread) = (&mut *self.task, self.thread);
                let out = if to { &mut *self.outcome } else { &mut *self.signature };
                put_ref(task, thread, out, re);
            }
            Form::Address(kind) => {
                let address = bytes.u64()?;
                self.address(kind, address, to);
            }
            Form::Text | Form::Texts | Form::Texts2 | Form::Status => {}
        }
        Some(())
    }

    /// Encodes an address.
    #[inline]
    fn address(&mut self, kind: u8, address: u64, to: bool) {
        if address == 0 {
            return self.put(to, 0);
        }
        if address >= 1 << 16
            && let Some(location) = self.segments.find(address)
        {
            if location.thread == self.thread {
                self.put(to, location.number.into());
            } else {
                [-2, location.thread.into(), location.number.into()]
                    .into_iter()
                    .for_each(|v| self.put(to, v));
            }
            return self.put(to, location.offset);
        }
        match self.objects.find_predefined(kind, address) {
            Some(index) => {
                let number = self.task.predefined(index);
                self.put(to, -3 - i64::from(number));
            }
            None => {
                self.put(to, -1);
                self.put(to, address as i64);
            }
        }
    }

    /// Encodes a number that may be an address.
    fn aint(&mut self, value: i64, to: bool) {
        if value > 1 << 32
            && let Some(location) = self.segments.find(value as u64)
        {
            if location.thread == self.thread {
                self.put(to, i64::from(location.number) * 2 + 1);
            } else {
                [-3, location.thread.into(), location.number.into()]
                    .into_iter()
                    .for_each(|v| self.put(to, v));
            }
            return self.put(to, location.offset);
        }
        match value.checked_mul(2) {
            Some(doubled) => self.put(to, doubled),
            None => {
                self.put(to, -5);
                self.put(to, value);
            }
        }
    }

    /// Reads the number of elements and writes it, or the code that replaces it.
    fn elements(&mut self, bytes: &mut Bytes<'_>, to: bool) -> Option<usize> {
        let n = self.count(bytes, to)?;
        if let Some(n) = n {
            self.put(to, n as i64);
        }
        Some(n.unwrap_or(0))
    }

    /// Reads the number of elements without writing it. If there is a code instead, writes the code and
    /// returns `Some(None)`.
    fn count(&mut self, bytes: &mut Bytes<'_>, to: bool) -> Option<Option<usize>> {
        let code = match bytes.u32()? {
            codes::NULL => code::NULL,
            codes::INSIGNIFICANT => code::INSIGNIFICANT,
            codes::UNSET => code::UNSET,
            codes::IGNORED => code::IGNORED,
            codes::SPECIAL => {
                let address = bytes.u64()?;
                let kind = self.kinds.number("address");
                self.put(to, code::SPECIAL);
                self.address(kind, address, to);
                return Some(None);
            }
            n => return Some(Some(n as usize)),
        };
        self.put(to, code);
        Some(None)
    }

    fn array(&mut self, op: &Op, bytes: &mut Bytes<'_>, to: bool, output: bool) -> Option<()> {
        if let Form::Handle(kind) = op.form {
            return self.handles(op, kind, bytes, to, output);
        }
        let Some(n) = self.count(bytes, to)? else {
            self.scratch.numbers.clear();
            return Some(());
        };
        let mut numbers = std::mem::take(&mut self.scratch.next_numbers);
        numbers.clear();
        match op.form {
            Form::Int => {
                let all = bytes.take(n.checked_mul(4)?)?;
                let (all, _) = all.as_chunks();
                numbers.extend(all.iter().map(|bytes| i64::from(i32::from_le_bytes(*bytes))));
            }
            _ => {
                let mut all = Bytes { rest: bytes.take(n.checked_mul(8)?)? };
                while let Some(value) = all.u64() {
                    numbers.push(value as i64);
                }
            }
        }
        if op.role == Role::Indices {
            self.scratch.indices.clone_from(&numbers);
        }
        let is_address = |v: &i64| *v > 1 << 32 && self.segments.find(*v as u64).is_some();
        let mixed = match op.form {
            Form::Aint => numbers.iter().any(is_address),
            Form::Address(_) => true,
            _ => false,
        };
        if mixed {
            self.put(to, code::MIXED);
            self.put(to, n as i64);
            for value in &numbers {
                match op.form {
                    Form::Address(kind) => self.address(kind, *value as u64, to),
                    _ => self.aint(*value, to),
                }
            }
            numbers.clear();
        } else {
            self.put(to, n as i64);
            let out = if to { &mut *self.outcome } else { &mut *self.signature };
            array::put(out, &numbers, &self.scratch.numbers);
        }
        self.scratch.next_numbers = std::mem::replace(&mut self.scratch.numbers, numbers);
        Some(())
    }

    fn text(&mut self, bytes: &mut Bytes<'_>, to: bool) -> Option<()> {
        if let Some(n) = self.count(bytes, to)? {
            let text = bytes.take(n)?;
            let number = self.task.string(text);
            self.put(to, number.into());
        }
        Some(())
    }

    fn texts(&mut self, bytes: &mut Bytes<'_>, to: bool) -> Option<()> {
        let n = self.elements(bytes, to)?;
        for _ in 0..n {
            self.text(bytes, to)?;
        }
        Some(())
    }

    fn plan_of(&self, function: u16) -> Option<&Plan> {
        self.plans.get(usize::from(function)).and_then(Option::as_deref)
    }

    #[inline]
    fn is_request(&self, kind: u8) -> bool {
        self.objects.is_request(kind)
    }
}
