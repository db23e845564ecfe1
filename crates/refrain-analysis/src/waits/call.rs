//! What one call says, by the names of its parameters.

use crate::objects::CallNames;
use refrain_format::define::FunctionDef;
use refrain_mpi::abi::Layout;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::names::constant_name;
use refrain_mpi::status::StatusFields;
use refrain_reader::event::{Event, Value};

/// The place of a parameter.
pub(super) fn index(function: &FunctionDef, name: &str) -> Option<usize> {
    function.params.iter().position(|p| p.name == name)
}

/// A call's values by name.
pub(super) struct Call<'a> {
    pub event: &'a Event,
    pub names: &'a CallNames,
    pub layout: &'static Layout,
    /// Words for it may be asked for later.
    pub is_told: bool,
}

impl Call<'_> {
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.event.inputs[index(&self.event.function, name)?] {
            Some(Value::Int(n)) => Some(n),
            _ => None,
        }
    }

    pub fn output(&self, name: &str) -> Option<&Value> {
        self.event.outputs[index(&self.event.function, name)?].as_ref()
    }

    pub fn output_int(&self, name: &str) -> Option<i64> {
        match self.output(name) {
            Some(Value::Int(n)) => Some(*n),
            _ => None,
        }
    }

    /// The first handle of that kind that was passed.
    pub fn handle(&self, kind: &str) -> Option<u64> {
        let params = self.event.function.params.iter();
        let is_it = |p: &refrain_format::define::ParamDef| {
            p.class == Class::Handle && p.reads_as == kind && p.direction != Direction::Out
        };
        let at = params.clone().position(is_it)?;
        match self.event.inputs[at] {
            Some(Value::Word(handle)) => Some(handle),
            _ => None,
        }
    }

    /// The handle of that kind that the call has given out.
    pub fn made(&self, kind: &str) -> Option<u64> {
        let params = &self.event.function.params;
        let at = params.iter().position(|p| {
            p.class == Class::Handle && p.reads_as == kind && p.direction == Direction::Out
        })?;
        match self.event.outputs[at] {
            Some(Value::Word(handle)) => Some(handle),
            _ => None,
        }
    }

    /// The requests that were passed.
    pub fn requests(&self) -> Vec<u64> {
        let params = &self.event.function.params;
        let at = params.iter().position(|p| p.class == Class::Handle && p.reads_as == "request");
        match at.and_then(|at| self.event.inputs[at].as_ref()) {
            Some(Value::Word(handle)) => vec![*handle],
            Some(Value::List(all)) => {
                all.iter().map(|v| if let Value::Word(handle) = v { *handle } else { 0 }).collect()
            }
            _ => Vec::new(),
        }
    }

    pub fn status(&self, name: &str) -> Option<StatusFields> {
        self.fields(self.output(name)?)
    }

    pub fn fields(&self, value: &Value) -> Option<StatusFields> {
        match value {
            Value::Status { bytes, .. } => self.layout.status.status_fields(bytes),
            _ => None,
        }
    }

    /// The places of the requests that the call says are complete, with their statuses.
    pub fn completed(&self, requests: usize) -> Vec<(usize, Option<StatusFields>)> {
        let statuses = |place: usize| match self.output("array_of_statuses") {
            Some(Value::List(all)) => all.get(place).and_then(|value| self.fields(value)),
            _ => None,
        };
        if self.output_int("flag") == Some(0) {
            return Vec::new();
        }
        if let Some(Value::List(indices)) = self.output("array_of_indices") {
            let place = |(i, value): (usize, &Value)| match value {
                Value::Int(n) => Some((usize::try_from(*n).ok()?, statuses(i))),
                _ => None,
            };
            return indices.iter().enumerate().filter_map(place).collect();
        }
        if index(&self.event.function, "array_of_indices").is_some() {
            return Vec::new();
        }
        if index(&self.event.function, "index").is_some() {
            let place = self.output_int("index").and_then(|n| usize::try_from(n).ok());
            return place.map(|place| (place, self.status("status"))).into_iter().collect();
        }
        if index(&self.event.function, "status").is_some() {
            return vec![(0, self.status("status"))];
        }
        (0..requests).map(|place| (place, statuses(place))).collect()
    }

    /// The call in few words: its function, and the partner, the tag and the communicator.
    pub fn words(&self, partner: &str) -> String {
        if !self.is_told {
            return String::new();
        }
        let mut words = self.event.function.name.clone();
        let tags = match partner {
            "dest" => ["dest", "tag", "sendtag"],
            "source" | "" => ["source", "tag", "recvtag"],
            other => [other, "", ""],
        };
        for name in tags.into_iter().chain(["root"]) {
            let Some(value) = self.int(name) else { continue };
            let group = if name.ends_with("tag") { "tag" } else { "rank" };
            let shown = match constant_name(self.layout.family, group, value) {
                Some(constant) => constant.to_owned(),
                None => value.to_string(),
            };
            words += &format!(", {name}={shown}");
        }
        for (i, p) in self.event.function.params.iter().enumerate() {
            let is_place = matches!(p.reads_as.as_str(), "comm" | "win" | "file");
            if p.class == Class::Handle && is_place && p.direction != Direction::Out {
                let name = self.names.before.get(i).and_then(|names| names.first());
                if let Some(name) = name.filter(|n| *n != "MPI_COMM_WORLD" || partner.is_empty()) {
                    words += &format!(", {}={name}", p.name);
                }
                break;
            }
        }
        words
    }
}
