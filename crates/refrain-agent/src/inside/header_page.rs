//! The mapped header of a part, which several threads change.
//!
//! The thread that owns a log changes its header, and so does every thread that reports a fact about
//! the whole process ([`crate::inside::process::update`]). A signal handler may interrupt either. So
//! there is never a reference to a mapped [`PartHeader`]: fields that change after the part was
//! created are accessed as atomics, the other fields are only read.

use refrain_format::part::{PartHeader, Sync, flags};
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// A header that several threads may change at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeaderPage(*mut PartHeader);

// SAFETY: all accesses that may be concurrent are atomic.
unsafe impl Send for HeaderPage {}

/// The fields that change after the part was created.
macro_rules! atomics {
    ($($name:ident: $atomic:ty),* $(,)?) => {
        $(fn $name(&self) -> &$atomic {
            // SAFETY: `new` requires a live, aligned header, and this module accesses the field only
            // by this function.
            unsafe { <$atomic>::from_ptr(&raw mut (*self.0).$name) }
        })*
    };
}

impl HeaderPage {
    atomics! {
        rank: AtomicI32,
        size: AtomicI32,
        flags: AtomicU32,
        abort_code: AtomicI32,
        stop_errno: AtomicI32,
        unrecorded: AtomicU32,
        missing: AtomicU32,
        panics: AtomicU32,
        last_ticks: AtomicU64,
        last_nanos: AtomicU64,
        appended: AtomicU64,
        base: AtomicU64,
    }

    /// The header at an address.
    ///
    /// # Safety
    /// The address must be that of an initialised header that stays valid for as long as this value
    /// is used, and is accessed in no other way meanwhile.
    pub unsafe fn new(header: *mut PartHeader) -> HeaderPage {
        HeaderPage(header)
    }

    /// Its address.
    pub fn address(self) -> *mut PartHeader {
        self.0
    }

    /// The thread's number, which never changes.
    pub fn thread(self) -> u32 {
        // SAFETY: as `new` requires; nothing writes this field.
        unsafe { (*self.0).thread }
    }

    /// The process number, the host and the time of the first MPI call, which never change: they
    /// identify the process.
    pub fn process(self) -> (i32, [u8; 64], u64) {
        // SAFETY: as `new` requires; nothing writes these fields.
        unsafe { ((*self.0).pid, (*self.0).host, (*self.0).process) }
    }

    /// Stores rank and size of `MPI_COMM_WORLD`.
    pub fn set_world(self, rank: c_int, size: c_int) {
        self.rank().store(rank, Ordering::Relaxed);
        self.size().store(size, Ordering::Relaxed);
    }

    /// Sets bits of [`flags`].
    pub fn set_flags(self, bits: u32) {
        self.flags().fetch_or(bits, Ordering::Relaxed);
    }

    /// Stores whether the program has switched recording off: the bits [`flags::PAUSED`] and
    /// [`flags::WAS_PAUSED`].
    pub fn set_paused(self, bits: u32) {
        let change = |old: u32| Some(old & !flags::PAUSED | bits);
        let _ = self.flags().fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// The program calls `MPI_Abort` with this code.
    pub fn set_aborted(self, code: c_int) {
        self.abort_code().store(code, Ordering::Relaxed);
        self.set_flags(flags::ABORTED);
    }

    /// The log has stopped because of this error.
    pub fn set_stopped(self, errno: c_int) {
        self.stop_errno().store(errno, Ordering::Relaxed);
        self.set_flags(flags::STOPPED);
    }

    /// Counts a call that was forwarded but not recorded.
    pub fn count_unrecorded(self) {
        let change = |count: u32| Some(count.saturating_add(1));
        let _ = self.unrecorded().fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// Stores how many calls had no function in this MPI.
    pub fn set_missing(self, count: u32) {
        self.missing().store(count, Ordering::Relaxed);
    }

    /// Stores how often the agent has panicked.
    pub fn set_panics(self, count: u32) {
        self.panics().store(count, Ordering::Relaxed);
    }

    /// Stores the latest known moment on both clocks.
    pub fn set_last_time(self, ticks: u64, nanos: u64) {
        self.last_ticks().store(ticks, Ordering::Relaxed);
        self.last_nanos().store(nanos, Ordering::Relaxed);
    }

    /// Stores a comparison with the clock of the parent rank; `index` is 0 after Init, 1 before
    /// Finalize.
    pub fn set_sync(self, index: usize, sync: Sync) {
        // SAFETY: as `new` requires. The numbers are aligned, and written here only.
        let numbers = unsafe {
            let all = (&raw mut (*self.0).sync).cast::<Sync>();
            if index >= 2 {
                return;
            }
            let at = all.add(index);
            [&raw mut (*at).ticks, &raw mut (*at).parent_ticks, &raw mut (*at).uncertainty]
                .map(|number| AtomicU64::from_ptr(number))
        };
        for (number, value) in
            numbers.into_iter().zip([sync.ticks, sync.parent_ticks, sync.uncertainty])
        {
            number.store(value, Ordering::Relaxed);
        }
    }

    /// Bytes in the body.
    pub fn body_bytes(self) -> u64 {
        self.appended().load(Ordering::Relaxed)
    }

    /// The position in the log where the body ends.
    pub fn body_end(self) -> u64 {
        self.base().load(Ordering::Relaxed).wrapping_add(self.body_bytes())
    }

    /// Stores the number of bytes in the body, which are in the file already.
    pub fn set_body_bytes(self, bytes: u64) {
        self.appended().store(bytes, Ordering::Release);
    }

    /// The body is empty, and begins at this position of the log.
    pub fn restart_body(self, position: u64) {
        // In this order: a body of no bytes is right at any position.
        self.appended().store(0, Ordering::Relaxed);
        self.base().store(position, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_change_flags_at_the_same_time_lose_no_change() {
        let mut header = PartHeader::empty();
        // SAFETY: the header outlives the threads, which use it only by this value.
        let page = unsafe { HeaderPage::new(&mut header) };
        let address = page.address() as usize;
        let toggling = std::thread::spawn(move || {
            // SAFETY: as above.
            let page = unsafe { HeaderPage::new(address as *mut PartHeader) };
            for round in 0..200_000 {
                page.set_paused(if round % 2 == 0 { flags::PAUSED } else { 0 });
                page.count_unrecorded();
            }
        });
        for bit in (9..32).cycle().take(200_000) {
            page.set_flags(1 << bit);
            assert_ne!(page.flags().load(Ordering::Relaxed) & 1 << bit, 0);
            page.flags().fetch_and(!(1 << bit), Ordering::Relaxed);
            page.count_unrecorded();
        }
        toggling.join().unwrap();
        assert_eq!((header.flags, header.unrecorded), (0, 400_000));
    }

    #[test]
    fn every_setter_writes_the_field_that_readers_see() {
        let mut header = PartHeader::empty();
        // SAFETY: the header outlives the value, and is used by it alone meanwhile.
        let page = unsafe { HeaderPage::new(&mut header) };
        page.set_world(3, 7);
        page.set_flags(flags::INITIALIZED);
        page.set_aborted(11);
        page.set_stopped(28);
        page.count_unrecorded();
        page.set_missing(5);
        page.set_panics(6);
        page.set_last_time(100, 200);
        let sync = Sync { ticks: 1, parent_ticks: 2, uncertainty: 3 };
        page.set_sync(1, sync);
        page.set_sync(2, sync);
        page.restart_body(4096);
        page.set_body_bytes(64);
        assert_eq!((page.body_bytes(), page.body_end(), page.thread()), (64, 4160, 0));
        assert_eq!((header.rank, header.size, header.abort_code), (3, 7, 11));
        assert_eq!((header.stop_errno, header.unrecorded), (28, 1));
        assert_eq!((header.missing, header.panics), (5, 6));
        assert_eq!((header.last_ticks, header.last_nanos), (100, 200));
        assert_eq!(header.sync, [Sync::default(), sync]);
        let set = flags::INITIALIZED | flags::ABORTED | flags::STOPPED;
        assert_eq!(header.flags, set);
    }
}
