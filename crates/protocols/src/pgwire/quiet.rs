//! When nothing is under way on a connection, and how its states at such moments are told apart.
//!
//! With every statement a client may prepare anew, bind anew, and have its result described anew, so that what is remembered
//! changes and changes back. So the states are compared with those that there were before, and numbered: one that
//! comes again has the number that it had.

use super::pair::Facts;
use super::session::View;
use super::{Pgwire, Phase};

/// States of one connection that are told apart. One with more is not quiet in the further ones.
const STATES: usize = 16;

/// Entries of lists in a state that is kept. Others are not told apart.
const ENTRIES: usize = 1024;

/// The states that there were, with their numbers.
#[derive(Debug, Default)]
pub(super) struct States {
    known: Vec<(u64, State<'static>)>,
    next: u64,
    /// The server was ready before. Of connections that wait in a pool, and were never used, no state is kept.
    is_used: bool,
}

/// All that decoding may depend on while nothing is under way.
#[derive(Debug, PartialEq, Eq)]
struct State<'a> {
    view: View<'a>,
    facts: Facts,
    authentication: u32,
    client_named: bool,
    server_named: bool,
}

impl States {
    fn number(&self, state: &State<'_>) -> Option<u64> {
        self.known.iter().find(|(_, known)| known == state).map(|(number, _)| *number)
    }

    /// Gives a new state a number.
    #[cold]
    fn add(&mut self, state: State<'static>) {
        self.known.retain(|(_, known)| !known.view.is_past(&state.view));
        if self.known.len() < STATES {
            self.known.reserve_exact(1);
            self.known.push((self.next, state));
            self.next += 1;
        }
    }

    /// Returns about how many bytes of memory it holds.
    pub fn held(&self) -> usize {
        self.known.iter().map(|(_, state)| size_of::<(u64, State<'_>)>() + state.view.weight()).sum()
    }
}

impl Pgwire {
    /// Returns the state, while nothing is under way.
    fn state(&self) -> Option<State<'_>> {
        // All fields are named, so that a further one cannot be left out unseen.
        let Self { phase, pairing, authentication, client_named, server_named, states: _ } = self;
        if *phase != Phase::Messages {
            return None;
        }
        let (authentication, client_named, server_named) = (*authentication, *client_named, *server_named);
        Some(State { view: pairing.view()?, facts: pairing.facts(), authentication, client_named, server_named })
    }

    /// Returns the number of the state, where it has one: see [`overhead_decode::Decoder::quiet`].
    pub(super) fn state_number(&self) -> Option<u64> {
        self.states.number(&self.state()?)
    }

    /// Goes to the state with this number, where that can be: see [`overhead_decode::Decoder::resume`].
    pub(super) fn go_to(&mut self, number: u64) -> bool {
        let Some(now) = self.state() else { return false };
        let known = self.states.known.iter().find(|(known, _)| *known == number);
        let Some((_, state)) = known.filter(|(_, state)| !state.view.is_past(&now.view)) else { return false };
        if *state != now {
            let State { view, facts, authentication, client_named, server_named } = state;
            self.pairing.go_to(view, *facts);
            (self.authentication, self.client_named, self.server_named) =
                (*authentication, *client_named, *server_named);
        }
        debug_assert_eq!(self.state_number(), Some(number), "the state that was gone to");
        true
    }

    /// The server is ready: the state gets a number, where it has none.
    pub(super) fn settle(&mut self) {
        if !std::mem::replace(&mut self.states.is_used, true) {
            return;
        }
        let Some(state) = self.state() else { return };
        if self.states.number(&state).is_none() && state.view.weight() <= ENTRIES {
            let State { view, facts, authentication, client_named, server_named } = state;
            let view = view.into_owned();
            self.states.add(State { view, facts, authentication, client_named, server_named });
        }
    }
}
