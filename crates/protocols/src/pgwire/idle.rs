//! States of a connection with no request in progress.
//!
//! A client may prepare, bind and describe anew with each statement, so the state often changes and returns to an
//! earlier one. States are numbered by comparison: one that returns gets its earlier number.

use super::pair::PgConnectionFacts;
use super::session::PgSessionView;
use super::{PgPhase, Pgwire};

/// Distinct states kept for one connection; further ones get no number.
const STATES: usize = 16;

/// List entries of a state that is kept; larger states get no number.
const ENTRIES: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct PgIdleStates {
    known: Vec<(u64, PgIdleState<'static>)>,
    next: u64,
    /// The server was ready before. Pooled connections that are never used keep no state.
    is_used: bool,
}

/// Everything that decoding may depend on between requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PgIdleState<'a> {
    view: PgSessionView<'a>,
    facts: PgConnectionFacts,
}

impl PgIdleStates {
    pub fn number(&self, state: &PgIdleState<'_>) -> Option<u64> {
        self.known.iter().find(|(_, known)| known == state).map(|(number, _)| *number)
    }

    #[cold]
    fn add(&mut self, state: PgIdleState<'static>) {
        self.known.retain(|(_, known)| !known.view.is_unreachable_from(&state.view));
        if self.known.len() < STATES {
            self.known.reserve_exact(1);
            self.known.push((self.next, state));
            self.next += 1;
        }
    }

    pub fn held(&self) -> usize {
        self.known.iter().map(|(_, state)| size_of::<(u64, PgIdleState<'_>)>() + state.view.entries()).sum()
    }
}

impl Pgwire {
    pub(super) fn state(&self) -> Option<PgIdleState<'_>> {
        // All fields are named, so that a new one cannot be missed.
        let Self { phase, pairing, states: _ } = self;
        if *phase != PgPhase::Messages {
            return None;
        }
        Some(PgIdleState { view: pairing.view()?, facts: pairing.facts })
    }

    /// Numbers the state once the server is ready.
    pub(super) fn number_state(&mut self) {
        if !std::mem::replace(&mut self.states.is_used, true) {
            return;
        }
        let Some(state) = self.state() else { return };
        if self.states.number(&state).is_none() && state.view.entries() <= ENTRIES {
            let owned = PgIdleState { view: state.view.into_owned(), facts: state.facts };
            self.states.add(owned);
        }
    }
}
