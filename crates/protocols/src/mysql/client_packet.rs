//! Classifies the packets of a client, which only the state of the connection tells apart.

use super::boundary;
use super::command::{self, Command};
use super::decode::{LoginPhase, PlainDecoder};
use super::pair::ExpectedResponse;
use super::response::{MysqlPacket, ResponseStage};
use super::wire::HEADER;
use overhead_decode::{DecodeStep, Malformed, MessageBoundary};

#[derive(Clone, Copy, Debug)]
pub(super) enum ClientPacket {
    Continued,
    Command(u8, Command),
    SemiSync,
    Authentication,
    File,
    /// A command of a clone in progress.
    Clone,
    Opening,
    Stray,
}

impl ClientPacket {
    /// Returns whether the packet may be decoded piece by piece.
    pub fn may_flow(self) -> bool {
        matches!(self, Self::Continued | Self::Command(..))
    }
}

impl PlainDecoder {
    /// Classifies a packet of the client.
    pub(super) fn client(&self, packet: MysqlPacket<'_>) -> DecodeStep<ClientPacket> {
        let MysqlPacket { input, first, sequence, len, .. } = packet;
        if self.rest_of_command.is_some() {
            return Ok(ClientPacket::Continued);
        }
        let kind = self.pairing.kind();
        // A file ends with an empty packet. There is no other sign, as its packets are numbered anew.
        if self.stage == ResponseStage::Infile && kind.is_some() && !self.is_unsure {
            return Ok(ClientPacket::File);
        }
        if matches!(self.stage, ResponseStage::Cloning | ResponseStage::Cloned)
            && sequence == 0
            && command::is_of_clone(first)
        {
            return Ok(ClientPacket::Clone);
        }
        let command = first.and_then(|code| Some((code, command::command(code)?)));
        match command {
            Some((code, command)) if sequence == 0 && self.phase == LoginPhase::Begun || self.is_early(packet) => {
                return Ok(ClientPacket::Command(code, command));
            }
            _ => {}
        }
        Ok(match kind {
            _ if self.phase == LoginPhase::Start => ClientPacket::Opening,
            Some(ExpectedResponse::Stream) if first == Some(command::SEMI_SYNC) => ClientPacket::SemiSync,
            _ if sequence == 0 && len > 0 && input.bytes.len() as u64 > HEADER => {
                return Err(Malformed("not a MySQL command"));
            }
            Some(ExpectedResponse::Login | ExpectedResponse::ChangeUser) => ClientPacket::Authentication,
            Some(_) if self.stage == ResponseStage::Infile => ClientPacket::File,
            _ if boundary::is_login(input.bytes) => ClientPacket::Opening,
            _ if self.is_unsure && boundary::request_boundary(input.bytes) != MessageBoundary::More => {
                return Err(Malformed("not what a MySQL client begins with"));
            }
            _ => ClientPacket::Stray,
        })
    }

    /// Returns whether a packet before the login is a command: the login was not captured.
    fn is_early(&self, packet: MysqlPacket<'_>) -> bool {
        self.phase == LoginPhase::Start
            && packet.sequence == 0
            && packet.first.is_some_and(|code| command::fits(code, packet.len))
    }
}
