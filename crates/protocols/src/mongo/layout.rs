//! The fields of a message before its documents.

use super::element::c_string;
use super::roles::DocumentRole;
use super::walk::{BodyStop, BodyWalk, Walked};
use super::wire::{MongoOpcode, REPLY_FAILED, u32_at};
use overhead_decode::{Cursor, Reader};
use overhead_model::Account::{self, Framing, Metadata, Query};

type FixedField = (u64, Account, &'static str);

const FLAGS: FixedField = (4, Metadata, "flags");
const RESERVED: FixedField = (4, Framing, "reserved");
const CURSOR: FixedField = (8, Metadata, "cursor id");
const LIMIT: FixedField = (4, Metadata, "number to return");

/// Returns the fields before the names of the target, the number of names, and the fields after them. One name is
/// `database.collection`; two are database and command. Each ends in NUL. The last part is the name of the operation, if the
/// opcode names it.
fn layout(opcode: MongoOpcode) -> (&'static [FixedField], usize, &'static [FixedField], &'static [u8]) {
    match opcode {
        MongoOpcode::Msg => (&[FLAGS], 0, &[], b""),
        MongoOpcode::Reply => {
            const REPLY: &[FixedField] =
                &[FLAGS, CURSOR, (4, Metadata, "starting from"), (4, Framing, "number returned")];
            (REPLY, 0, &[], b"")
        }
        MongoOpcode::Query => (&[FLAGS], 1, &[(4, Metadata, "number to skip"), LIMIT], b"find"),
        MongoOpcode::Insert => (&[FLAGS], 1, &[], b"insert"),
        MongoOpcode::Update => (&[RESERVED], 1, &[FLAGS], b"update"),
        MongoOpcode::Delete => (&[RESERVED], 1, &[FLAGS], b"delete"),
        MongoOpcode::GetMore => (&[RESERVED], 1, &[LIMIT, CURSOR], b"getMore"),
        MongoOpcode::KillCursors => (&[RESERVED, (4, Framing, "cursor count")], 0, &[], b"killCursors"),
        MongoOpcode::OldMsg => (&[], 0, &[], b"msg"),
        MongoOpcode::Command => (&[], 2, &[], b""),
        MongoOpcode::CommandReply | MongoOpcode::Compressed => (&[], 0, &[], b""),
    }
}

/// Posts the fields together, then opens what follows them.
pub fn fixed<R: Reader>(walk: &mut BodyWalk, cursor: &mut Cursor<'_, '_, '_, R>) -> Walked {
    let (before, names, after, operation) = layout(walk.opcode);
    let here = cursor.peek();
    let [lead, trail] = [before, after].map(|parts| parts.iter().map(|(len, _, _)| len).sum::<u64>());
    let room = walk.left().checked_sub(lead + trail).ok_or(BodyStop::Damaged)?;
    let texts = texts(names, here, lead as usize, room)?;
    let all = lead + trail + texts.iter().map(|text| text.len() as u64 + 1).sum::<u64>();
    if (here.len() as u64) < all {
        return Err(BodyStop::Wait);
    }
    parts(walk, cursor, before)?;
    match texts[..] {
        [name] => namespace(walk, cursor, name)?,
        [database, command] => {
            walk.put(cursor, (Metadata, "database", database.len() as u64))?;
            walk.put(cursor, (Framing, "terminator", 1))?;
            walk.put(cursor, (Query, "command name", command.len() as u64))?;
            walk.put(cursor, (Framing, "terminator", 1))?;
            walk.facts.set_name(command);
        }
        _ => {}
    }
    parts(walk, cursor, after)?;
    read(walk, here, operation);
    open(walk, cursor)
}

/// Returns `count` texts that start at `at` and take at most `room` bytes.
fn texts(count: usize, here: &[u8], mut at: usize, mut room: u64) -> Result<Vec<&[u8]>, BodyStop> {
    let mut texts = Vec::new();
    for _ in 0..count {
        let text = c_string(here, at, room)?;
        room = room.checked_sub(text.len() as u64 + 1).ok_or(BodyStop::Damaged)?;
        at += text.len() + 1;
        texts.push(text);
    }
    Ok(texts)
}

fn parts<R: Reader>(walk: &mut BodyWalk, cursor: &mut Cursor<'_, '_, '_, R>, parts: &'static [FixedField]) -> Walked {
    for &(len, account, field) in parts {
        walk.put(cursor, (account, field, len))?;
    }
    Ok(())
}

/// Posts a namespace: the database is metadata, the collection query. `$cmd` is metadata.
fn namespace<R: Reader>(walk: &mut BodyWalk, cursor: &mut Cursor<'_, '_, '_, R>, name: &[u8]) -> Walked {
    let dot = memchr::memchr(b'.', name).unwrap_or(name.len());
    let (database, rest) = name.split_at(dot);
    let collection = rest.get(1..).unwrap_or_default();
    walk.put(cursor, (Metadata, "database", database.len() as u64))?;
    walk.put(cursor, (Framing, "separator", (rest.len() - collection.len()) as u64))?;
    if walk.opcode == MongoOpcode::Query && collection == b"$cmd" {
        walk.put(cursor, (Metadata, "command collection", collection.len() as u64))?;
    } else {
        walk.put(cursor, (Query, "collection", collection.len() as u64))?;
        walk.facts.set_collection(collection);
        walk.facts.documents = walk.opcode == MongoOpcode::Query;
    }
    walk.put(cursor, (Framing, "terminator", 1))
}

fn read(walk: &mut BodyWalk, here: &[u8], operation: &[u8]) {
    let facts = &mut walk.facts;
    match walk.opcode {
        MongoOpcode::Msg | MongoOpcode::Query => facts.flags = u32_at(here, 0).unwrap_or_default(),
        MongoOpcode::Reply => {
            facts.flags = u32_at(here, 0).unwrap_or_default();
            facts.failed = facts.flags & REPLY_FAILED > 0;
            facts.cursor_open = here.get(4..12).is_some_and(|id| id.iter().any(|&byte| byte > 0));
        }
        _ => {}
    }
    // `OP_QUERY` also carries commands, which have names of their own.
    if !operation.is_empty() && (facts.documents || walk.opcode != MongoOpcode::Query) {
        facts.set_name(operation);
    }
}

/// Opens the documents, or queues the rest for posting as it is.
fn open<R: Reader>(walk: &mut BodyWalk, cursor: &mut Cursor<'_, '_, '_, R>) -> Walked {
    let (lead, role) = match walk.opcode {
        MongoOpcode::Msg => return walk.open_sections(cursor.out()),
        MongoOpcode::KillCursors | MongoOpcode::OldMsg => {
            let field = if walk.opcode == MongoOpcode::OldMsg { "text" } else { "cursor ids" };
            walk.push(walk.left(), Metadata, field);
            return Ok(());
        }
        MongoOpcode::Query if walk.facts.documents => (DocumentRole::Selector, DocumentRole::Shape),
        MongoOpcode::Query => (DocumentRole::Command, DocumentRole::Shape),
        MongoOpcode::Insert => (DocumentRole::Document, DocumentRole::Document),
        MongoOpcode::Command => (DocumentRole::Options, DocumentRole::Command),
        MongoOpcode::Reply if walk.facts.failed => (DocumentRole::Reply, DocumentRole::Reply),
        MongoOpcode::Reply => (walk.reply, walk.reply),
        MongoOpcode::CommandReply => (DocumentRole::Reply, DocumentRole::Reply),
        MongoOpcode::Update | MongoOpcode::Delete | MongoOpcode::GetMore | MongoOpcode::Compressed => {
            (DocumentRole::Expression, DocumentRole::Expression)
        }
    };
    walk.open_documents(cursor.out(), lead, role);
    Ok(())
}
