//! Compares the decoded times of calls with those of the records.
//!
//! A trace has an interval and a duration for every call, in the order of returns
//! ([`refrain_reader::decoder::times`]). Records have the start and end of every call, in the order of
//! starts. So the calls of the records are sorted into the order of returns here, by depth alone: a call has
//! ended before the next call of the same or a smaller depth begins.

use super::compare::stream_error;
use refrain_format::define::FunctionDef;
use refrain_reader::decoder::times::{CallTimes, Ends};
use refrain_reader::event::Event;
use refrain_reader::raw::DecodeError;
use refrain_reader::timing::Wanted;
use refrain_reader::{CallTrace, StreamMeta, TraceError};
use refrain_timing::Bound;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most problems that are described; all are counted.
const MOST_DESCRIBED: usize = 20;

/// The result of [`check_times`].
#[derive(Debug)]
pub struct TimesCheck {
    /// The requested setting.
    pub wanted: Wanted,
    /// Calls with times.
    pub calls: u64,
    /// Calls whose times were compared with the records.
    pub compared: u64,
    /// The largest relative error of a duration.
    pub worst_duration: f64,
    /// The largest relative error of an interval.
    pub worst_interval: f64,
    /// Times whose error exceeds the bound.
    pub beyond: u64,
    /// Descriptions of what is wrong.
    pub problems: Vec<String>,
}

/// Checks the times of all streams; `None` if the trace has no times.
pub fn check_times(trace: &CallTrace) -> Result<Option<TimesCheck>, TraceError> {
    let Some(wanted) = trace.timing()? else { return Ok(None) };
    let mut check = TimesCheck {
        wanted,
        calls: 0,
        compared: 0,
        worst_duration: 0.0,
        worst_interval: 0.0,
        beyond: 0,
        problems: Vec::new(),
    };
    for (stream, meta) in trace.meta().streams.iter().enumerate() {
        let made: u64 = trace.calls(stream)?.values().sum();
        let timed = check.stream(trace, stream, meta)?;
        if timed != made {
            check.problem(meta, format!("there are times for {timed} of {made} calls"));
        }
    }
    Ok(Some(check))
}

impl TimesCheck {
    fn problem(&mut self, meta: &StreamMeta, what: String) {
        if self.problems.len() < MOST_DESCRIBED {
            self.problems.push(format!("rank {}, thread {}: {what}", meta.rank, meta.thread));
        }
    }

    /// Checks the times of a stream; returns their number.
    fn stream(
        &mut self,
        trace: &CallTrace,
        stream: usize,
        meta: &StreamMeta,
    ) -> Result<u64, TraceError> {
        let Some(mut times) = trace.times(stream)? else { return Ok(0) };
        let mut returns = match trace.has_raw() {
            true => Some(Returns::new(trace.raw(stream)?)),
            false => None,
        };
        let mut timed = 0;
        loop {
            let call = match times.next_call() {
                Ok(Some(call)) => call,
                Ok(None) => break,
                Err(why) => {
                    self.problem(meta, why.to_string());
                    break;
                }
            };
            timed += 1;
            let exact = match &mut returns {
                Some(returns) => returns.next().transpose().map_err(|e| stream_error(meta, e))?,
                None => None,
            };
            if let Some(exact) = exact {
                self.call(meta, trace.meta().tick, &exact, &call);
            }
        }
        self.calls += timed;
        Ok(timed)
    }

    /// Compares the times of a call.
    fn call(&mut self, meta: &StreamMeta, tick: f64, exact: &Return, got: &CallTimes) {
        self.compared += 1;
        let (interval, duration) = match self.wanted.setting.mode.bound() {
            // Wrapping: also a clock that went backwards is stored exactly.
            Bound::Exact => {
                (exact.start.wrapping_sub(exact.before), exact.end.wrapping_sub(exact.start))
            }
            _ => (exact.start.saturating_sub(exact.before), exact.end.saturating_sub(exact.start)),
        };
        let name = &exact.function.name;
        for (what, was, is) in
            [("interval", interval, got.gap), ("duration", duration, got.duration)]
        {
            let off = was.abs_diff(is) as f64;
            let worst = if what == "interval" {
                &mut self.worst_interval
            } else {
                &mut self.worst_duration
            };
            *worst = worst.max(off / was.max(1) as f64);
            if off > self.allowed(name, was, tick) {
                self.beyond += 1;
                let number = exact.number;
                self.problem(
                    meta,
                    format!("#{number} {name}: the {what} is {is} ticks instead of {was}"),
                );
            }
        }
        if got.start.is_some_and(|start| start != exact.start) {
            self.beyond += 1;
            self.problem(meta, format!("#{} {name}: wrong start time", exact.number));
        }
    }

    /// The allowed error of a time, in ticks.
    fn allowed(&self, function: &str, ticks: u64, tick: f64) -> f64 {
        let Wanted { setting, absolute } = &self.wanted;
        match setting.mode.bound() {
            Bound::Exact => 0.0,
            Bound::Relative => {
                setting.own_bound(function).unwrap_or(setting.relative) * ticks as f64
            }
            Bound::Absolute => (absolute / tick.max(f64::MIN_POSITIVE)).ceil(),
        }
    }
}

/// A call that has ended.
struct Return {
    number: u64,
    function: Arc<FunctionDef>,
    depth: u8,
    /// When the previous call of the same or a smaller depth returned.
    before: u64,
    start: u64,
    end: u64,
    is_returned: bool,
}

impl Return {
    fn of(event: Event) -> Return {
        Return {
            number: event.number,
            function: event.function,
            depth: event.depth,
            before: 0,
            start: event.start,
            // A call that never returned has no duration.
            end: event.end.unwrap_or(event.start),
            is_returned: event.end.is_some(),
        }
    }
}

/// The calls of records in the order in which they ended.
struct Returns<I> {
    events: I,
    open: Vec<Return>,
    over: VecDeque<Return>,
    ends: Ends,
}

impl<I: Iterator<Item = Result<Event, DecodeError>>> Returns<I> {
    fn new(events: I) -> Returns<I> {
        Returns { events, open: Vec::new(), over: VecDeque::new(), ends: Ends::default() }
    }

    /// Ends all open calls except the outermost `left`.
    fn close(&mut self, left: usize) {
        self.over.extend(self.open.drain(left..).rev());
    }

    /// The number of open calls when this one begins. Records have depths up to 255; beyond that, times decide.
    fn around(&self, event: &Event) -> usize {
        let is_over = |call: &Return| match event.depth {
            u8::MAX => call.depth == u8::MAX && call.is_returned && call.end <= event.start,
            depth => call.depth >= depth,
        };
        self.open.iter().position(is_over).unwrap_or(self.open.len())
    }
}

impl<I: Iterator<Item = Result<Event, DecodeError>>> Iterator for Returns<I> {
    type Item = Result<Return, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.over.is_empty() {
            match self.events.next() {
                Some(Ok(event)) => {
                    self.close(self.around(&event));
                    self.open.push(Return::of(event));
                }
                Some(Err(error)) => return Some(Err(error)),
                None if self.open.is_empty() => return None,
                None => self.close(0),
            }
        }
        let mut call = self.over.pop_front()?;
        let depth = call.depth.into();
        call.before = self.ends.before(depth);
        self.ends.note(depth, call.end);
        Some(Ok(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64, depth: u8, start: u64, end: Option<u64>) -> Result<Event, DecodeError> {
        let function = FunctionDef {
            name: "MPI_X".to_owned(),
            params: Vec::new(),
            result: refrain_mpi::kind::Class::Int,
            result_reads_as: String::new(),
        };
        Ok(Event {
            number,
            depth,
            function: Arc::new(function),
            site: None,
            start,
            end,
            result: end.map(|_| 0),
            error_class: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
        })
    }

    #[test]
    fn nested_calls_end_before_the_outer_one() {
        let events = [
            event(0, 0, 10, Some(20)),
            event(1, 0, 30, Some(90)),
            event(2, 1, 40, Some(50)),
            event(3, 1, 60, None),
            event(4, 2, 70, Some(75)),
            event(5, 0, 100, None),
        ];
        let returns = Returns::new(events.into_iter());
        let got: Vec<_> = returns
            .map(|call| call.map(|c| (c.number, c.before, c.start, c.end)).expect("a call"))
            .collect();
        assert_eq!(
            got,
            [
                (0, 0, 10, 20),
                (2, 20, 40, 50),
                (4, 50, 70, 75),
                (3, 50, 60, 60),
                (1, 20, 30, 90),
                (5, 90, 100, 100),
            ]
        );
    }

    #[test]
    fn beyond_depth_255_times_decide_the_nesting() {
        let events = [
            event(0, 254, 1, Some(90)),
            event(1, 255, 10, Some(80)),
            event(2, 255, 20, Some(30)),
            event(3, 255, 40, Some(70)),
            event(4, 255, 50, None),
            event(5, 255, 75, Some(76)),
        ];
        let returns = Returns::new(events.into_iter());
        let got: Vec<_> = returns.map(|call| call.expect("a call").number).collect();
        assert_eq!(got, [2, 4, 3, 5, 1, 0]);
    }
}
