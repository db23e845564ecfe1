//! Columns of numbers as bytes, compressed by DEFLATE (as gzip does).
//!
//! Similar numbers stand together: each long column is a block of the compressed stream, with its own Huffman code.

use std::io::{Read, Write};

use crate::OrderError;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use refrain_bytes::varint::{put, take, take_byte, take_signed, take_slice, take_u32, zigzag};

use crate::clock::predict::{Line, errors};

/// The most bytes that a frame may decompress to. Recorders stay far below.
const MOST: u64 = 1 << 26;
/// A column of at least this length gets its own Huffman code, whose description takes some fifty bytes.
const LONG: usize = 256;

/// The columns of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Lengths, and everything that is rare.
    Shape,
    /// Observed positions of moved messages.
    Put,
    /// Their positions in the reference order.
    Taken,
    /// Which taken message is put: the lowest eight bits.
    Which,
    /// Which taken message is put: the other bits.
    WhichHigh,
    /// Rows received with the next.
    WithNext,
    /// Rows before which polls failed.
    Unmatched,
    /// The number of failed polls.
    Polls,
    /// Rows with a claim.
    Claimed,
    /// Their claims.
    Claims,
    /// Rows that are no messages, and their codes.
    Others,
    /// Epoch lines: senders.
    Senders,
    /// Epoch lines: clocks.
    Clocks,
}

/// The number of columns.
const COLUMNS: usize = Column::Clocks as usize + 1;

/// Columns being written.
#[derive(Clone, Debug, Default)]
pub struct Columns([Vec<u8>; COLUMNS]);

/// Whether a set is written as a bitmap.
fn is_dense(size: u64, end: u64) -> bool {
    size.saturating_mul(8) > end
}

impl Columns {
    /// The bytes of a column.
    #[expect(clippy::indexing_slicing, reason = "there is one for every column")]
    pub fn of(&mut self, column: Column) -> &mut Vec<u8> {
        &mut self.0[column as usize]
    }

    /// Appends a number to a column.
    pub fn put(&mut self, column: Column, number: u64) {
        put(self.of(column), number);
    }

    /// Appends the errors of a linear prediction. Their number goes to the shape.
    pub fn put_rising(&mut self, column: Column, numbers: impl ExactSizeIterator<Item = u64>) {
        self.put(Column::Shape, numbers.len() as u64);
        errors(numbers).for_each(|error| self.put(column, zigzag(error)));
    }

    /// Appends a set of rising numbers below an end. The reader must know how many there are.
    pub fn put_set(&mut self, column: Column, set: &[u64], end: u64) {
        if !is_dense(set.len() as u64, end) {
            errors(set.iter().copied()).for_each(|error| self.put(column, zigzag(error)));
            return;
        }
        let start = self.of(column).len();
        self.of(column).resize(start + end.div_ceil(8) as usize, 0);
        for number in set {
            if let Some(byte) = self.of(column).get_mut(start + (number / 8) as usize) {
                *byte |= 1 << (number % 8);
            }
        }
    }

    /// Appends all columns, compressed.
    pub fn zip(&self, out: &mut Vec<u8>) {
        let mut deflate = DeflateEncoder::new(out, Compression::new(6));
        let mut lengths = Vec::new();
        self.0.iter().for_each(|column| put(&mut lengths, column.len() as u64));
        let mut pending = lengths.len();
        // Writing to memory cannot fail.
        let _ = deflate.write_all(&lengths);
        for column in &self.0 {
            if pending.max(column.len()) >= LONG && pending > 0 && !column.is_empty() {
                // Ends a block, so that the next column gets its own Huffman code.
                let _ = deflate.flush();
                pending = 0;
            }
            let _ = deflate.write_all(column);
            pending += column.len();
        }
        let _ = deflate.try_finish();
    }
}

/// Decompresses what [`Columns::zip`] wrote.
pub fn unzip(bytes: &[u8]) -> Result<Vec<u8>, OrderError> {
    let mut unzipped = Vec::new();
    let mut limited = DeflateDecoder::new(bytes).take(MOST + 1);
    limited.read_to_end(&mut unzipped).map_err(|_| OrderError::Damaged)?;
    if unzipped.len() as u64 > MOST { Err(OrderError::OutOfRange("size")) } else { Ok(unzipped) }
}

/// Reads columns.
#[derive(Debug)]
pub struct Inputs<'a>([Input<'a>; COLUMNS]);

impl<'a> Inputs<'a> {
    /// From what [`unzip`] returned.
    pub fn of(mut bytes: &'a [u8]) -> Result<Self, OrderError> {
        let mut lengths = [0; COLUMNS];
        for length in &mut lengths {
            *length = take(&mut bytes)?;
        }
        let mut columns = [const { Input(&[]) }; COLUMNS];
        for (column, length) in columns.iter_mut().zip(lengths) {
            column.0 = take_slice(&mut bytes, length)?;
        }
        if bytes.is_empty() { Ok(Self(columns)) } else { Err(OrderError::OutOfRange("size")) }
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|column| column.0.is_empty())
    }

    /// A column.
    #[expect(clippy::indexing_slicing, reason = "there is one for every column")]
    pub fn of_column(&mut self, column: Column) -> &mut Input<'a> {
        &mut self.0[column as usize]
    }

    /// The shape.
    pub fn shape(&mut self) -> &mut Input<'a> {
        self.of_column(Column::Shape)
    }

    /// Reads the number of items of a column from the shape; every item takes at least one byte.
    pub fn length(&mut self, column: Column) -> Result<u64, OrderError> {
        let length = self.shape().number()?;
        let bytes = self.of_column(column).0.len() as u64;
        if length > bytes { Err(OrderError::Truncated) } else { Ok(length) }
    }

    /// Reads what [`Columns::put_rising`] wrote.
    pub fn rising(&mut self, column: Column) -> Result<Vec<u64>, OrderError> {
        let length = self.length(column)?;
        self.of_column(column).predicted(length)
    }

    /// Reads what [`Columns::put_set`] wrote: `size` numbers below an end.
    pub fn set(&mut self, column: Column, size: u64, end: u64) -> Result<Vec<u64>, OrderError> {
        let input = self.of_column(column);
        if !is_dense(size, end) {
            let set = input.predicted(size)?;
            let rises = set.is_sorted_by(|one, next| one < next);
            let fits = rises && set.last().is_none_or(|last| *last < end);
            return if fits { Ok(set) } else { Err(OrderError::OutOfRange("set")) };
        }
        let bits = take_slice(&mut input.0, end.div_ceil(8))?;
        let byte = |number: &u64| bits.get((number / 8) as usize).copied().unwrap_or(0);
        let has = |number: &u64| byte(number) >> (number % 8) & 1 == 1;
        let set: Vec<u64> = (0..8 * bits.len() as u64).filter(has).collect();
        let fits = set.len() as u64 == size && set.last().is_none_or(|last| *last < end);
        if fits { Ok(set) } else { Err(OrderError::OutOfRange("set")) }
    }
}

/// Bytes to be read.
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// One byte.
    pub fn byte(&mut self) -> Result<u8, OrderError> {
        Ok(take_byte(&mut self.0)?)
    }

    /// One number.
    pub fn number(&mut self) -> Result<u64, OrderError> {
        Ok(take(&mut self.0)?)
    }

    /// One number of 32 bits.
    pub fn narrow(&mut self, what: &'static str) -> Result<u32, OrderError> {
        Ok(take_u32(&mut self.0, what)?)
    }

    /// One number with a sign.
    pub fn signed(&mut self) -> Result<i64, OrderError> {
        Ok(take_signed(&mut self.0)?)
    }

    /// A length, and that many items; every item takes at least one byte.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, OrderError>,
    ) -> Result<Vec<T>, OrderError> {
        let length = take(&mut self.0)?;
        if length > self.0.len() as u64 {
            return Err(OrderError::Truncated);
        }
        (0..length).map(|_| item(self)).collect()
    }

    /// Numbers from the errors of their linear prediction.
    pub fn predicted(&mut self, length: u64) -> Result<Vec<u64>, OrderError> {
        if length > self.0.len() as u64 {
            return Err(OrderError::Truncated);
        }
        let mut line = Line::default();
        (0..length).map(|_| Ok(line.next(self.signed()?))).collect()
    }
}
