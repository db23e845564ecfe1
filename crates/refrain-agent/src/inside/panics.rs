//! Panics of the agent: counted, and told by `refrain` at the end.
//!
//! A panic is a defect of the agent. It is caught before it reaches the program's frames, and the
//! program must not notice it. The default hook of the standard library would write to the program's
//! stderr, so [`install`] puts another one in its place, which counts.

use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// How often the agent has panicked in this process.
pub fn count() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

/// Replaces the hook of the standard library, when the library is loaded. `note` is told the file and
/// line of each panic. The hook is that of the agent's own copy of the standard library: a program
/// in Rust keeps its own.
pub fn install(note: fn(&str, u32)) {
    std::panic::set_hook(Box::new(move |info| {
        COUNT.fetch_add(1, Ordering::Relaxed);
        info.location().inspect(|location| note(location.file(), location.line()));
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
        let own = std::env::current_exe().unwrap();
        let mut child = Command::new(own);
        let out = child.args(["--exact", test, "--nocapture"]).env(IS_CHILD, "1").output().unwrap();
        let (said, complained) = (String::from_utf8_lossy(&out.stdout), &out.stderr);
        assert!(said.contains("panics.rs true") && said.contains("counted 1"), "{said}");
        assert!(complained.is_empty(), "{}", String::from_utf8_lossy(complained));
    }
}
