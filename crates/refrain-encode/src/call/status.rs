//! Encodes the statuses of a call: only the fields that MPI defines.
//!
//! A status is defined only if a message was received or a file was accessed. MPICH does not write
//! the status of a completed send; the uninitialized memory there must not become an outcome.

use super::{Bytes, Writer};
use crate::objects::Ref;
use refrain_format::record::state;
use refrain_mpi::status::StatusFields;
use refrain_signature::cells::put;
use refrain_signature::codes::{NOT_KEPT, Shape, WITH_ERROR};
use refrain_signature::plan::{Makes, Op};

impl Writer<'_, '_> {
    /// Which fields of a request's status are recorded.
    fn shape(&self, request: Option<(u64, Ref)>) -> Shape {
        if self.plan.of_files {
            return Shape::Transfer;
        }
        let Some((raw, re)) = request else { return Shape::Message };
        match re {
            Ref::Request { function, .. } => {
                match self.plan_of(function).map_or(Makes::Other, |p| p.makes) {
                    Makes::Receive => Shape::Message,
                    Makes::Transfer => Shape::Transfer,
                    _ if self.objects.is_cancelled(raw, re) => Shape::Cancelled,
                    _ => Shape::Nothing,
                }
            }
            Ref::Predefined(_) => Shape::Nothing,
            Ref::Object { .. } => Shape::Message,
        }
    }

    /// The request of the status with that index.
    fn request_of(&self, index: usize) -> Option<(u64, Ref)> {
        if self.plan.def.params.iter().all(|p| p.reads_as != refrain_signature::plan::REQUEST) {
            return None;
        }
        let null = (0, Ref::Predefined(u32::MAX));
        let requests = &self.scratch.requests;
        if !self.scratch.indices.is_empty() || self.scratch.outcount.is_some() {
            let index = self.scratch.indices.get(index).copied().unwrap_or(-1);
            let index = usize::try_from(index).ok();
            return Some(index.and_then(|i| requests.get(i)).copied().unwrap_or(null));
        }
        Some(requests.get(index).copied().unwrap_or(null))
    }

    pub(super) fn status(&mut self, op: &Op, bytes: &mut Bytes<'_>, failed: bool) -> Option<()> {
        if !op.array {
            let found = bytes.u8()?;
            return self.one_status(found, 0, bytes, failed);
        }
        let Some(n) = self.count(bytes, true)? else { return Some(()) };
        put(self.outcome, n as i64);
        let (found, size) = (bytes.u8()?, bytes.u8()?);
        // A record with more statuses than bytes is damaged.
        (n <= bytes.rest.len()).then_some(())?;
        put(self.outcome, found.into());
        for index in 0..n {
            let status = bytes.take(size.into())?;
            self.fields(status, found, index, failed);
        }
        Some(())
    }

    fn one_status(
        &mut self,
        found: u8,
        index: usize,
        bytes: &mut Bytes<'_>,
        failed: bool,
    ) -> Option<()> {
        if found != state::VALUE && found != state::CAPTURED {
            put(self.outcome, i64::from(found) * 16);
            return Some(());
        }
        let size = bytes.u8()?;
        let status = bytes.take(size.into())?;
        self.fields(status, found, index, failed);
        Some(())
    }

    fn fields(&mut self, status: &[u8], found: u8, index: usize, failed: bool) {
        let mut shape = self.shape(self.request_of(index));
        let fields = self.layout.status.status_fields(status);
        if fields.is_none() {
            shape = Shape::Nothing;
        }
        let with_error = failed && fields.is_some();
        let error = if with_error { WITH_ERROR } else { 0 };
        put(self.outcome, i64::from(found) * 16 + shape as i64 + error);
        let Some(fields) = fields else { return };
        match shape {
            Shape::Nothing => {}
            Shape::Message => {
                put_message(self.outcome, &fields);
                *self.last_status = Some(fields);
                self.scratch.left_status = true;
            }
            Shape::Transfer => {
                put(self.outcome, fields.count_bytes.unwrap_or(-1));
                let (source, tag) = (NOT_KEPT, NOT_KEPT);
                *self.last_status = Some(StatusFields { source, tag, cancelled: false, ..fields });
                self.scratch.left_status = true;
            }
            Shape::Cancelled => put(self.outcome, fields.cancelled.into()),
        }
        if with_error {
            put(self.outcome, fields.error.into());
        }
    }

    pub(super) fn input_status(&mut self, op: &Op, bytes: &mut Bytes<'_>) -> Option<()> {
        if op.array {
            // No function has an array of statuses as input.
            return None;
        }
        let found = bytes.u8()?;
        if found != state::VALUE && found != state::CAPTURED {
            put(self.outcome, 2 + i64::from(found));
            return Some(());
        }
        let size = bytes.u8()?;
        let status = bytes.take(size.into())?;
        let Some(fields) = self.layout.status.status_fields(status) else {
            put(self.outcome, 2 + i64::from(state::UNSET));
            return Some(());
        };
        let same = self.last_status.as_ref().is_some_and(|last| {
            let whole = (last.source, last.tag, last.cancelled)
                == (fields.source, fields.tag, fields.cancelled);
            last.count_bytes == fields.count_bytes && (whole || last.source == NOT_KEPT)
        });
        if same {
            put(self.outcome, 0);
        } else {
            put(self.outcome, 1);
            put_message(self.outcome, &fields);
        }
        Some(())
    }
}

fn put_message(out: &mut Vec<u8>, fields: &StatusFields) {
    put(out, fields.source.into());
    put(out, fields.tag.into());
    put(out, fields.count_bytes.unwrap_or(-1));
    put(out, fields.cancelled.into());
}
