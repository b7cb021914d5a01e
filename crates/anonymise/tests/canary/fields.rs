use overhead_dissect::explain::ConnectionStates;
use overhead_model::{Account, ConnectionSummary, Listener, Operation, Outcome, Protocol, RowId, Tally, Trace};
use std::collections::BTreeMap;

/// Fields of the decoders, each with its protocol and account. Before adding one, give it a rule in `rules.rs`, or check
/// that it is replaced.
const FIELDS: &str = include_str!("../fields.txt");

/// The protocol, and the next field of each direction with its length.
type Connection = (Option<Protocol>, [(&'static str, u64); 2]);

/// Bytes of fields, by protocol, account and name.
#[derive(Default)]
pub struct Fields {
    turns: ConnectionStates<Connection>,
    pub found: BTreeMap<String, u64>,
    pub outcomes: Vec<Outcome>,
}

impl Fields {
    fn add(&mut self, account: Account, field: &str, len: u64) {
        let protocol = self.turns.kept().0.unwrap().name();
        // Later parts of a field are known from the first.
        if !field.is_empty() {
            *self.found.entry(format!("{protocol} {account} {field}")).or_default() += len;
        }
    }

    /// Returns fields that are not in the list.
    pub fn unknown(&self) -> impl Iterator<Item = String> {
        let unknown = self.found.keys().filter(|field| !FIELDS.lines().any(|known| known == *field));
        unknown.map(|field| format!("not in fields.txt: {field}"))
    }
}

impl Tally for Fields {
    fn operation(&mut self, _: RowId, operation: &Operation) {
        self.outcomes.push(operation.outcome);
    }
    fn connection(&mut self, _: ConnectionSummary) {}
    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for Fields {
    fn wants_inner(&self) -> bool {
        true
    }

    fn hear(&mut self, step: Trace<'_>) {
        match step {
            Trace::Frame(facts) => self.turns.turn(facts.connection, false),
            Trace::Ending { connection } => self.turns.turn(connection, true),
            Trace::Decoding { protocol } => self.turns.kept().0 = Some(protocol),
            Trace::Field { side, field, len } => self.turns.kept().1[side as usize] = (field, len),
            Trace::Inner { account, field, len, .. } => self.add(account, field, len),
            Trace::Posted { side, account, in_order: true, .. } => {
                let (field, len) = std::mem::take(&mut self.turns.kept().1[side as usize]);
                self.add(account, field, len);
            }
            _ => {}
        }
    }
}
