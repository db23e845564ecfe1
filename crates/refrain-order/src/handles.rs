//! A map from handles (small numbers or addresses) to values.
//!
//! Programs usually have few requests at a time, and their handles recur. So a handle selects a slot of a small table;
//! only values whose slot is taken are in a hash map.

use refrain_bytes::table;
use refrain_bytes::table::Map;

/// Binary logarithm of the number of slots.
const SLOTS: u32 = 8;

/// Values by handle.
#[derive(Clone, Debug)]
pub struct Handles<T> {
    /// Empty until the first use.
    near: Vec<Option<(usize, T)>>,
    /// How many slots are taken.
    taken: usize,
    far: Map<usize, T>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { near: Vec::new(), taken: 0, far: Map::default() }
    }
}

#[inline]
fn slot(handle: usize) -> usize {
    table::slot::<SLOTS>(handle as u64)
}

impl<T> Handles<T> {
    /// Whether there are no values.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == 0 && self.far.is_empty()
    }

    /// Sets the value of a handle; replaces an earlier one.
    #[inline]
    pub fn add(&mut self, handle: usize, known: T) {
        if self.near.is_empty() {
            self.open();
        }
        match self.near.get_mut(slot(handle)) {
            Some(slot @ None) => {
                *slot = Some((handle, known));
                self.taken += 1;
                if !self.far.is_empty() {
                    self.remove_far(handle);
                }
            }
            Some(Some((other, slot))) if *other == handle => *slot = known,
            _ => self.add_far(handle, known),
        }
    }

    #[cold]
    fn open(&mut self) {
        self.near.resize_with(1 << SLOTS, || None);
    }

    #[inline(never)]
    fn add_far(&mut self, handle: usize, known: T) {
        self.far.insert(handle, known);
    }

    #[inline(never)]
    fn remove_far(&mut self, handle: usize) -> Option<T> {
        self.far.remove(&handle)
    }

    /// The value of a handle.
    #[inline]
    pub fn get(&self, handle: usize) -> Option<&T> {
        match self.near.get(slot(handle)) {
            Some(Some((other, known))) if *other == handle => Some(known),
            _ if self.far.is_empty() => None,
            _ => self.far.get(&handle),
        }
    }

    /// The value of a handle, mutably.
    #[inline]
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        match self.near.get_mut(slot(handle)) {
            Some(Some((other, known))) if *other == handle => Some(known),
            _ if self.far.is_empty() => None,
            _ => self.far.get_mut(&handle),
        }
    }

    /// Removes the value of a handle.
    #[inline]
    pub fn remove(&mut self, handle: usize) -> Option<T> {
        match self.near.get_mut(slot(handle)) {
            Some(slot) if slot.as_ref().is_some_and(|(other, _)| *other == handle) => {
                self.taken -= 1;
                slot.take().map(|(_, known)| known)
            }
            _ if self.far.is_empty() => None,
            _ => self.remove_far(handle),
        }
    }

    /// All values with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let near = self.near.iter().flatten().map(|(handle, known)| (*handle, known));
        near.chain(self.far.iter().map(|(handle, known)| (*handle, known)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn few_and_many_handles_behave_like_an_ordered_map(
            most in prop_oneof![Just(8usize), Just(3000)],
            steps in prop::collection::vec((0u8..4, any::<usize>(), any::<u16>()), 0..2000)) {
            let (mut handles, mut plain) = (Handles::default(), BTreeMap::new());
            for (what, handle, known) in steps {
                let handle = 0x2c00_0000 + handle % most;
                match what {
                    0 => prop_assert_eq!(handles.remove(handle), plain.remove(&handle)),
                    1 => {
                        prop_assert_eq!(handles.get(handle), plain.get(&handle));
                        prop_assert_eq!(handles.get_mut(handle), plain.get_mut(&handle));
                    }
                    _ => {
                        handles.add(handle, known);
                        plain.insert(handle, known);
                    }
                }
                prop_assert_eq!(handles.is_empty(), plain.is_empty());
            }
            let all: BTreeMap<usize, u16> = handles.iter().map(|(h, k)| (h, *k)).collect();
            prop_assert_eq!(handles.iter().count(), plain.len());
            prop_assert_eq!(all, plain);
        }
    }
}
