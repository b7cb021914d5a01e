//! When nothing is under way on a connection, and how its states at such moments are told apart.
//!
//! With every statement a client may prepare anew, bind anew, and have its result described anew, so that what is remembered
//! changes and changes back. So the states are compared with those that there were before, and numbered: one that
//! comes again has the number that it had.

use super::pair::PgConnectionFacts;
use super::session::PgSessionView;
use super::{PgPhase, Pgwire};

/// States of one connection that are told apart. One with more is not quiet in the further ones.
const STATES: usize = 16;

/// Entries of lists in a state that is kept. Others are not told apart.
const ENTRIES: usize = 1024;

/// The states that there were, with their numbers.
#[derive(Debug, Default)]
pub(super) struct PgIdleStates {
    known: Vec<(u64, PgIdleState<'static>)>,
    next: u64,
    /// The server was ready before. Of connections that wait in a pool, and were never used, no state is kept.
    is_used: bool,
}

/// All that decoding may depend on while nothing is under way.
#[derive(Debug, PartialEq, Eq)]
struct PgIdleState<'a> {
    view: PgSessionView<'a>,
    facts: PgConnectionFacts,
    authentication: u32,
    client_named: bool,
    server_named: bool,
}

impl PgIdleStates {
    fn number(&self, state: &PgIdleState<'_>) -> Option<u64> {
        self.known.iter().find(|(_, known)| known == state).map(|(number, _)| *number)
    }

    /// Gives a new state a number.
    #[cold]
    fn add(&mut self, state: PgIdleState<'static>) {
        self.known.retain(|(_, known)| !known.view.is_unreachable_from(&state.view));
        if self.known.len() < STATES {
            self.known.reserve_exact(1);
            self.known.push((self.next, state));
            self.next += 1;
        }
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.known.iter().map(|(_, state)| size_of::<(u64, PgIdleState<'_>)>() + state.view.entries()).sum()
    }
}

impl Pgwire {
    /// Returns the state, while nothing is under way.
    fn state(&self) -> Option<PgIdleState<'_>> {
        // All fields are named, so that a further one cannot be left out unseen.
        let Self { phase, pairing, authentication, client_named, server_named, states: _ } = self;
        if *phase != PgPhase::Messages {
            return None;
        }
        let (authentication, client_named, server_named) = (*authentication, *client_named, *server_named);
        Some(PgIdleState { view: pairing.view()?, facts: pairing.facts(), authentication, client_named, server_named })
    }

    /// Returns the number of the state, where it has one: see [`overhead_decode::Decoder::quiet`].
    pub(super) fn state_number(&self) -> Option<u64> {
        self.states.number(&self.state()?)
    }

    /// Goes to the state with this number, where that can be: see [`overhead_decode::Decoder::resume`].
    pub(super) fn restore(&mut self, number: u64) -> bool {
        let Some(now) = self.state() else { return false };
        let known = self.states.known.iter().find(|(known, _)| *known == number);
        let Some((_, state)) = known.filter(|(_, state)| !state.view.is_unreachable_from(&now.view)) else {
            return false;
        };
        if *state != now {
            let PgIdleState { view, facts, authentication, client_named, server_named } = state;
            self.pairing.restore(view, *facts);
            (self.authentication, self.client_named, self.server_named) =
                (*authentication, *client_named, *server_named);
        }
        debug_assert_eq!(self.state_number(), Some(number), "the state that was gone to");
        true
    }

    /// The server is ready: the state gets a number, where it has none.
    pub(super) fn number_state(&mut self) {
        if !std::mem::replace(&mut self.states.is_used, true) {
            return;
        }
        let Some(state) = self.state() else { return };
        if self.states.number(&state).is_none() && state.view.entries() <= ENTRIES {
            let PgIdleState { view, facts, authentication, client_named, server_named } = state;
            let view = view.into_owned();
            self.states.add(PgIdleState { view, facts, authentication, client_named, server_named });
        }
    }
}
