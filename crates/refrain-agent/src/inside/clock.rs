//! The clock: the time-stamp counter if its rate is constant, otherwise the system's clock in
//! nanoseconds.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

/// 0 not known yet, 1 time-stamp counter, 2 system clock.
static SOURCE: AtomicU8 = AtomicU8::new(0);

/// Now, in ticks.
#[inline(always)]
pub fn ticks() -> u64 {
    if SOURCE.load(Ordering::Relaxed) == 1 {
        // SAFETY: rdtsc exists on every x86-64 processor.
        unsafe { core::arch::x86_64::_rdtsc() }
    } else {
        slow_ticks()
    }
}

#[cold]
fn slow_ticks() -> u64 {
    if SOURCE.load(Ordering::Relaxed) == 0 {
        SOURCE.store(
            if !is_system_wanted() && has_steady_counter() { 1 } else { 2 },
            Ordering::Relaxed,
        );
        return ticks();
    }
    system_nanos(libc::CLOCK_MONOTONIC)
}

/// Whether ticks are nanoseconds of the system's clock.
pub fn is_system() -> bool {
    let _ = ticks();
    SOURCE.load(Ordering::Relaxed) == 2
}

/// Nanoseconds since 1970.
pub fn wall_nanos() -> u64 {
    system_nanos(libc::CLOCK_REALTIME)
}

fn system_nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `REFRAIN_CLOCK=system` selects the system's clock, for machines whose counter is unreliable.
fn is_system_wanted() -> bool {
    // SAFETY: getenv returns null or a NUL-terminated string, read at once.
    unsafe {
        let text = libc::getenv(c"REFRAIN_CLOCK".as_ptr());
        !text.is_null() && CStr::from_ptr(text).to_bytes() == b"system"
    }
}

/// Whether the counter has the same rate in all power states (CPUID 8000_0007, EDX bit 8) and the
/// kernel trusts it (otherwise it has chosen another clock source).
fn has_steady_counter() -> bool {
    use core::arch::x86_64::__cpuid;
    let invariant =
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
    let source = std::fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let distrusted = source.is_ok_and(|s| s.starts_with(b"hpet") || s.starts_with(b"acpi_pm"));
    invariant && !distrusted
}
