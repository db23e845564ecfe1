//! How processes of a replay find out that nothing earlier can come.
//!
//! A receive waits until everything that could be before its message in the reference order has
//! come. Senders that say nothing for a while would hold it up for ever, so they are asked: *can
//! anything still come from you that is stamped no later than this?* These are null messages as in
//! conservative simulation (Chandy and Misra 1979), sent on demand.
//!
//! Whoever has a later clock says *no* at once. Whoever waits for a message itself passes the
//! question on to those it waits for: if nothing that early comes to it, nothing that early will
//! come from it. Processes that wait for each other so pass the question around; one that
//! is asked a second time agrees to what it will find. When all have agreed, it is so: the
//! earliest message that would break the agreement would have to be sent by one of them, because
//! of an earlier one. Whoever is busy, or may go on with something earlier, answers later. If
//! somebody who has not answered yet goes on because of what came, the question is void, and is
//! asked again.
//!
//! This takes a message or two between each pair that matters, whatever the clocks say; to raise
//! promises step by step would take as many rounds as clocks are apart.
//!
//! Answers must not overtake messages: notes from one process to another come in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::clock::Note;

/// What a process can say of its next message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockBound {
    /// It is stamped at least so late.
    Sure(u64),
    /// It is stamped later than what was asked for, if nothing that early comes from these.
    If(Vec<u32>),
    /// Nothing yet.
    Busy,
}

/// Notes to and from others.
#[derive(Debug)]
pub struct Talk {
    me: u32,
    serial: u64,
    /// What we want to know.
    question: Option<Question>,
    /// What others want to know, by who began it.
    engaged: BTreeMap<u32, Engagement>,
    /// Questions not answered yet: from whom, of whom, its serial and clock.
    deferred: Vec<Asked>,
    out: VecDeque<(u32, Note)>,
}

#[derive(Debug)]
struct Question {
    clock: u64,
    /// Whether others were told that we agree, or we rely on it ourselves.
    agreed: bool,
    asked: Vec<u32>,
    waiting: BTreeSet<u32>,
}

#[derive(Debug)]
struct Engagement {
    serial: u64,
    clock: u64,
    /// Who asked first, as long as it has no answer.
    asker: Option<u32>,
    waiting: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    from: u32,
    origin: u32,
    serial: u64,
    clock: u64,
}

impl Talk {
    /// Nobody has asked anything.
    pub fn new(me: u32) -> Self {
        let (question, out) = (None, VecDeque::new());
        Self { me, serial: 0, question, engaged: BTreeMap::new(), deferred: Vec::new(), out }
    }

    /// A note that is to be sent.
    pub fn say(&mut self) -> Option<(u32, Note)> {
        self.out.pop_front()
    }

    /// Something else is to be sent, in line with the rest.
    pub fn tell(&mut self, to: u32, note: Note) {
        self.out.push_back((to, note));
    }

    /// Whether anybody wants to know anything.
    pub fn is_quiet(&self) -> bool {
        self.question.is_none() && self.engaged.is_empty() && self.deferred.is_empty()
    }

    /// The clock we have a question about.
    pub fn asking(&self) -> Option<u64> {
        self.question.as_ref().map(|question| question.clock)
    }

    /// Asks these whether anything can come that is stamped no later than that. If it could come
    /// from this process too, that is `own`, and has agreed.
    pub fn ask(&mut self, clock: u64, asked: Vec<u32>, own: bool) {
        self.serial += 1;
        let (origin, serial) = (self.me, self.serial);
        for to in &asked {
            self.out.push_back((*to, Note::Ask { origin, serial, clock }));
        }
        let waiting = asked.iter().copied().collect();
        self.question = Some(Question { clock, agreed: own, asked, waiting });
    }

    /// There is nothing to ask any more.
    pub fn drop_question(&mut self) {
        self.question = None;
    }

    /// Somebody asks.
    pub fn asked(
        &mut self,
        from: u32,
        origin: u32,
        serial: u64,
        clock: u64,
        clock_bound: impl Fn(u64) -> ClockBound,
    ) {
        let asked = Asked { from, origin, serial, clock };
        self.deferred.retain(|one| one.origin != origin || one.serial >= serial);
        self.consider(asked, &clock_bound);
    }

    fn answer(&mut self, to: u32, origin: u32, serial: u64, clock: u64, sure: bool) {
        self.out.push_back((to, Note::Nothing { origin, serial, clock, sure }));
    }

    fn consider(&mut self, asked: Asked, clock_bound: &impl Fn(u64) -> ClockBound) {
        let Asked { from, origin, serial, clock } = asked;
        let engaged = self.engaged.get(&origin).map(|one| one.serial);
        if engaged.is_some_and(|own| own > serial) || (origin == self.me && serial != self.serial) {
            // Nobody waits for the answer any more.
            return;
        }
        match clock_bound(clock) {
            ClockBound::Sure(bound) => self.answer(from, origin, serial, bound, true),
            ClockBound::Busy => self.deferred.push(asked),
            ClockBound::If(_) if origin == self.me => {
                if let Some(question) = &mut self.question {
                    question.agreed = true;
                    self.answer(from, origin, serial, clock.saturating_add(1), false);
                }
            }
            ClockBound::If(_) if engaged == Some(serial) => {
                self.answer(from, origin, serial, clock.saturating_add(1), false);
            }
            ClockBound::If(laggards) if laggards.is_empty() => {
                self.answer(from, origin, serial, clock.saturating_add(1), true);
            }
            ClockBound::If(laggards) => {
                for to in &laggards {
                    self.out.push_back((*to, Note::Ask { origin, serial, clock }));
                }
                let waiting = laggards.into_iter().collect();
                let engagement = Engagement { serial, clock, asker: Some(from), waiting };
                self.engaged.insert(origin, engagement);
            }
        }
    }

    /// Somebody has answered: if that was the last answer to our own question, what it was, and
    /// who was asked.
    pub fn answered(&mut self, from: u32, origin: u32, serial: u64) -> Option<(u64, Vec<u32>)> {
        if origin == self.me {
            let question = self.question.as_mut().filter(|_| serial == self.serial)?;
            question.waiting.remove(&from);
            if !question.waiting.is_empty() {
                return None;
            }
            return self.question.take().map(|question| (question.clock, question.asked));
        }
        if let Some(engaged) = self.engaged.get_mut(&origin)
            && engaged.serial == serial
        {
            engaged.waiting.remove(&from);
        }
        None
    }

    /// Somebody could not answer.
    pub fn again(&mut self, origin: u32, serial: u64) {
        if origin == self.me {
            if serial == self.serial {
                self.question = None;
            }
        } else if self.engaged.get(&origin).is_some_and(|one| one.serial == serial)
            && let Some(Engagement { asker: Some(asker), .. }) = self.engaged.remove(&origin)
        {
            self.out.push_back((asker, Note::Again { origin, serial }));
        }
    }

    /// Something has changed: looks at all questions again.
    pub fn stir(&mut self, clock_bound: impl Fn(u64) -> ClockBound) {
        for asked in std::mem::take(&mut self.deferred) {
            self.consider(asked, &clock_bound);
        }
        if let Some(question) = &self.question
            && question.agreed
            && clock_bound(question.clock) == ClockBound::Busy
        {
            // Whoever was told that we agree must not rely on it.
            self.question = None;
            self.serial += 1;
        }
        let origins: Vec<u32> = self.engaged.keys().copied().collect();
        for origin in origins {
            let Some(engaged) = self.engaged.get_mut(&origin) else { continue };
            let (serial, clock) = (engaged.serial, engaged.clock);
            let (answer, over) = match clock_bound(clock) {
                ClockBound::Busy => (Some(Note::Again { origin, serial }), true),
                ClockBound::Sure(bound) => {
                    (Some(Note::Nothing { origin, serial, clock: bound, sure: true }), true)
                }
                ClockBound::If(laggards) => {
                    engaged.waiting.retain(|one| laggards.contains(one));
                    let all = engaged.waiting.is_empty();
                    let nothing = Note::Nothing {
                        origin,
                        serial,
                        clock: clock.saturating_add(1),
                        sure: false,
                    };
                    (all.then_some(nothing), false)
                }
            };
            if let Some(note) = answer
                && let Some(asker) = engaged.asker.take()
            {
                self.out.push_back((asker, note));
            }
            if over {
                self.engaged.remove(&origin);
            }
        }
    }
}
