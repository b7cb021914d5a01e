//! The field that an argument of a command is posted to.

use overhead_decode::{Free, Out, Reader};
use overhead_model::{Account, enum_with};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArgumentField {
    pub part: ArgumentRole,
    /// How its content may vary; absent if the content matters.
    free: Option<Free>,
}
enum_with! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum ArgumentRole, title: (Account, &'static str) {
        Command = (Account::Query, "command"),
        Subcommand = (Account::Query, "subcommand"),
        Option = (Account::Query, "option"),
        OptionValue = (Account::Data, "option value"),
        Script = (Account::Query, "script"),
        Key = (Account::Data, "key"),
        Argument = (Account::Data, "argument"),
    }
}

impl ArgumentField {
    pub const fn new(part: ArgumentRole, free: Option<Free>) -> Self {
        Self { part, free }
    }

    /// Returns whether it is a key whose content matters.
    #[inline]
    pub fn is_key(self) -> bool {
        self.part == ArgumentRole::Key
    }

    /// Returns the field of an inline argument, which bytes other than digits could end.
    pub fn between_blanks(self) -> Self {
        Self { free: self.free.map(|_| Free::Digits), ..self }
    }

    #[inline]
    pub fn post<R: Reader>(self, len: u64, out: &mut Out<'_, R>) {
        let (account, name, len) = self.announce(0, len, out);
        out.post(account, name, len);
    }

    /// Declares how `len` bytes posted after the next `ahead` ones may vary, and returns the field to post.
    #[inline]
    pub fn announce<R: Reader>(self, ahead: u64, len: u64, out: &mut Out<'_, R>) -> overhead_decode::Field {
        if let Some(free) = self.free {
            out.free(ahead, len, free);
        }
        let (account, name) = self.part.title();
        (account, name, len)
    }
}
