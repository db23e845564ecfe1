//! Decodes the statuses of a call.

use super::{Decoder, Reading};
use crate::event::Value;
use refrain_format::record::state;
use refrain_mpi::status::StatusFields;
use refrain_signature::cells::Cells;
use refrain_signature::codes::{NOT_KEPT, Shape, WITH_ERROR};
use refrain_signature::plan::Op;

impl Decoder<'_> {
    pub(super) fn status(&mut self, op: &Op, reading: &mut Reading<'_>) -> Option<Value> {
        let cells = &mut reading.outcome;
        if !op.array {
            return self.one_status(cells);
        }
        let n = match self.count(cells)? {
            Ok(n) => usize::try_from(n).ok().filter(|n| *n <= cells.rest().len())?,
            Err(value) => return Some(value),
        };
        cells.get()?;
        (0..n).map(|_| self.one_status(cells)).collect::<Option<_>>().map(Value::List)
    }

    fn one_status(&mut self, cells: &mut Cells<'_>) -> Option<Value> {
        let head = cells.get()?;
        let (found, shape) = ((head >> 4) as u8, head & 3);
        match found {
            state::NULL => return Some(Value::Null),
            state::IGNORED => return Some(Value::Ignored),
            state::VALUE | state::CAPTURED => {}
            _ => return Some(Value::Unset),
        }
        let nothing = StatusFields {
            source: NOT_KEPT,
            tag: NOT_KEPT,
            error: 0,
            count_bytes: None,
            cancelled: false,
        };
        let count = |n: i64| (n >= 0).then_some(n);
        let mut fields = match shape {
            s if s == Shape::Message as i64 => self.message(cells)?,
            s if s == Shape::Transfer as i64 => {
                StatusFields { count_bytes: count(cells.get()?), ..nothing }
            }
            s if s == Shape::Cancelled as i64 => {
                StatusFields { cancelled: cells.get()? != 0, ..nothing }
            }
            _ => nothing,
        };
        if shape == Shape::Message as i64 || shape == Shape::Transfer as i64 {
            self.last_status = Some(fields);
        }
        if head & WITH_ERROR != 0 {
            fields.error = cells.get()? as i32;
        } else if shape == Shape::Nothing as i64 {
            return Some(Value::Unset);
        }
        Some(self.status_of(&fields, found == state::CAPTURED))
    }

    fn message(&mut self, cells: &mut Cells<'_>) -> Option<StatusFields> {
        let (source, tag) = (cells.get()? as i32, cells.get()? as i32);
        let (count, cancelled) = (cells.get()?, cells.get()? != 0);
        let count_bytes = (count >= 0).then_some(count);
        Some(StatusFields { source, tag, error: 0, count_bytes, cancelled })
    }

    fn status_of(&self, fields: &StatusFields, ignored: bool) -> Value {
        let mut bytes = vec![0; self.layout.status.bytes];
        self.layout.status.write(&mut bytes, fields);
        Value::Status { bytes, ignored }
    }

    pub(super) fn input_status(&mut self, reading: &mut Reading<'_>) -> Option<Value> {
        let cells = &mut reading.outcome;
        let fields = match cells.get()? {
            0 if self.keeps_requests && self.last_status.is_none() => return Some(Value::Unset),
            0 => self.last_status?,
            1 => self.message(cells)?,
            other => {
                return Some(match (other - 2) as u8 {
                    state::NULL => Value::Null,
                    state::IGNORED => Value::Ignored,
                    _ => Value::Unset,
                });
            }
        };
        Some(self.status_of(&fields, false))
    }
}
