//! Bodies: their length and their bytes.

use super::head::{self, HeadFields};
use super::wire::{self, MAX_CHUNK_LINE, MAX_TRAILERS};
use overhead_decode::{DecodeStep, Free, Input, Malformed, Out, Reader, Step, near};
use overhead_model::Account::{Data, Framing, Metadata};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpBody {
    /// No body, or nothing left of it.
    Over,
    Length(u64),
    ChunkLine,
    /// The bytes left in the chunk.
    Chunk(u64),
    /// Before the CRLF of a chunk.
    ChunkEnd,
    /// After the last chunk, before the trailer fields.
    Trailers,
    UntilClose,
}

impl HttpBody {
    /// Returns the body of a request (section 6.3, rules 3 to 7). Fails if its length is unclear: a server refuses
    /// such a request and closes the connection.
    pub fn in_request(lengths: &HeadFields) -> DecodeStep<Self> {
        match lengths {
            HeadFields { is_coded: true, is_chunked: true, .. } => Ok(Self::ChunkLine),
            HeadFields { is_coded: true, .. } => Err(Malformed("a request whose body is coded, and not in chunks")),
            HeadFields { content: Some(content), .. } => content.map(Self::with_length),
            _ => Ok(Self::Over),
        }
    }

    /// Returns the body of a response that may have one (section 6.3, rules 3 to 8). Fails if lengths contradict each
    /// other.
    pub fn in_response(lengths: &HeadFields) -> DecodeStep<Self> {
        match lengths {
            HeadFields { is_coded: true, is_chunked: true, .. } => Ok(Self::ChunkLine),
            HeadFields { is_coded: false, content: Some(content), .. } => content.map(Self::with_length),
            _ => Ok(Self::UntilClose),
        }
    }

    fn with_length(len: u64) -> Self {
        if len == 0 { Self::Over } else { Self::Length(len) }
    }

    /// Posts the available bytes of the body's next part. Returns the step to stop with if there are too few.
    pub fn step<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        match self {
            Self::Over => Ok(Step::More),
            Self::Length(left) => {
                let taken = data(*left, input, out);
                *self = Self::with_length(*left - taken);
                Ok(Step::Progress)
            }
            Self::Chunk(left) => {
                let taken = data(*left, input, out);
                *self = if *left == taken { Self::ChunkEnd } else { Self::Chunk(*left - taken) };
                Ok(Step::Progress)
            }
            Self::UntilClose => {
                data(u64::MAX, input, out);
                Ok(Step::Progress)
            }
            Self::ChunkLine => self.chunk_line(input, out),
            Self::ChunkEnd => self.chunk_end(input, out),
            Self::Trailers => self.trailers(input, out),
        }
    }

    fn chunk_line<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let within = input.bytes.get(..MAX_CHUNK_LINE).unwrap_or(input.bytes);
        let Some(end) = near::find(b'\n', within) else {
            let is_one = wire::chunk_line(within).is_some_and(|_| within.len() < MAX_CHUNK_LINE) || within.is_empty();
            return if is_one { Ok(Step::More) } else { Err(CHUNK) };
        };
        let line = input.bytes.get(..=end).unwrap_or_default();
        let (digits, size) = wire::chunk_line(line).ok_or(CHUNK)?;
        let extension = line.trim_ascii_end().len().saturating_sub(digits);
        out.post(Framing, "chunk size", digits as u64);
        out.post(Metadata, "chunk extension", extension as u64);
        out.post(Framing, "line end", (line.len() - digits - extension) as u64);
        *self = if size == 0 { Self::Trailers } else { Self::Chunk(size) };
        Ok(Step::Progress)
    }

    fn chunk_end<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let len = match input.bytes {
            [b'\r', b'\n', ..] => 2,
            [b'\n', ..] => 1,
            // Any two bytes: the chunk's length gives their position.
            [] | [b'\r'] if input.available() >= 2 => 2,
            [] | [b'\r'] => return Ok(Step::Need(2)),
            _ => return Err(CHUNK),
        };
        out.post(Framing, "line end", len);
        *self = Self::ChunkLine;
        Ok(Step::Progress)
    }

    fn trailers<R: Reader>(&mut self, input: Input<'_>, out: &mut Out<'_, R>) -> DecodeStep {
        let end = match input.bytes {
            [b'\n', ..] => Some(1),
            [b'\r', b'\n', ..] => Some(2),
            bytes => head::end(bytes, 0),
        };
        let Some(trailers) = end.and_then(|end| input.bytes.get(..end)) else {
            let is_endless = input.bytes.len() > MAX_TRAILERS;
            return if is_endless { Err(Malformed("trailers without an end")) } else { Ok(Step::More) };
        };
        head::trailers(trailers, out);
        *self = Self::Over;
        Ok(Step::Progress)
    }
}

const CHUNK: Malformed = Malformed("no chunk where one should be");

/// Posts the available bytes, at most `left`, and returns their number.
fn data<R: Reader>(left: u64, input: Input<'_>, out: &mut Out<'_, R>) -> u64 {
    let taken = left.min(input.available());
    out.post_free(Data, "body", taken, Free::Any);
    taken
}
