//! A toy protocol that says too much of what is free, in every way that the checks find.

use super::{Checked, check};
use overhead_decode::{Decoder, Free, Input, Malformed, MessageBoundary, OpId, Out, Reader, Step, Versioned};
use overhead_model::{Account, Class, Outcome, Side};

/// A protocol of requests `id len body`, each answered by `id flag`. A body that begins with `!` sets the flag that is due.
#[derive(Default)]
struct Toy {
    waiting: Vec<(u8, OpId)>,
    flag: Versioned<u8>,
    slip: Slip,
}

/// The mistake it makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Slip {
    #[default]
    Nothing,
    FreeLength,
    FreeFlag,
    FreeUnpairedId,
    FreeCommand,
    /// The number does not tell what the flag is.
    Number,
}

impl Toy {
    fn post<R: Reader>(&self, out: &mut Out<'_, R>, name: &'static str, len: u64, free: Free, by: Slip) {
        if by == Slip::Nothing || by == self.slip {
            out.post_free(Account::Data, name, len, free);
        } else {
            out.post(Account::Data, name, len);
        }
    }

    fn request<R: Reader>(&mut self, bytes: &[u8], out: &mut Out<'_, R>) -> Step {
        let &[id, len, ..] = bytes else { return Step::More };
        let Some(body) = bytes.get(2..2 + usize::from(len)) else { return Step::Need(2 + u64::from(len)) };
        let op = out.open();
        out.charge(op);
        let how = if self.slip == Slip::FreeUnpairedId { Free::Any } else { Free::Id(0xff) };
        self.post(out, "id", 1, how, Slip::Nothing);
        self.post(out, "length", 1, Free::Any, Slip::FreeLength);
        match body {
            [b'!', flag, ..] => {
                let flag = *flag;
                self.flag.put(|place| place, flag);
                self.post(out, "command", body.len() as u64, Free::Any, Slip::FreeCommand);
            }
            [_, rest @ ..] => {
                self.post(out, "first", 1, Free::Any, Slip::FreeCommand);
                self.post(out, "body", rest.len() as u64, Free::Any, Slip::Nothing);
            }
            [] => {}
        }
        out.label(op, Class::Workload, if *self.flag > b'0' { "FLAGGED" } else { "PLAIN" }, "");
        self.waiting.push((id, op));
        Step::Progress
    }

    fn response<R: Reader>(&mut self, bytes: &[u8], out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        let &[id, flag, ..] = bytes else { return Ok(Step::More) };
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == id).ok_or(Malformed("not asked"))?;
        let (_, op) = self.waiting.remove(place);
        out.charge(op);
        self.post(out, "id", 1, Free::Id(0xff), Slip::Nothing);
        self.post(out, "flag", 1, Free::Any, Slip::FreeFlag);
        out.close(op, if flag == b'+' { Outcome::Ok } else { Outcome::Error });
        Ok(Step::Progress)
    }
}

impl Decoder for Toy {
    fn step<R: Reader>(&mut self, side: Side, input: Input<'_>, out: &mut Out<'_, R>) -> Result<Step, Malformed> {
        match side {
            Side::Request => Ok(self.request(input.bytes, out)),
            Side::Response => self.response(input.bytes, out),
        }
    }

    fn boundary(&self, _: Side, _: &[u8]) -> MessageBoundary {
        MessageBoundary::No
    }

    fn lost<R: Reader>(&mut self, _: Side, _: &mut Out<'_, R>) {}

    fn idle_state(&self) -> Option<u64> {
        let number = if self.slip == Slip::Number { 0 } else { self.flag.version() };
        self.waiting.is_empty().then_some(number)
    }
}

/// Two turns that are alike, one of two requests, one that sets the flag, and the first one again.
const CONVERSATION: &[(Side, &[u8])] = &[
    (Side::Request, b"1\x04abcd"),
    (Side::Response, b"1+"),
    (Side::Request, b"2\x04bcde"),
    (Side::Response, b"2+"),
    (Side::Request, b"a\x02xyb\x03"),
    (Side::Request, b"zzz"),
    (Side::Response, b"b-a+"),
    (Side::Request, b"3\x02!1"),
    (Side::Response, b"3+"),
    (Side::Request, b"4\x04abcd"),
    (Side::Response, b"4+"),
    (Side::Request, b"5\x04abcd"),
    (Side::Response, b"5+"),
];

fn checked(slip: Slip) -> Checked {
    check(|| Toy { slip, ..Toy::default() }, CONVERSATION)
}

#[test]
fn a_decoder_that_says_what_it_does_passes() {
    let alike = 1 + 3 + 1;
    let pipelined = 1 + 1 + 1 + 2 + 2;
    let free = 4 * alike + pipelined + 2;
    let found = checked(Slip::Nothing);
    let expected = Checked { turns: 6, repeatable: 5, repeated: 4, free };
    assert_eq!(found, expected);
}

#[test]
fn every_slip_is_found() {
    for slip in [Slip::FreeLength, Slip::FreeFlag, Slip::FreeUnpairedId, Slip::FreeCommand, Slip::Number] {
        let found = std::panic::catch_unwind(|| checked(slip));
        assert!(found.is_err(), "{slip:?}");
    }
}
