//! Things in the order they came, which may leave from any place.
//!
//! A list whose links are numbers of slots: there may be thousands, and each comes and goes without
//! a search.

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Slot<T> {
    thing: Option<T>,
    /// The slots before and behind this one.
    before: u32,
    behind: u32,
}

/// The list.
#[derive(Clone, Debug)]
pub struct Arrivals<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    oldest: u32,
    latest: u32,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), oldest: NONE, latest: NONE }
    }
}

impl<T> Arrivals<T> {
    /// Something has come. Says in which slot it is.
    #[inline]
    pub fn add(&mut self, thing: T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| self.make_slot());
        let latest = self.latest;
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Slot { thing: Some(thing), before: latest, behind: NONE };
        }
        match self.slots.get_mut(latest as usize) {
            Some(before) => before.behind = slot,
            None => self.oldest = slot,
        }
        self.latest = slot;
        slot
    }

    #[cold]
    fn make_slot(&mut self) -> u32 {
        self.slots.push(Slot { thing: None, before: NONE, behind: NONE });
        self.slots.len() as u32 - 1
    }

    /// Lets two slots follow each other.
    #[inline]
    fn link(&mut self, before: u32, behind: u32) {
        match self.slots.get_mut(before as usize) {
            Some(own) => own.behind = behind,
            None => self.oldest = behind,
        }
        match self.slots.get_mut(behind as usize) {
            Some(own) => own.before = before,
            None => self.latest = before,
        }
    }

    /// What is in a slot.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.thing.as_ref()
    }

    /// Something leaves.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        let Some(own) = self.slots.get_mut(slot as usize) else { return };
        if own.thing.take().is_some() {
            let (before, behind) = (own.before, own.behind);
            self.link(before, behind);
            self.free.push(slot);
        }
    }

    /// Whether nothing is there.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.oldest == NONE
    }

    /// What came first of what is there.
    #[inline]
    pub fn oldest(&self) -> Option<&T> {
        self.get(self.oldest)
    }

    /// What is there, in the order it came, each with its slot.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let (slot, own) = (next, self.slots.get(next as usize)?);
            next = own.behind;
            Some((slot, own.thing.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a plain list does, whatever comes and goes.
        #[test]
        fn things_come_and_go_at_any_place(steps in prop::collection::vec((any::<bool>(), 0usize..8), 0..300)) {
            let (mut list, mut plain) = (Arrivals::default(), Vec::new());
            for (n, (comes, at)) in steps.into_iter().enumerate() {
                if comes || plain.is_empty() {
                    let slot = list.add(n);
                    plain.push((slot, n));
                } else {
                    let (slot, thing) = plain.remove(at % plain.len());
                    prop_assert_eq!(list.get(slot), Some(&thing));
                    list.remove(slot);
                    list.remove(slot);
                    prop_assert_eq!(list.get(slot), None);
                }
                let there: Vec<(u32, usize)> = list.iter().map(|(slot, thing)| (slot, *thing)).collect();
                prop_assert_eq!(&there, &plain);
                prop_assert_eq!(list.is_empty(), plain.is_empty());
                prop_assert_eq!(list.oldest(), plain.first().map(|(_, thing)| thing));
            }
        }
    }
}
