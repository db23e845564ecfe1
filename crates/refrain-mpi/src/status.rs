//! `MPI_Status`: three public fields, and an opaque part that every library fills in its own way.

/// `MPI_Status`: its size, the offsets of its three public fields, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLayout {
    /// Size of the structure.
    pub bytes: usize,
    /// Offset of `MPI_SOURCE`.
    pub source: usize,
    /// Offset of `MPI_TAG`.
    pub tag: usize,
    /// Offset of `MPI_ERROR`.
    pub error: usize,
    /// How the opaque part holds the count and the cancelled flag.
    pub count: CountEncoding,
}

/// How the opaque part of a status holds the number of bytes and the cancelled flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountEncoding {
    /// MPICH's: the low 32 bits of the count in one `int`; in another the high 31 bits,
    /// above the cancelled flag in the lowest bit.
    Split {
        /// Offset of the first `int`.
        low: usize,
        /// Offset of the second.
        high: usize,
    },
    /// Open MPI's: the flag as an `int`, the count as a `size_t`.
    Plain {
        /// Offset of the flag.
        cancelled: usize,
        /// Offset of the count.
        count: usize,
    },
    /// Unknown: `MPI_Get_elements_x` has to be called for counts.
    Unknown,
}

/// The contents of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusFields {
    /// `MPI_SOURCE`.
    pub source: i32,
    /// `MPI_TAG`.
    pub tag: i32,
    /// `MPI_ERROR`: only calls with several statuses set it.
    pub error: i32,
    /// Bytes received; `None` where that is undefined or cannot be read.
    pub count_bytes: Option<i64>,
    /// The result of `MPI_Test_cancelled`.
    pub cancelled: bool,
}

impl StatusLayout {
    /// Reads a status; `None` if `status` is shorter than one.
    ///
    /// Fields are meaningful only if MPI set them. MPICH does not change the status of a completed send,
    /// and gives a cancelled receive a stale source and tag.
    pub fn status_fields(&self, status: &[u8]) -> Option<StatusFields> {
        let status = status.get(..self.bytes)?;
        let (count, cancelled) = self.count.read(status).unwrap_or((None, false));
        Some(StatusFields {
            source: read_int(status, self.source)?,
            tag: read_int(status, self.tag)?,
            error: read_int(status, self.error)?,
            count_bytes: count,
            cancelled,
        })
    }

    /// The source and the tag alone; `None` if `status` is shorter than one.
    #[inline]
    pub fn envelope(&self, status: &[u8]) -> Option<(i32, i32)> {
        Some((read_int(status, self.source)?, read_int(status, self.tag)?))
    }

    /// Writes a status as MPI would have; false, with nothing written, if `status` is shorter
    /// than one. A count of `None` is written as 0.
    pub fn write(&self, status: &mut [u8], fields: &StatusFields) -> bool {
        let Some(status) = status.get_mut(..self.bytes) else {
            return false;
        };
        write_int(status, self.source, fields.source);
        write_int(status, self.tag, fields.tag);
        write_int(status, self.error, fields.error);
        let count = fields.count_bytes.unwrap_or(0).max(0) as u64;
        match self.count {
            CountEncoding::Split { low, high } => {
                write_int(status, low, count as u32 as i32);
                let high_half = (count >> 32 << 1) as u32 | u32::from(fields.cancelled);
                write_int(status, high, high_half as i32);
            }
            CountEncoding::Plain { cancelled, count: at } => {
                write_int(status, cancelled, fields.cancelled.into());
                if let Some(room) = status.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                    *room = count.to_ne_bytes();
                }
            }
            CountEncoding::Unknown => {}
        }
        true
    }
}

impl CountEncoding {
    /// A count for [`CountEncoding::recognise`] that differs in all encodings.
    pub const SAMPLE: i64 = 0x1_2a05_f27b;

    /// The encodings that libraries with the standard ABI are known to use: MPICH's and
    /// Intel's, Open MPI's.
    const OF_STANDARD_ABI: [CountEncoding; 2] = [
        CountEncoding::Split { low: 12, high: 16 },
        CountEncoding::Plain { cancelled: 12, count: 16 },
    ];

    /// Finds out how a library with the standard ABI fills the opaque part, from a status that
    /// was zero before `MPI_Status_set_elements_x` set [`CountEncoding::SAMPLE`] elements of
    /// `MPI_BYTE` and `MPI_Status_set_cancelled` set the flag.
    pub fn recognise(sample: &[u8]) -> CountEncoding {
        Self::OF_STANDARD_ABI
            .into_iter()
            .find(|encoding| encoding.read(sample) == Some((Some(Self::SAMPLE), true)))
            .unwrap_or(CountEncoding::Unknown)
    }

    /// Count and cancelled flag; `None` where they cannot be read.
    fn read(self, status: &[u8]) -> Option<(Option<i64>, bool)> {
        match self {
            CountEncoding::Split { low, high } => {
                let low = read_int(status, low)? as u32;
                let high = read_int(status, high)?;
                // 63 bits, of which the uppermost is the sign.
                let count = i64::from(high >> 1) << 32 | i64::from(low);
                Some(((count >= 0).then_some(count), high & 1 != 0))
            }
            CountEncoding::Plain { cancelled, count } => {
                let count = i64::from_ne_bytes(*status.get(count..)?.first_chunk()?);
                Some(((count >= 0).then_some(count), read_int(status, cancelled)? != 0))
            }
            CountEncoding::Unknown => None,
        }
    }
}

fn read_int(status: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(*status.get(at..)?.first_chunk()?))
}

fn write_int(status: &mut [u8], at: usize, value: i32) {
    if let Some(room) = status.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *room = value.to_ne_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Family, Layout};

    #[test]
    fn a_status_is_read_as_it_was_written_in_every_family() {
        for family in Family::ALL {
            let layout = Layout::of(family).status;
            for count in [0, 1, 123, i64::from(u32::MAX), CountEncoding::SAMPLE, i64::MAX >> 1] {
                for cancelled in [false, true] {
                    let fields = StatusFields {
                        source: -2,
                        tag: 7,
                        error: 15,
                        count_bytes: Some(count),
                        cancelled,
                    };
                    let mut status = [0xee; 32];
                    assert!(layout.write(&mut status, &fields));
                    assert_eq!(layout.status_fields(&status), Some(fields), "{family:?}");
                    assert_eq!(layout.envelope(&status), Some((fields.source, fields.tag)));
                }
            }
        }
    }

    #[test]
    fn a_status_that_is_too_short_is_refused() {
        for family in Family::ALL {
            let layout = Layout::of(family).status;
            let mut short = vec![0; layout.bytes - 1];
            assert_eq!(layout.status_fields(&short), None);
            let empty =
                StatusFields { source: 0, tag: 0, error: 0, count_bytes: None, cancelled: false };
            assert!(!layout.write(&mut short, &empty));
        }
    }

    #[test]
    fn each_library_with_the_standard_abi_is_recognised_by_its_status() {
        let mut mpich = [0_u8; 32];
        mpich[12..16].copy_from_slice(&0x2a05_f27b_u32.to_ne_bytes());
        mpich[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(CountEncoding::recognise(&mpich), CountEncoding::Split { low: 12, high: 16 });

        let mut open_mpi = [0_u8; 32];
        open_mpi[12..16].copy_from_slice(&1_u32.to_ne_bytes());
        open_mpi[16..24].copy_from_slice(&CountEncoding::SAMPLE.to_ne_bytes());
        let plain = CountEncoding::Plain { cancelled: 12, count: 16 };
        assert_eq!(CountEncoding::recognise(&open_mpi), plain);

        assert_eq!(CountEncoding::recognise(&[0; 32]), CountEncoding::Unknown);
        assert_eq!(CountEncoding::recognise(&[]), CountEncoding::Unknown);
    }

    #[test]
    fn an_undefined_count_is_no_count() {
        let layout = Layout::of(Family::OpenMpi).status;
        assert_eq!(layout.status_fields(&[0xff; 24]).map(|f| f.count_bytes), Some(None));
    }
}
