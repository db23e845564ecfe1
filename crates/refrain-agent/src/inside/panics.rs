//! Counts the agent's panics; `refrain` reports them at the end.
//!
//! A panic is a defect of the agent. It is caught before it reaches the program's frames, and the
//! program must not notice it. The default hook of the standard library would write to the
//! program's stderr, so [`install`] replaces it by one that counts.

use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// How often the agent has panicked in this process.
pub fn count() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

/// Replaces the panic hook, when the library is loaded. `report` gets the file and line of each
/// panic. The hook belongs to the agent's own copy of the standard library: a program in Rust keeps
/// its own.
pub fn install(report: fn(&str, u32)) {
    std::panic::set_hook(Box::new(move |info| {
        COUNT.fetch_add(1, Ordering::Relaxed);
        info.location().inspect(|location| report(location.file(), location.line()));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const IS_CHILD: &str = "REFRAIN_TEST_PANICS";

    #[test]
    fn a_panic_is_counted_and_not_printed() {
        if std::env::var_os(IS_CHILD).is_some() {
            install(|file, line| println!("noted {file} {}", line > 0));
            assert!(std::panic::catch_unwind(|| panic!("a defect")).is_err());
            println!("counted {}", count());
            return;
        }
        let test = "inside::panics::tests::a_panic_is_counted_and_not_printed";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let out = child.args(["--exact", test, "--nocapture"]).env(IS_CHILD, "1").output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), &out.stderr);
        assert!(stdout.contains("panics.rs true") && stdout.contains("counted 1"), "{stdout}");
        assert!(stderr.is_empty(), "{}", String::from_utf8_lossy(stderr));
    }
}
