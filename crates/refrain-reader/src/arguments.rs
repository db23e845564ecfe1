//! A call's arguments by what they mean ([`Argument`]), in one way for all analyses.
//!
//! A trace carries the definitions of its functions, so positions are looked up in the call's own
//! definition: a trace of an older version may have other parameters than today's table.

use crate::event::{Event, Value};
use refrain_mpi::abi::Layout;
use refrain_mpi::semantics::Argument;
use refrain_mpi::status::StatusFields;

/// The arguments of one call; see [`crate::Call::arguments`].
#[derive(Clone, Copy, Debug)]
pub struct CallArguments<'e> {
    /// The call.
    pub event: &'e Event,
    /// How its MPI lays out values.
    pub layout: &'static Layout,
}

impl<'e> CallArguments<'e> {
    /// The arguments of a call.
    pub fn of(event: &'e Event, layout: &'static Layout) -> CallArguments<'e> {
        CallArguments { event, layout }
    }

    /// The position of a parameter by its name.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.event.function.params.iter().position(|p| p.name == name)
    }

    /// The position of an argument.
    pub fn position(&self, argument: Argument) -> Option<usize> {
        argument.names().iter().find_map(|name| self.named(name))
    }

    /// The value before the call.
    pub fn input(&self, argument: Argument) -> Option<&'e Value> {
        self.event.inputs.get(self.position(argument)?)?.as_ref()
    }

    /// The value after the call.
    pub fn output(&self, argument: Argument) -> Option<&'e Value> {
        self.event.outputs.get(self.position(argument)?)?.as_ref()
    }

    /// A number that was passed.
    pub fn int(&self, argument: Argument) -> Option<i64> {
        int(self.input(argument)?)
    }

    /// A number that the call returned.
    pub fn output_int(&self, argument: Argument) -> Option<i64> {
        int(self.output(argument)?)
    }

    /// A handle that was passed.
    pub fn handle(&self, argument: Argument) -> Option<u64> {
        word(self.input(argument)?)
    }

    /// A handle that the call returned.
    pub fn output_handle(&self, argument: Argument) -> Option<u64> {
        word(self.output(argument)?)
    }

    /// The requests before the call: one, or an array of them.
    pub fn requests(&self) -> Vec<u64> {
        words(self.input(Argument::Request))
    }

    /// The requests after the call; the same as before if it did not return.
    pub fn requests_after(&self) -> Vec<u64> {
        let after = self.output(Argument::Request);
        words(after.or_else(|| self.input(Argument::Request)))
    }

    /// Whether something was found or completed: calls without a flag return only then.
    pub fn found(&self) -> bool {
        self.output_int(Argument::Flag) != Some(0)
    }

    /// The indices of completed requests in the order in which the call returns them; none if no
    /// request was active, or if the function returns no indices.
    pub fn indices(&self) -> Option<Vec<usize>> {
        let index = |value: &Value| usize::try_from(int(value)?).ok();
        if self.named("index").is_some() {
            return Some(vec![index(self.output(Argument::Index)?)?]);
        }
        let count = usize::try_from(self.output_int(Argument::OutCount)?).ok()?;
        match self.output(Argument::Index) {
            Some(Value::List(all)) => all.iter().take(count).map(index).collect(),
            _ => (count == 0).then(Vec::new),
        }
    }

    /// The `n`th status that the call returned.
    pub fn status(&self, n: usize) -> Option<StatusFields> {
        let value = match self.output(Argument::Status)? {
            Value::List(all) => all.get(n)?,
            one => one,
        };
        match value {
            Value::Status { bytes, .. } => self.layout.status.status_fields(bytes),
            _ => None,
        }
    }

    /// The indices of the requests that a call completed or reports as complete, with their statuses.
    pub fn completed(&self) -> Vec<(usize, Option<StatusFields>)> {
        if !self.found() {
            return Vec::new();
        }
        let indices = match self.position(Argument::Index) {
            Some(_) => self.indices().unwrap_or_default(),
            None => (0..self.requests().len()).collect(),
        };
        indices.into_iter().enumerate().map(|(n, index)| (index, self.status(n))).collect()
    }
}

/// A number.
pub fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(n) => Some(*n),
        _ => None,
    }
}

fn word(value: &Value) -> Option<u64> {
    match value {
        Value::Word(word) => Some(*word),
        _ => None,
    }
}

fn words(value: Option<&Value>) -> Vec<u64> {
    match value {
        Some(Value::List(all)) => all.iter().map(|value| word(value).unwrap_or(0)).collect(),
        // Otherwise a null address, of no requests.
        Some(value) => word(value).into_iter().collect(),
        None => Vec::new(),
    }
}
