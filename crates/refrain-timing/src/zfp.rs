//! Times compressed by ZFP (P. Lindstrom, "Fixed-rate compressed floating-point arrays", 2014): an absolute
//! bound, in ticks.
//!
//! ZFP (BSD licence) is loaded when it is first needed, so Refrain builds and runs without it. This
//! module uses the interface of version 1, `libzfp.so.1`.

use crate::bytes::{Reader, put_number};
use crate::foreign::{self, Library, Scale};
use crate::{Bounds, Calls, Mode, Times, TimingError};
use libloading::Library as Loaded;
use std::ffi::{c_double, c_int, c_void};
use std::sync::OnceLock;

/// `zfp_type_double`.
const DOUBLE: c_int = 4;

/// Bytes after the end that ZFP's bit stream, which works in words, may access.
const SLACK: usize = 64;

type Pointer = *mut c_void;

/// The functions of the library, by their names.
struct Functions {
    stream_open: unsafe extern "C" fn(Pointer, usize) -> Pointer,
    stream_close: unsafe extern "C" fn(Pointer),
    zfp_field_1d: unsafe extern "C" fn(Pointer, c_int, usize) -> Pointer,
    zfp_field_free: unsafe extern "C" fn(Pointer),
    zfp_stream_open: unsafe extern "C" fn(Pointer) -> Pointer,
    zfp_stream_close: unsafe extern "C" fn(Pointer),
    zfp_stream_set_accuracy: unsafe extern "C" fn(Pointer, c_double) -> c_double,
    zfp_stream_maximum_size: unsafe extern "C" fn(Pointer, Pointer) -> usize,
    zfp_stream_set_bit_stream: unsafe extern "C" fn(Pointer, Pointer),
    zfp_stream_rewind: unsafe extern "C" fn(Pointer),
    zfp_compress: unsafe extern "C" fn(Pointer, Pointer) -> usize,
    zfp_decompress: unsafe extern "C" fn(Pointer, Pointer) -> usize,
    /// Keeps the library loaded.
    _library: Loaded,
}

impl Functions {
    fn load() -> Option<Functions> {
        // SAFETY: ZFP does nothing when it is loaded.
        let library = unsafe { Loaded::new("libzfp.so.1") }.ok()?;
        macro_rules! get {
            ($name:literal) => {
                // SAFETY: the type is that of the declaration in zfp.h of version 1.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.ok()?
            };
        }
        Some(Functions {
            stream_open: get!("stream_open"),
            stream_close: get!("stream_close"),
            zfp_field_1d: get!("zfp_field_1d"),
            zfp_field_free: get!("zfp_field_free"),
            zfp_stream_open: get!("zfp_stream_open"),
            zfp_stream_close: get!("zfp_stream_close"),
            zfp_stream_set_accuracy: get!("zfp_stream_set_accuracy"),
            zfp_stream_maximum_size: get!("zfp_stream_maximum_size"),
            zfp_stream_set_bit_stream: get!("zfp_stream_set_bit_stream"),
            zfp_stream_rewind: get!("zfp_stream_rewind"),
            zfp_compress: get!("zfp_compress"),
            zfp_decompress: get!("zfp_decompress"),
            _library: library,
        })
    }

    fn get() -> Option<&'static Functions> {
        static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
        FUNCTIONS.get_or_init(Functions::load).as_ref()
    }
}

/// Whether the library can be loaded.
pub(crate) fn is_there() -> bool {
    Functions::get().is_some()
}

/// ZFP with a certain accuracy.
struct Zfp {
    functions: &'static Functions,
    tolerance: f64,
}

impl Zfp {
    fn new(ticks: u64, mode: Mode) -> Result<Zfp, TimingError> {
        let functions = Functions::get().ok_or(TimingError::Unavailable(mode))?;
        // A number that is off by less than half a tick is rounded to the original one.
        Ok(Zfp { functions, tolerance: if ticks == 0 { 0.25 } else { ticks as f64 } })
    }

    /// Calls `work` with `numbers` and a bit stream that begins with `bytes`; returns its result and the
    /// bytes of the bit stream.
    fn run(
        &self,
        numbers: &mut [f64],
        bytes: &[u8],
        work: unsafe extern "C" fn(Pointer, Pointer) -> usize,
    ) -> Option<(usize, Vec<u8>)> {
        let f = self.functions;
        // SAFETY: each object is made by ZFP, checked, used as its manual says, and freed, in this
        // function only; numbers and buffer outlive them. ZFP reads and writes no more of the
        // buffer than its maximum size for these numbers, whatever the bits are: for each block of
        // four numbers no more than a fixed number of bits.
        unsafe {
            let field = (f.zfp_field_1d)(numbers.as_mut_ptr().cast(), DOUBLE, numbers.len());
            let zfp = (f.zfp_stream_open)(std::ptr::null_mut());
            if field.is_null() || zfp.is_null() {
                return None;
            }
            (f.zfp_stream_set_accuracy)(zfp, self.tolerance);
            let most = (f.zfp_stream_maximum_size)(zfp, field);
            let mut buffer = bytes.to_vec();
            buffer.resize(most.max(bytes.len()) + SLACK, 0);
            let bits = (f.stream_open)(buffer.as_mut_ptr().cast(), buffer.len());
            let mut done = 0;
            if !bits.is_null() {
                (f.zfp_stream_set_bit_stream)(zfp, bits);
                (f.zfp_stream_rewind)(zfp);
                done = work(zfp, field);
                (f.stream_close)(bits);
            }
            (f.zfp_stream_close)(zfp);
            (f.zfp_field_free)(field);
            (done > 0).then_some((done, buffer))
        }
    }
}

impl Library for Zfp {
    const NAME: &'static str = "ZFP";

    fn compress(&self, numbers: &mut [f64]) -> Option<Vec<u8>> {
        let (size, mut bytes) = self.run(numbers, &[], self.functions.zfp_compress)?;
        bytes.truncate(size);
        Some(bytes)
    }

    fn decompress(&self, bytes: &[u8], n: usize) -> Option<Vec<f64>> {
        let mut numbers = vec![0.0; n];
        self.run(&mut numbers, bytes, self.functions.zfp_decompress)?;
        Some(numbers)
    }
}

/// Ticks as numbers, with an absolute bound.
struct Ticks(u64);

impl Scale for Ticks {
    fn number(&self, _: usize, time: u64) -> f64 {
        time as f64
    }

    fn time(&self, _: usize, number: f64) -> u64 {
        number.round() as u64
    }

    fn is_within(&self, call: usize, time: u64, number: f64) -> bool {
        self.time(call, number).abs_diff(time) <= self.0
    }
}

fn mode(clustered: bool) -> Mode {
    if clustered { Mode::ZfpClustered } else { Mode::Zfp }
}

/// Appends the times.
pub(crate) fn encode(
    clustered: bool,
    bounds: &Bounds,
    calls: &Calls<'_>,
    out: &mut Vec<u8>,
) -> Result<(), TimingError> {
    let zfp = Zfp::new(bounds.absolute(), mode(clustered))?;
    put_number(out, bounds.absolute());
    let order = foreign::order(calls.terminals, clustered);
    for column in [calls.gaps, calls.durations] {
        foreign::encode(&zfp, &Ticks(bounds.absolute()), &order, column, out)?;
    }
    Ok(())
}

/// Reads the times of these calls.
pub(crate) fn decode(
    clustered: bool,
    terminals: &[u32],
    reader: &mut Reader<'_>,
    times: &mut Times,
) -> Result<(), TimingError> {
    let ticks = reader.number()?;
    let zfp = Zfp::new(ticks, mode(clustered))?;
    let order = foreign::order(terminals, clustered);
    for column in [&mut times.gaps, &mut times.durations] {
        foreign::decode(&zfp, &Ticks(ticks), &order, reader, column)?;
    }
    Ok(())
}
