//! Arrays of requests whose requests complete one by one.
//!
//! A program that calls `MPI_Waitany` on eight requests passes the same array eight times, with one
//! more null handle each time. The positions of the nulls depend on the order in which messages
//! arrived. A signature therefore contains, for a null handle, the request that was last at that
//! index: the array is the same in all eight calls. The decoder follows the life of each request
//! and so knows which of them are null.

use crate::objects::{Objects, Ref};
use refrain_signature::cells::{Cells, put_list, put_unsigned};

/// How many arrays a thread remembers.
const ARRAYS: usize = 16;

/// Longer arrays are not remembered.
const LONGEST: usize = 1 << 16;

/// The arrays of requests that a thread passed recently.
#[derive(Debug, Default)]
pub struct Slots {
    arrays: Vec<Vec<Ref>>,
    oldest: usize,
}

impl Slots {
    /// Writes them.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.arrays.iter(), |out, array| {
            put_list(out, array.iter(), |out, re| re.put(out));
        });
        put_unsigned(out, self.oldest as u64);
    }

    /// Reads them.
    pub fn get(cells: &mut Cells<'_>) -> Option<Slots> {
        let mut arrays = cells.get_list(|cells| cells.get_list(Ref::get))?;
        arrays.truncate(ARRAYS);
        Some(Slots { arrays, oldest: cells.get_u32()? as usize })
    }

    /// Replaces each null request by the request that was last at its index, if that request has
    /// completed.
    pub fn fill(&mut self, requests: &mut [Ref], objects: &Objects, thread: u32) {
        if requests.len() > LONGEST || requests.is_empty() {
            return;
        }
        let fits = |array: &Vec<Ref>| Self::fit(array, requests, objects, thread);
        let best = self.arrays.iter().enumerate().filter_map(|(i, a)| fits(a).map(|fit| (fit, i)));
        let best = best.max_by_key(|(fit, _)| *fit).map(|(_, i)| i);
        let Some(best) = best else { return self.remember(requests) };
        for (request, last) in
            requests.iter_mut().zip(self.arrays.get_mut(best).into_iter().flatten())
        {
            match objects.is_null(*request) {
                true => *request = *last,
                false => *last = *request,
            }
        }
    }

    /// Remembers an array whose requests are all in flight.
    #[inline]
    pub fn note(
        &mut self,
        requests: impl ExactSizeIterator<Item = Ref> + Clone,
        objects: &Objects,
        thread: u32,
    ) {
        let is = |array: &Vec<Ref>| {
            array.len() == requests.len() && array.iter().copied().eq(requests.clone())
        };
        if !self.arrays.iter().any(is) {
            let mut all: Vec<Ref> = requests.collect();
            self.fill(&mut all, objects, thread);
        }
    }

    fn remember(&mut self, requests: &[Ref]) {
        if self.arrays.len() < ARRAYS {
            self.arrays.push(requests.to_vec());
        } else {
            if let Some(array) = self.arrays.get_mut(self.oldest % ARRAYS) {
                *array = requests.to_vec();
            }
            self.oldest += 1;
        }
    }

    /// The number of equal elements; `None` if `requests` cannot be a later state of `array`.
    fn fit(array: &[Ref], requests: &[Ref], objects: &Objects, thread: u32) -> Option<usize> {
        if array.len() != requests.len() {
            return None;
        }
        let mut same = 0;
        for (last, request) in array.iter().zip(requests) {
            if last == request {
                same += 1;
            } else if objects.seems_live(*last, thread) {
                return None;
            }
        }
        Some(same)
    }
}
