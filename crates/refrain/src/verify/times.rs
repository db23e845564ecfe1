//! Describes the results of checking the times of calls and messages.

use crate::timing::Bounds;
use refrain_analysis::causality::Messages;
use refrain_analysis::verify::TimesCheck;
use serde::Serialize;

/// The result for times, as a line.
pub fn times_text(times: &TimesCheck) -> String {
    let TimesCheck { wanted, calls, compared, worst_duration, worst_interval, beyond, .. } = times;
    let (mode, bound) = (wanted.setting.mode, wanted.bound());
    if *compared == 0 {
        return format!("times of {calls} calls decoded: {mode}, {bound}");
    }
    let percent = |fraction: &f64| (fraction * 1e6).ceil() / 1e4;
    let (duration, interval) = (percent(worst_duration), percent(worst_interval));
    format!(
        "compared times of {compared} calls, {mode}, {bound}: the largest error of a duration is \
         {duration} %, of an interval {interval} %; {}",
        match beyond {
            0 => "all are within the bound".to_owned(),
            n => format!("{n} exceed the bound"),
        }
    )
}

/// The result for messages, as a line.
pub fn messages_text(Messages { paired, unpaired, early, .. }: &Messages) -> String {
    let early = match early {
        0 => "none was received before it was sent".to_owned(),
        n => format!("{n} were received before they were sent"),
    };
    format!("{paired} messages paired, {unpaired} not: {early}")
}

/// A remark if messages were received before they were sent.
pub fn early(messages: &Messages, times: Option<&TimesCheck>) -> Option<String> {
    let Messages { paired, early, worst, beyond_clocks, .. } = messages;
    if *early == 0 {
        return None;
    }
    let micros = *worst as f64 / 1e3;
    let how = match (beyond_clocks, times.filter(|t| t.compared == 0).map(|t| t.wanted.bound())) {
        (0, _) => "within the uncertainty of the clocks".to_owned(),
        (n, Some(bound)) if bound != "exact" => {
            format!("{n} by more than the uncertainty of the clocks; times are stored {bound}")
        }
        (n, _) => format!("{n} by more than the uncertainty of the clocks"),
    };
    Some(format!(
        "{early} of {paired} messages received before they were sent, by up to {micros:.3} us: {how}"
    ))
}

/// The times of calls, as JSON.
#[derive(Serialize)]
pub struct TimesRow {
    mode: &'static str,
    error: Option<f64>,
    error_abs_ns: Option<f64>,
    calls: u64,
    compared: u64,
    /// As a fraction.
    worst_duration_error: f64,
    /// As a fraction.
    worst_interval_error: f64,
    /// The number of times whose error exceeds the bound.
    beyond: u64,
}

impl TimesRow {
    /// The result of a check of times.
    pub fn of(times: &TimesCheck) -> TimesRow {
        let bounds = Bounds::of(&times.wanted);
        TimesRow {
            mode: times.wanted.setting.mode.word(),
            error: bounds.relative,
            error_abs_ns: bounds.absolute,
            calls: times.calls,
            compared: times.compared,
            worst_duration_error: times.worst_duration,
            worst_interval_error: times.worst_interval,
            beyond: times.beyond,
        }
    }
}

/// The times of messages, as JSON.
#[derive(Serialize)]
pub struct MessagesRow {
    paired: u64,
    unpaired: u64,
    /// The number received before they were sent.
    early: u64,
    worst_ns: u64,
    /// The number of these that the uncertainty of the clocks does not explain.
    beyond_clocks: u64,
}

impl MessagesRow {
    /// The result for messages.
    pub fn of(messages: &Messages) -> MessagesRow {
        MessagesRow {
            paired: messages.paired,
            unpaired: messages.unpaired,
            early: messages.early,
            worst_ns: messages.worst,
            beyond_clocks: messages.beyond_clocks,
        }
    }
}
