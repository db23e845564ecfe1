//! The interface of recorders of both methods.
//!
//! [`Recording`] is implemented by the recorders of both methods, so that the same events can be fed to
//! either and their sizes compared. Replays have no such trait, because the methods differ in principle:
//! the causal [`Replayer`](crate::Replayer) knows what a receive will get when it is posted, and lets MPI
//! receive it; the clock method's learns that only when messages arrive, so its agent holds receives back
//! and delivers the messages itself.

use crate::causal::record::Recorder;
use crate::vocabulary::{Call, Completed, Finished, Kind, MatchResult, Post, Stamp, Ticket};

/// Records one rank's receive order. [`Recorder`] documents each function in detail.
pub trait Recording {
    /// An operation was posted.
    fn post(&mut self, stream: u32, post: &Post) -> Ticket;
    /// The match result of an operation is known.
    fn resolve(&mut self, ticket: Ticket, match_result: MatchResult);
    /// A poll failed.
    fn failed(&mut self, stream: u32, kind: Kind, site: u64);
    /// A completing call succeeded.
    fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>);
    /// A clock was read or a random number drawn.
    fn value(&mut self, stream: u32, which: u8, bits: u64);
    /// A thread took its turn.
    fn turn(&mut self, stream: u32, key: u64);
    /// Whether it is time to seal.
    fn is_full(&self, stream: u32) -> bool;
    /// Appends everything known so far.
    fn seal(&mut self, out: &mut Vec<u8>);
    /// Appends what is left.
    fn finish(self, out: &mut Vec<u8>);

    /// A completing call succeeded, with all facts at once. `tickets` are those of its requests (`None` for inactive
    /// ones), `finished` the receives it completed, in the order reported.
    fn completed(
        &mut self,
        stream: u32,
        call: &Call,
        _tickets: &[Option<Ticket>],
        completed: Completed<'_>,
        finished: &[Finished],
    ) {
        self.matched(stream, call, completed);
        for Finished { ticket, match_result, .. } in finished {
            self.resolve(*ticket, *match_result);
        }
    }

    /// The program tries to cancel an operation.
    fn cancel(&mut self, _ticket: Ticket) {}

    /// The operation is a send to that process. Returns the stamp of the message, if the method stamps messages.
    fn stamp(&mut self, _ticket: Ticket, _to: u32) -> Option<Stamp> {
        None
    }
}

impl Recording for Recorder {
    fn post(&mut self, stream: u32, post: &Post) -> Ticket {
        Recorder::post(self, stream, post)
    }

    fn resolve(&mut self, ticket: Ticket, match_result: MatchResult) {
        Recorder::resolve(self, ticket, match_result);
    }

    fn failed(&mut self, stream: u32, kind: Kind, site: u64) {
        Recorder::failed(self, stream, kind, site);
    }

    fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        Recorder::matched(self, stream, call, completed);
    }

    fn value(&mut self, stream: u32, which: u8, bits: u64) {
        Recorder::value(self, stream, which, bits);
    }

    fn turn(&mut self, stream: u32, key: u64) {
        Recorder::turn(self, stream, key);
    }

    fn is_full(&self, stream: u32) -> bool {
        Recorder::is_full(self, stream)
    }

    fn seal(&mut self, out: &mut Vec<u8>) {
        Recorder::seal(self, out);
    }

    fn finish(self, out: &mut Vec<u8>) {
        Recorder::finish(self, out);
    }
}
