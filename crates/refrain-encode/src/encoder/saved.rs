//! The encoder's state as bytes, and back, so that a killed process loses nothing.

use super::{Encoder, FailedPolls, Open, Thread};
use crate::segments::Segments;
use crate::slots::Slots;
use crate::task::{self, Task};
use crate::times::{Recorder, Setting};
use refrain_mpi::abi::Family;
use refrain_mpi::status::StatusFields;
use refrain_signature::cells::{self, Cells, put_bytes, put_list, put_unsigned};
use refrain_signature::plan::{Kinds, Plan};

/// How far a state is written. The encoder must not change before it is whole.
#[derive(Debug, Default)]
pub struct Saving {
    is_begun: bool,
    thread: usize,
    task: task::Saving,
}

impl Encoder {
    /// Writes the whole state. [`Encoder::resume`] continues from it, for example after the process
    /// was killed.
    pub fn save(&self, out: &mut Vec<u8>) {
        let mut saving = Saving::default();
        while !self.save_some(&mut saving, out, usize::MAX) {}
    }

    /// Writes some of the state, until `out` has `enough` bytes or a little later. Returns whether all is
    /// written.
    pub fn save_some(&self, saving: &mut Saving, out: &mut Vec<u8>, enough: usize) -> bool {
        if !saving.is_begun {
            saving.is_begun = true;
            self.put_head(out);
        }
        while let Some(thread) = self.threads.get(saving.thread) {
            if out.len() >= enough || !thread.task.save_some(&mut saving.task, out, enough) {
                return false;
            }
            thread.put(out);
            if let Some(setting) = &self.timing {
                thread.times.put(setting, out);
            }
            (saving.thread, saving.task) = (saving.thread + 1, task::Saving::default());
        }
        true
    }

    /// Writes what comes before the threads.
    fn put_head(&self, out: &mut Vec<u8>) {
        put_unsigned(out, self.layout.family.code().into());
        put_list(out, self.kinds.names().iter(), |out, name| put_bytes(out, name.as_bytes()));
        let plans: Vec<(usize, &Plan)> =
            self.plans.iter().enumerate().filter_map(|(i, p)| Some((i, p.as_deref()?))).collect();
        put_list(out, plans.into_iter(), |out, (number, plan)| {
            put_unsigned(out, number as u64);
            put_bytes(out, plan.def.to_text().as_bytes());
        });
        self.objects.put(out);
        self.segments.put(out);
        let timing = self.timing.as_ref();
        put_bytes(out, timing.map(Setting::to_text).unwrap_or_default().as_bytes());
        put_unsigned(out, self.threads.len() as u64);
    }

    /// Continues from a saved state; `None` if the bytes are malformed.
    pub fn resume(cells: &mut Cells<'_>) -> Option<Encoder> {
        let family = Family::from_code(cells.get_u32()?)?;
        let mut encoder = Encoder::new(family);
        let mut kinds = Kinds::default();
        for name in cells.get_list(Cells::get_text)? {
            kinds.number(&name);
        }
        // Kinds that `Encoder::new` numbers come first and have the same numbers in the saved list.
        encoder.kinds = kinds;
        for _ in 0..cells.get_length()? {
            let number = u16::try_from(cells.get_unsigned()?).ok()?;
            encoder.define(number, &cells.get_text()?).ok()?;
        }
        encoder.objects.get(cells, &encoder.kinds)?;
        encoder.segments = Segments::get(cells)?;
        let timing = cells.get_text()?;
        if !timing.is_empty() {
            encoder.timing = Some(Setting::from_text(&timing)?);
        }
        encoder.threads = cells.get_list(|cells| {
            let mut thread = Thread::get(cells)?;
            if let Some(setting) = &encoder.timing {
                thread.times = Recorder::get(setting, cells)?;
            }
            Some(thread)
        })?;
        Some(encoder)
    }
}

/// The bit beside the depth of an open call that says whether the program ignores its status.
const IGNORES_BIT: u32 = 32;

impl Thread {
    /// Writes what comes after the task.
    fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.open.iter(), |out, open| {
            let site = open.site.map_or(0, |site| u64::from(site) + 1);
            for value in [
                open.function.into(),
                u64::from(open.depth) | u64::from(open.ignores_status) << IGNORES_BIT,
                open.number.into(),
                site,
                open.start,
                open.at as u64,
            ] {
                put_unsigned(out, value);
            }
        });
        put_bytes(out, &self.enters);
        put_unsigned(out, self.next_number.into());
        put_list(out, self.sites.iter(), |out, site| put_unsigned(out, (*site).into()));
        self.slots.put(out);
        put_list(out, self.failed.iter(), |out, failed| {
            put_unsigned(out, failed.signature.into());
            put_unsigned(out, failed.count);
            put_bytes(out, &failed.outcome);
        });
        put_list(out, self.last_status.iter(), |out, s| {
            for value in [s.source.into(), s.tag.into(), s.error.into()] {
                cells::put(out, value);
            }
            cells::put(out, s.count_bytes.unwrap_or(-1));
            out.push(s.cancelled.into());
        });
        put_unsigned(out, self.last_end);
        put_unsigned(out, self.calls);
    }

    fn get(cells: &mut Cells<'_>) -> Option<Thread> {
        let mut thread = Thread { task: Task::get(cells)?, ..Thread::default() };
        thread.open = cells.get_list(|cells| {
            let function = u16::try_from(cells.get_unsigned()?).ok()?;
            let depth = cells.get_unsigned()?;
            Some(Open {
                function,
                depth: u32::try_from(depth & ((1 << IGNORES_BIT) - 1)).ok()?,
                ignores_status: depth >> IGNORES_BIT != 0,
                number: cells.get_u32()?,
                site: cells.get_u32()?.checked_sub(1),
                start: cells.get_unsigned()?,
                at: usize::try_from(cells.get_unsigned()?).ok()?,
            })
        })?;
        thread.enters = cells.get_bytes()?.to_vec();
        thread.next_number = cells.get_u32()?;
        thread.sites = cells.get_list(Cells::get_u32)?;
        thread.slots = Slots::get(cells)?;
        let failed = cells.get_list(|cells| {
            let (signature, count) = (cells.get_u32()?, cells.get_unsigned()?);
            (count > 0).then_some(())?;
            Some(FailedPolls { signature, count, outcome: cells.get_bytes()?.to_vec() })
        })?;
        thread.failed = failed.into_iter().next();
        let statuses = cells.get_list(|cells| {
            let mut int = || i32::try_from(cells.get()?).ok();
            let (source, tag, error) = (int()?, int()?, int()?);
            let count = cells.get()?;
            let cancelled = *cells.take(1)?.first()? != 0;
            let count_bytes = (count >= 0).then_some(count);
            Some(StatusFields { source, tag, error, count_bytes, cancelled })
        })?;
        thread.last_status = statuses.into_iter().next();
        thread.last_end = cells.get_unsigned()?;
        thread.calls = cells.get_unsigned()?;
        Some(thread)
    }
}
