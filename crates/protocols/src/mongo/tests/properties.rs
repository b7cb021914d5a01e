//! Arbitrary bytes and damaged messages are posted once, however they are split.

use super::*;

/// Messages with a few changed bytes.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop_oneof![
        Just(command(1, &[text("find", "c"), sub("filter", &[int("a", 1)]), session()])),
        Just(reply(1, &[sub("cursor", &[list("firstBatch", &[doc(&[int("a", 1)])])]), ok()])),
        Just(msg(1, 0, 1, &[sequence("documents", &[every_type()]), body(&[text("insert", "c")]), vec![0; 4]])),
        Just(squeezed(0)),
        Just(squeezed(1)),
        Just(squeezed(2)),
        Just(squeezed(3)),
        Just(query(1, 0, "a.b", &[doc(&[int("a", 1)])])),
        Just(op_reply(2, 1, 0, 9, &[doc(&[int("a", 1)])])),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (whole, changes).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_all_posted(
        request in prop::collection::vec(any::<u8>(), 0..300),
        response in prop::collection::vec(any::<u8>(), 0..300),
        mid_stream: bool,
    ) {
        let mut transcript = Transcript::default();
        let mut engine = DecoderEngine::new(Mongo::new(mid_stream), mid_stream);
        engine.bytes(Request, &request, &mut transcript);
        engine.bytes(Response, &response, &mut transcript);
        engine.finish(&mut transcript);
        prop_assert_eq!(transcript.total(Request), request.len() as u64);
        prop_assert_eq!(transcript.total(Response), response.len() as u64);
    }

    #[test]
    fn damaged_messages_are_all_posted_however_they_are_cut(
        turns in prop::collection::vec((any::<bool>(), damaged()), 1..8),
        cut in 1usize..200,
    ) {
        let side = |is_request: &bool| if *is_request { Request } else { Response };
        let conversation: Vec<_> = turns.iter().map(|(is_request, bytes)| (side(is_request), bytes.as_slice())).collect();
        let whole = Transcript::of(Mongo::new(false), &conversation);
        for of in Side::BOTH {
            let sent: usize = conversation.iter().filter(|(side, _)| *side == of).map(|(_, bytes)| bytes.len()).sum();
            prop_assert_eq!(whole.total(of), sent as u64);
        }
        let pieces: Vec<_> = conversation.iter().flat_map(|(side, bytes)| bytes.chunks(cut).map(|piece| (*side, piece))).collect();
        prop_assert_eq!(Transcript::of(Mongo::new(false), &pieces), whole);
    }

    #[test]
    fn gaps_anywhere_keep_the_account(
        turns in prop::collection::vec((any::<bool>(), damaged(), 0u64..80), 1..6),
    ) {
        let mut transcript = Transcript::default();
        let mut engine = DecoderEngine::new(Mongo::new(false), false);
        let mut sent = 0;
        for (is_request, bytes, gap) in &turns {
            let side = if *is_request { Request } else { Response };
            engine.bytes(side, bytes, &mut transcript);
            engine.opaque(side, *gap, &mut transcript);
            sent += bytes.len() as u64 + gap;
        }
        engine.finish(&mut transcript);
        prop_assert_eq!(transcript.total(Request) + transcript.total(Response), sent);
    }
}
