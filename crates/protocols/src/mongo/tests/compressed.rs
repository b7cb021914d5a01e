//! `OP_COMPRESSED`.

use super::*;

/// Builds a compressible request.
pub(super) fn squeezed(compressor: u8) -> Vec<u8> {
    squeezed_text(compressor, 400)
}

/// Builds a request with `len` equal bytes of text.
fn squeezed_text(compressor: u8, len: usize) -> Vec<u8> {
    let document = doc(&[text("v", &"x".repeat(len))]);
    let plain = msg_body(0, &[body(&[text("insert", "c")]), sequence("documents", &[document])]);
    let packed = match compressor {
        0 => plain.clone(),
        1 => snap::raw::Encoder::new().compress_vec(&plain).unwrap(),
        2 => {
            let mut packed = Vec::with_capacity(1000 + plain.len() / 100);
            let mut zlib = flate2::Compress::new(flate2::Compression::default(), true);
            zlib.compress_vec(&plain, &mut packed, flate2::FlushCompress::Finish).unwrap();
            packed
        }
        _ => zstd::bulk::compress(&plain, 3).unwrap(),
    };
    compressed(1, 0, 2013, plain.len(), compressor, &packed)
}

#[test]
fn a_compressed_body_is_posted_pro_rata() {
    for compressor in 1..=3 {
        let request = squeezed(compressor);
        let transcript = decode(&[(Request, &request), (Response, &reply(1, &[ok()]))]);
        assert_eq!(outcomes(&transcript), [("insert", Some(Outcome::Ok))], "compressor {compressor}");
        assert_eq!(transcript.ops[0].via(), "OP_COMPRESSED");
        let amounts = &transcript.ops[0].amounts[0];
        assert_eq!(amounts[Unknown], 0);
        assert!(amounts[Data] > (request.len() as u64 - 25) * 3 / 4, "{}", amounts[Data]);
        assert!(transcript.notes.contains(&Note::ProRata));
    }
}

#[test]
fn what_nothing_is_compressed_to_is_framing_and_what_is_not_compressed_is_unknown() {
    let mut zlib = Vec::with_capacity(100);
    flate2::Compress::new(flate2::Compression::default(), true)
        .compress_vec(&[], &mut zlib, flate2::FlushCompress::Finish)
        .unwrap();
    let nothing = [(1, vec![0]), (2, zlib), (3, zstd::bulk::compress(&[], 3).unwrap())];
    for (compressor, packed) in nothing {
        let sums = |packed: &[u8]| {
            let transcript = decode(&[(Request, &compressed(1, 0, 2013, 0, compressor, packed))]);
            let header = transcript.ops[0].amounts[Request as usize][Framing] - bytes_of_body(&transcript, Framing);
            (header, bytes_of_body(&transcript, Framing), bytes_of_body(&transcript, Unknown))
        };
        let len = packed.len() as u64;
        assert_eq!(sums(&packed), (17, len, 0), "compressor {compressor}");
        let garbage = vec![0xA5; packed.len()];
        assert_eq!(sums(&garbage), (17, 0, len), "compressor {compressor}");
    }
}

/// Returns the bytes of the first message's compressed body in `account`.
fn bytes_of_body(transcript: &Transcript, account: Account) -> u64 {
    let postings = transcript.postings[Request as usize].iter();
    let body = postings.filter(|posting| posting.path.ends_with("compressed body") && posting.account == account);
    body.map(|posting| posting.len).sum()
}

#[test]
fn each_compressor_may_do_what_it_can() {
    for compressor in 1..=3 {
        let request = squeezed_text(compressor, 2 << 20);
        let transcript = Transcript::of(Mongo::new(false), &[(Request, &request)]);
        assert_eq!(outcomes(&transcript), [("insert", None)], "compressor {compressor}: {} bytes", request.len());
        assert_eq!(bytes_of(&transcript, Request, Unknown), 0, "compressor {compressor}: {} bytes", request.len());
        assert_eq!(transcript.notes, [Note::ProRata], "compressor {compressor}");
    }
    assert!(squeezed_text(3, 2 << 20).len() < (2 << 20) / 1032, "zstd does better than zlib can");
}

#[test]
fn a_body_that_only_claims_to_be_compressed_is_posted_exactly() {
    let transcript = decode(&[(Request, &squeezed(0))]);
    assert_eq!(outcomes(&transcript), [("insert", None)]);
    assert_eq!(bytes_of(&transcript, Request, Data), 400);
}

#[test]
fn a_compressed_body_that_lies_about_its_length_is_unknown() {
    let mut request = squeezed(2);
    request[20] += 1;
    let transcript = decode(&[(Request, &request), (Request, &command(2, &[int("ping", 1)]))]);
    assert_eq!(outcomes(&transcript), [("(no command)", None), ("ping", None)]);
    assert_eq!(bytes_of(&transcript, Request, Unknown), request.len() as u64 - 25);
}

#[test]
fn a_decompression_bomb_is_not_lit() {
    let request = compressed(1, 0, 2013, 60 << 20, 3, &[0; 40]);
    let transcript = decode(&[(Request, &request)]);
    assert_eq!(bytes_of(&transcript, Request, Unknown), 40);
    assert!(transcript.notes.contains(&Note::Implausible(Codec::Zstd)), "{:?}", transcript.notes);
}

#[test]
fn a_compressed_message_within_a_compressed_one_is_unknown() {
    let transcript = decode(&[(Request, &compressed(1, 0, 2012, 100, 2, &[1; 30]))]);
    assert_eq!(bytes_of(&transcript, Request, Unknown), 30);
}
