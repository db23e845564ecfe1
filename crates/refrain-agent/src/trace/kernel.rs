//! Asks the kernel which mapping an address lies in.
//!
//! Mappings that the program makes are known ([`crate::trace::mappings`]) unless something bypasses the
//! interposed `mmap`: UCX, below many MPIs, overwrites its first instructions. So the kernel may be
//! asked about every window of a program that has thousands, and the answer must not take longer the
//! more mappings there are. Linux can be asked about one address since 6.11 (`PROCMAP_QUERY`). Older
//! ones have only the list of all mappings, which is read up to the one that is wanted.

use std::ffi::{c_int, c_ulong};
use std::ops::Range;

/// The file with all mappings.
const MAPS: &std::ffi::CStr = c"/proc/self/maps";

/// `struct procmap_query` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    /// Flags, page size, offset, inode, device, lengths and addresses of name and build id: not asked.
    others: [u64; 8],
}

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const QUERY: c_ulong =
    3 << 30 | (size_of::<Query>() as c_ulong) << 16 | (b'f' as c_ulong) << 8 | 17;

/// The mapping around an address.
pub fn mapping_around(address: usize) -> Option<Range<usize>> {
    let file = Maps::open()?;
    match file.query(address) {
        Some(found) => found,
        None => file.search(address),
    }
}

/// The open list of mappings.
struct Maps(c_int);

impl Maps {
    fn open() -> Option<Maps> {
        // SAFETY: a NUL-terminated path.
        let file = unsafe { libc::open(MAPS.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        (file >= 0).then_some(Maps(file))
    }

    /// Asks about one address; `None` if this kernel does not support the query.
    fn query(&self, address: usize) -> Option<Option<Range<usize>>> {
        let mut query =
            Query { size: size_of::<Query>() as u64, address: address as u64, ..Query::default() };
        // SAFETY: the request fills in the structure, whose size is passed.
        let failed = unsafe { libc::ioctl(self.0, QUERY as _, &raw mut query) } != 0;
        // SAFETY: errno is this thread's own.
        let errno = unsafe { *libc::__errno_location() };
        match failed {
            false => Some(Some(query.start as usize..query.end as usize)),
            true => (errno == libc::ENOENT).then_some(None),
        }
    }

    /// Reads the list, which is in the order of addresses, up to the address.
    fn search(&self, address: usize) -> Option<Range<usize>> {
        let mut search = Search { address, line: Line::default() };
        let mut bytes = [0u8; 4096];
        loop {
            // SAFETY: room for as many bytes.
            let n = unsafe { libc::read(self.0, bytes.as_mut_ptr().cast(), bytes.len()) };
            let read = bytes.get(..usize::try_from(n).ok()?).filter(|read| !read.is_empty())?;
            if let Some(found) = search.feed(read) {
                return found;
            }
        }
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        // SAFETY: opened in `open`, closed once.
        unsafe { libc::close(self.0) };
    }
}

/// The range at the beginning of a line: `7f0012340000-7f0012342000 rw-p …`.
#[derive(Default)]
struct Line {
    start: usize,
    end: usize,
    field: Field,
}

#[derive(Default, PartialEq, Eq)]
enum Field {
    #[default]
    Start,
    End,
    Rest,
}

/// A search through the list as it is read, in pieces of any size.
struct Search {
    address: usize,
    line: Line,
}

impl Search {
    /// The result, once it is known.
    fn feed(&mut self, bytes: &[u8]) -> Option<Option<Range<usize>>> {
        for byte in bytes {
            let line = &mut self.line;
            match (byte, &line.field) {
                (b'\n', _) => *line = Line::default(),
                (_, Field::Rest) => {}
                (b'-', Field::Start) => line.field = Field::End,
                (b' ', _) => {
                    if line.start > self.address {
                        return Some(None);
                    }
                    if self.address < line.end {
                        return Some(Some(line.start..line.end));
                    }
                    line.field = Field::Rest;
                }
                (digit, field) => {
                    let digit = char::from(*digit).to_digit(16)? as usize;
                    let number =
                        if *field == Field::Start { &mut line.start } else { &mut line.end };
                    *number = *number << 4 | digit;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = b"1000-3000 r--p 00000000 fe:00 1-2 /bin/a b\n\
        3000-4000 rw-p 00000000 00:00 0\n\
        7f00aa001000-7f00aa003000 rw-s 00000000 00:01 9 /dev/shm/x-y\n";

    fn found(address: usize, piece: usize) -> Option<Range<usize>> {
        let mut search = Search { address, line: Line::default() };
        LIST.chunks(piece).find_map(|bytes| search.feed(bytes)).flatten()
    }

    #[test]
    fn the_list_is_searched_in_pieces_of_any_size() {
        for piece in 1..LIST.len() {
            assert_eq!(found(0x2fff, piece), Some(0x1000..0x3000));
            assert_eq!(found(0x3000, piece), Some(0x3000..0x4000));
            assert_eq!(found(0x7f00_aa00_1000, piece), Some(0x7f00_aa00_1000..0x7f00_aa00_3000));
            assert_eq!(found(0x800, piece), None);
            assert_eq!(found(0x5000, piece), None);
            assert_eq!(found(0x7f00_aa00_3000, piece), None);
        }
    }

    #[test]
    fn both_ways_to_ask_give_the_same_answer() {
        let local = 0u8;
        let here = the_list_is_searched_in_pieces_of_any_size as *const () as usize;
        for address in [&raw const local as usize, here, LIST.as_ptr() as usize] {
            let search = |a| Maps::open().and_then(|maps| maps.search(a)).expect("a mapping");
            let around = search(address);
            assert!(around.contains(&address));
            let found = mapping_around(address).expect("a mapping");
            // The stack may have grown meanwhile.
            assert_eq!(found.end, around.end);
            assert!(found.contains(&address));
        }
        assert_eq!(mapping_around(0x10), None);
    }
}
