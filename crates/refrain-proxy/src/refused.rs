//! What a generated program cannot reproduce.

use crate::program::Signature;
use refrain_format::record::segment;
use refrain_mpi::semantics::Op;
use refrain_reader::Value;
use std::collections::BTreeMap;

/// What is refused, each with how many calls it is about.
#[derive(Clone, Debug, Default)]
pub struct Refused {
    /// By what it is.
    pub all: BTreeMap<String, u64>,
}

impl Refused {
    /// Notes calls that are refused.
    pub fn note(&mut self, what: &str, calls: u64) {
        *self.all.entry(what.to_owned()).or_default() += calls;
    }

    /// Whether the calls of a signature are refused, and left out if the program is generated all the same.
    pub fn judge(&mut self, signature: &Signature, ranks: u64) -> bool {
        let Some(event) = signature.event() else { return true };
        let calls = signature.occurrences.saturating_mul(ranks);
        if event.is_note() {
            let kind = match event.inputs.get(1) {
                Some(Some(Value::Int(kind))) if event.function.name == "refrain_segment" => *kind,
                _ => 0,
            };
            if kind > i64::from(segment::STACK) {
                self.note("buffers in the memory of a GPU", calls);
            }
            return false;
        }
        let name = &event.function.name;
        let Some(function) = signature.mpi else {
            self.note(&format!("{name}: not in the table of MPI's functions"), calls);
            return true;
        };
        match function.op() {
            Op::Connect | Op::Name => {
                self.note(&format!("{name}: needs another job"), calls);
                return true;
            }
            Op::Abort => return false,
            _ => {}
        }
        let is_far = |def: &refrain_format::define::ParamDef, value: &Option<Value>| {
            def.name == "target_disp" && matches!(value, Some(Value::Int(at)) if *at >= 1 << 40)
        };
        let mut arguments = signature.function.params.iter().zip(&event.inputs);
        if arguments.any(|(def, value)| is_far(def, value)) {
            self.note(&format!("{name}: at an address that another rank sent"), calls);
            return true;
        }
        if event.result.is_none() {
            self.note(&format!("{name}: never returned"), calls);
            return true;
        }
        false
    }

    /// Whether nothing is refused.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
