//! Options that say how the times of every call are recorded.

use anyhow::{Context, Result, bail};
use refrain_reader::timing::{Setting, Wanted};
use refrain_timing::{Bound, Mode};

/// How the times of every call are recorded.
#[derive(clap::Args)]
pub struct Timing {
    /// Record when every call began and how long it took: lossless (exact), or within a bound: loop (the
    /// smallest as a rule; lossy is another word for it), cfg, hist, zfp or zfp-clustered. Without this
    /// option a trace has statistics of durations only.
    #[arg(long, value_name = "MODE")]
    timing: Option<String>,
    /// Relative error bound of every stored duration and interval between calls, from 0.000001 to 0.5: 0.1
    /// for all functions, MPI_Send=0.01 for one [default: 0.1]. Every 256th start is exact. Where
    /// sums of times go beyond it, the intervals before it are shown shorter, so calls never overlap.
    #[arg(long, value_name = "FRACTION", value_delimiter = ',', requires = "timing")]
    error: Vec<String>,
    /// Absolute error bound, for zfp and zfp-clustered: 10us, 500ns, 1ms [default: 10us].
    #[arg(long, value_name = "TIME", requires = "timing")]
    error_abs: Option<String>,
}

impl Timing {
    /// The requested setting; `None` without `--timing`.
    pub fn wanted(&self) -> Result<Option<Wanted>> {
        let Some(word) = &self.timing else { return Ok(None) };
        let mode = match word.as_str() {
            "lossy" => Mode::Loop,
            word => word.parse().context("--timing")?,
        };
        if !mode.is_available() {
            bail!("--timing: {}", refrain_timing::TimingError::Unavailable(mode));
        }
        if mode == Mode::Lossless && (!self.error.is_empty() || self.error_abs.is_some()) {
            bail!("--error: lossless times are exact: use --timing loop for a bound");
        }
        let is_absolute = mode.bound() == Bound::Absolute;
        if is_absolute && !self.error.is_empty() {
            bail!("--error: {mode} takes a bound as a time: use --error-abs 10us");
        }
        if !is_absolute && self.error_abs.is_some() {
            bail!("--error-abs: {mode} takes a bound as a fraction: use --error 0.1");
        }
        let mut setting = Setting { mode, relative: 0.1, functions: Vec::new() };
        for text in &self.error {
            match text.split_once('=') {
                Some((function, bound)) => {
                    let name = full_name(function)?;
                    setting.functions.push((name, fraction(bound)?));
                }
                None => setting.relative = fraction(text)?,
            }
        }
        let absolute = nanoseconds(self.error_abs.as_deref().unwrap_or("10us"))?;
        Ok(Some(Wanted { setting, absolute }))
    }
}

/// The error bounds of times for JSON; a bound that does not apply is `None`.
pub struct Bounds {
    /// A fraction; 0 if times are exact.
    pub relative: Option<f64>,
    /// Nanoseconds.
    pub absolute: Option<f64>,
}

impl Bounds {
    /// The requested bounds.
    pub fn of(wanted: &Wanted) -> Bounds {
        match wanted.setting.mode.bound() {
            Bound::Exact => Bounds { relative: Some(0.0), absolute: None },
            Bound::Relative => Bounds { relative: Some(wanted.setting.relative), absolute: None },
            Bound::Absolute => Bounds { relative: None, absolute: Some(wanted.absolute) },
        }
    }
}

/// A relative bound.
fn fraction(text: &str) -> Result<f64> {
    let fraction: f64 = text
        .parse()
        .ok()
        .with_context(|| format!("--error: `{text}` is not a fraction such as 0.1"))?;
    refrain_timing::Bounds::relative(fraction).context("--error")?;
    Ok(fraction)
}

/// The full name of a function, from a name without `MPI_` or in another case.
fn full_name(name: &str) -> Result<String> {
    let plain = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        name.strip_prefix("mpi_").unwrap_or(&name).to_owned()
    };
    let mut functions = refrain_mpi::interface::functions().iter();
    let found = functions.find(|f| plain(&f.name) == plain(name));
    Ok(found.with_context(|| format!("--error: MPI has no function `{name}`"))?.name.clone())
}

/// A time such as 10us, in nanoseconds.
fn nanoseconds(text: &str) -> Result<f64> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    for (unit, nanoseconds) in units {
        if let Some(number) = text.trim().strip_suffix(unit)
            && let Ok(number) = number.trim().parse::<f64>()
            && number.is_finite()
            && number >= 0.0
        {
            return Ok(number * nanoseconds);
        }
    }
    bail!("--error-abs: `{text}` is not a time such as 10us, 500ns or 1ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(timing: &str, error: &[&str], error_abs: Option<&str>) -> Result<Wanted> {
        let options = Timing {
            timing: Some(timing.to_owned()),
            error: error.iter().map(|text| text.to_string()).collect(),
            error_abs: error_abs.map(str::to_owned),
        };
        options.wanted().map(|wanted| wanted.expect("a mode was given"))
    }

    #[test]
    fn bounds_are_for_all_functions_or_for_one() {
        let got = wanted("loop", &["0.05", "send=0.01"], None).expect("sound options");
        assert_eq!(got.setting.to_text(), "loop 0.05 MPI_Send=0.01");
        assert_eq!(wanted("lossy", &[], None).expect("a mode").setting.mode, Mode::Loop);
    }

    #[test]
    fn errors_for_wrong_options_show_correct_ones() {
        let message = |result: Result<Wanted>| format!("{:#}", result.expect_err("wrong options"));
        assert!(message(wanted("exact", &[], None)).contains("lossless, loop"));
        assert!(message(wanted("loop", &["7"], None)).starts_with("--error: "));
        assert!(message(wanted("loop", &["Sned=0.1"], None)).contains("no function `Sned`"));
        assert!(message(wanted("loop", &[], Some("10us"))).contains("--error 0.1"));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(nanoseconds("10us").ok(), Some(10_000.0));
        assert_eq!(nanoseconds("1.5 ms").ok(), Some(1_500_000.0));
        assert!(nanoseconds("10").is_err() && nanoseconds("-1s").is_err());
    }
}
