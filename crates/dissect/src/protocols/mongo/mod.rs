//! Mongo.

use super::Sniff;
use crate::decode::{Boundary, Decoder, Input, Malformed, Out, Reader, Step};
use overhead_model::Side;

/// State of one connection.
#[derive(Debug)]
pub struct Mongo {
    mid_stream: bool,
}

impl Mongo {
    /// A decoder for a new connection.
    pub fn new(mid_stream: bool) -> Self {
        Self { mid_stream }
    }
}

/// What the first bytes of a direction look like.
pub fn sniff(_bytes: &[u8]) -> Sniff {
    Sniff::No
}

impl Decoder for Mongo {
    fn step<R: Reader>(&mut self, _: Side, _: Input<'_>, _: &mut Out<'_, R>) -> Result<Step, Malformed> {
        Err(Malformed(if self.mid_stream { "not written" } else { "not written yet" }))
    }
    fn boundary(&self, _: Side, _: &[u8]) -> Boundary {
        Boundary::No
    }
    fn lost<R: Reader>(&mut self, _: Side, _: &mut Out<'_, R>) {}
}
