//! Statuses among the arguments.

use super::{Argument, Over, Writer, list};
use crate::outcomes::{self, Kind, Steps};
use crate::program::Signature;
use refrain_format::define::ParamDef;
use refrain_mpi::interface::Direction;
use refrain_reader::{Event, Value};

impl Writer<'_, '_> {
    pub(super) fn status(
        &mut self,
        at: u32,
        signature: &Signature,
        events: &[&(u32, Event)],
        def: &ParamDef,
        inputs: &Over<'_>,
        outputs: &Over<'_>,
    ) -> Argument {
        if def.direction != Direction::Out {
            let Some((_, Value::Status { .. })) = inputs.first() else {
                return match def.direction {
                    Direction::In => "MPI_STATUS_IGNORE".into(),
                    _ => "&(MPI_Status){0}".into(),
                };
            };
            let Some(steps) = &signature.steps else { return "MPI_STATUS_IGNORE".into() };
            let make =
                if def.direction == Direction::In { "status_of" } else { "status_to_change" };
            if let Some(fields) = steps.constant() {
                let table = self.shared.tables.name("long", "always", "[]", &list(fields));
                return format!("{make}({table})").into();
            }
            let next = self.next_outcome(at, steps);
            return format!("{make}((const long *){next})").into();
        }
        let is_ignored = |value: &Value| match value {
            Value::Ignored => true,
            Value::Status { ignored, .. } => *ignored,
            Value::List(all) => all
                .iter()
                .any(|v| matches!(v, Value::Ignored | Value::Status { ignored: true, .. })),
            _ => false,
        };
        let count = |(_, event): &&(u32, Event)| {
            event.inputs.iter().flatten().find_map(|value| match value {
                Value::List(all) => Some(all.len()),
                _ => None,
            })
        };
        let count = events.iter().filter_map(count).max().unwrap_or(1).max(1);
        if signature.steps.as_ref().is_some_and(Steps::ignores_vary) {
            return match def.array {
                true => format!(
                    "outcome->ignores_status ? MPI_STATUSES_IGNORE : (MPI_Status[{count}]){{0}}"
                ),
                false => {
                    "outcome->ignores_status ? MPI_STATUS_IGNORE : &(MPI_Status){0}".to_owned()
                }
            }
            .into();
        }
        // A poll that failed has no status.
        let of_visit = signature
            .steps
            .as_ref()
            .filter(|steps| steps.kind == Kind::Outcome)
            .and_then(|steps| steps.visits.iter().find_map(|(_, visits)| visits.first()))
            .and_then(|visit| visit.get(outcomes::IGNORES));
        let is_ignored = match of_visit {
            Some(ignores) => *ignores != 0,
            None => outputs.iter().any(|(_, value)| is_ignored(value)),
        };
        if is_ignored {
            return if def.array { "MPI_STATUSES_IGNORE" } else { "MPI_STATUS_IGNORE" }.into();
        }
        if !def.array {
            return "&(MPI_Status){0}".into();
        }
        format!("(MPI_Status[{count}]){{0}}").into()
    }
}
