//! Checks conversations whose start was not captured.

use crate::hostile::conversation::Turn;
use crate::hostile::seeds;
use crate::transcript::Transcript;
use overhead_decode::DecoderEngine;
use overhead_model::{Account, Protocol, Side};
use overhead_protocols::{AnyDecoder, SharedContext};
use std::path::Path;

/// Starts a decoder at each later piece of every recorded conversation, and compares its postings with those of a
/// decoder that starts at the beginning: each byte must go to the same account, or to `unknown`. Returns the number of
/// starts, and a line for each violation.
///
/// # Errors
///
/// A recorded session in `fixtures` cannot be read; the error names its path.
pub fn begun_later(protocol: Protocol, fixtures: &Path) -> Result<(usize, Vec<String>), String> {
    let (mut beginnings, mut wrong) = (0, Vec::new());
    for (number, talk) in seeds::talks(fixtures, protocol)?.iter().enumerate() {
        let whole = accounts(protocol, talk, false);
        for from in 1..talk.len() {
            let later = accounts(protocol, talk.get(from..).unwrap_or_default(), true);
            for side in Side::BOTH {
                let (whole, later) = (&whole[side as usize], &later[side as usize]);
                let behind = whole.iter().skip(whole.len() - later.len());
                let mut pairs = behind.zip(later).enumerate();
                if let Some((at, (expected, found))) =
                    pairs.find(|(_, (expected, found))| found != expected && **found != Account::Unknown)
                {
                    let line = format!("{number} from piece {from}: {side:?} byte {at} is {found}, not {expected}");
                    wrong.push(line);
                }
            }
            beginnings += 1;
        }
    }
    Ok((beginnings, wrong))
}

/// Returns the account of every byte, by side.
fn accounts(protocol: Protocol, talk: &[Turn], mid_stream: bool) -> [Vec<Account>; 2] {
    let decoder = AnyDecoder::new(protocol, mid_stream, &SharedContext::default());
    let mut engine = DecoderEngine::new(decoder, mid_stream);
    let mut transcript = Transcript::default();
    for turn in talk {
        if let Turn::Bytes(side, bytes) = turn {
            engine.bytes(*side, bytes, &mut transcript);
        }
    }
    engine.finish(&mut transcript);
    transcript.postings.map(|postings| {
        let of = postings.iter().map(|posting| (posting.account, usize::try_from(posting.len).unwrap_or(usize::MAX)));
        of.flat_map(|(account, len)| std::iter::repeat_n(account, len)).collect()
    })
}
