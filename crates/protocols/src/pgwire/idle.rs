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
    known: Vec<(u64, PgIdleState)>,
    next: u64,
    /// The server was ready before. Pooled connections that are never used keep no state.
    is_used: bool,
}

/// Everything that decoding may depend on between requests.
#[derive(Debug)]
struct PgIdleState {
    view: PgSessionView<'static>,
    facts: PgConnectionFacts,
}

impl PgIdleStates {
    pub fn number(&self, view: &PgSessionView<'_>, facts: &PgConnectionFacts) -> Option<u64> {
        let is_equal = |PgIdleState { view: known, facts: of }: &PgIdleState| known == view && of == facts;
        self.known.iter().find(|(_, known)| is_equal(known)).map(|(number, _)| *number)
    }

    #[cold]
    fn add(&mut self, state: PgIdleState) {
        self.known.retain(|(_, known)| !known.view.is_unreachable_from(&state.view));
        if self.known.len() < STATES {
            self.known.reserve_exact(1);
            self.known.push((self.next, state));
            self.next += 1;
        }
    }

    pub fn held(&self) -> usize {
        self.known.iter().map(|(_, state)| size_of::<(u64, PgIdleState)>() + state.view.entries()).sum()
    }
}

impl Pgwire {
    pub(super) fn view(&self) -> Option<PgSessionView<'_>> {
        // All fields are named, so that a new one cannot be missed.
        let Self { phase, is_started: _, pairing, states: _ } = self;
        if *phase == PgPhase::Messages { pairing.view() } else { None }
    }

    /// Numbers the state once the server is ready.
    pub(super) fn number_state(&mut self) {
        if !std::mem::replace(&mut self.states.is_used, true) {
            return;
        }
        let Some(view) = self.view() else { return };
        let facts = self.pairing.lasting_facts();
        if self.states.number(&view, &facts).is_none() && view.entries() <= ENTRIES {
            let view = view.into_owned();
            self.states.add(PgIdleState { view, facts });
        }
    }
}
