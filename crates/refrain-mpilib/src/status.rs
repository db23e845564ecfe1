//! Room for an `MPI_Status` of any MPI.

use crate::Abi;
use refrain_mpi::status::{StatusFields, StatusLayout};

/// Room for a status of any MPI, aligned as MPI expects it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct Status([u8; Status::BYTES]);

impl Status {
    /// The most bytes that a status has in any MPI.
    pub const BYTES: usize = 32;

    /// A status of zeros.
    pub const fn new() -> Status {
        Status([0; Status::BYTES])
    }

    /// The address for MPI.
    pub fn address(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The fields of a status that MPI has filled in.
    pub fn fields(&self, layout: &StatusLayout) -> Option<StatusFields> {
        layout.status_fields(&self.0)
    }

    /// Copies another status here, unless that is `MPI_STATUS_IGNORE`.
    ///
    /// # Safety
    /// `other` must be `MPI_STATUS_IGNORE` or the address of a status.
    pub unsafe fn copy_from(&mut self, abi: &Abi, other: *const u8) {
        if other as usize != abi.status_ignore {
            // SAFETY: the caller's promise; no status has more bytes than this one.
            unsafe { self.address().copy_from(other, abi.status_bytes) };
        }
    }

    /// Copies this status to another one, unless that is `MPI_STATUS_IGNORE`.
    ///
    /// # Safety
    /// `other` must be `MPI_STATUS_IGNORE` or the address of a status.
    pub unsafe fn copy_to(&self, abi: &Abi, other: *mut u8) {
        if other as usize != abi.status_ignore {
            // SAFETY: as above.
            unsafe { other.copy_from(self.0.as_ptr(), abi.status_bytes) };
        }
    }
}

impl Default for Status {
    fn default() -> Status {
        Status::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_mpi::abi::{Family, Layout, Source};

    #[test]
    fn a_status_of_every_family_has_room() {
        assert!(Family::ALL.iter().all(|&family| Layout::of(family).status.bytes <= Status::BYTES));
    }

    #[test]
    fn copies_have_the_bytes_of_the_family_and_spare_an_ignored_status() {
        for family in Family::ALL {
            let abi = Abi::of(family, |source| match source {
                Source::Value(value) => value,
                Source::Address(_) | Source::Content(_) => 0,
            });
            let bytes = abi.status_bytes;
            let given = [7u8; Status::BYTES];
            let (mut status, mut copy) = (Status::new(), [0u8; Status::BYTES]);
            // SAFETY: arrays of at least as many bytes as a status; the ignored status is not accessed.
            unsafe {
                status.copy_from(&abi, abi.status_ignore as *const u8);
                assert_eq!(status.0, [0; Status::BYTES]);
                status.copy_from(&abi, given.as_ptr());
                status.copy_to(&abi, copy.as_mut_ptr());
                status.copy_to(&abi, abi.status_ignore as *mut u8);
            }
            assert_eq!(copy[..bytes], given[..bytes], "{family:?}");
            assert_eq!(copy[bytes..], [0; Status::BYTES][bytes..], "{family:?}");
        }
    }
}
