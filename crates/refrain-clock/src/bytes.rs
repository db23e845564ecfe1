//! Columns of numbers as bytes, and gzip around them.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use refrain_order::OrderError;
use refrain_order::varint::{put, take, take_u32, unzigzag, zigzag};

use crate::predict::{Line, errors};

/// Bytes that a chunk may unfold to. Recorders stay far below.
const MOST: u64 = 1 << 26;

/// Appends how many there are, and the errors of their linear prediction.
pub fn put_rising(out: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = u64>) {
    put(out, numbers.len() as u64);
    errors(numbers).for_each(|error| put(out, zigzag(error)));
}

/// Appends a column of rising numbers and one of others.
pub fn put_pairs(out: &mut Vec<u8>, pairs: &[(u64, u64)]) {
    put_rising(out, pairs.iter().map(|(first, _)| *first));
    pairs.iter().for_each(|(_, second)| put(out, *second));
}

/// Bytes to be read.
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// One number.
    pub fn number(&mut self) -> Result<u64, OrderError> {
        take(&mut self.0)
    }

    /// One number of 32 bits.
    pub fn narrow(&mut self, what: &'static str) -> Result<u32, OrderError> {
        take_u32(&mut self.0, what)
    }

    /// One number with a sign.
    pub fn signed(&mut self) -> Result<i64, OrderError> {
        Ok(unzigzag(take(&mut self.0)?))
    }

    /// The length of a list whose items take bytes.
    pub fn length(&mut self) -> Result<u64, OrderError> {
        let length = take(&mut self.0)?;
        if length > self.0.len() as u64 { Err(OrderError::Truncated) } else { Ok(length) }
    }

    /// A list of items that take bytes.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, OrderError>,
    ) -> Result<Vec<T>, OrderError> {
        (0..self.length()?).map(|_| item(self)).collect()
    }

    /// What [`put_rising`] has put.
    pub fn rising(&mut self) -> Result<Vec<u64>, OrderError> {
        let mut line = Line::default();
        self.list(|input| Ok(line.next(input.signed()?)))
    }

    /// What [`put_pairs`] has put.
    pub fn pairs(&mut self) -> Result<Vec<(u64, u64)>, OrderError> {
        let firsts = self.rising()?;
        firsts.into_iter().map(|first| Ok((first, self.number()?))).collect()
    }
}

/// Appends bytes as gzip makes them smaller.
pub fn zip(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut gzip = GzEncoder::new(out, Compression::new(6));
    // Writing to memory does not fail.
    let _ = gzip.write_all(bytes).and_then(|()| gzip.try_finish());
}

/// The reverse of [`zip`].
pub fn unzip(bytes: &[u8]) -> Result<Vec<u8>, OrderError> {
    let mut unzipped = Vec::new();
    let mut limited = GzDecoder::new(bytes).take(MOST + 1);
    limited.read_to_end(&mut unzipped).map_err(|_| OrderError::Damaged)?;
    if unzipped.len() as u64 > MOST { Err(OrderError::OutOfRange("size")) } else { Ok(unzipped) }
}
