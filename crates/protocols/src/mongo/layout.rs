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

/// NUL-terminated texts that name the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameFields {
    None,
    /// `database.collection`
    Namespace,
    /// Database, then command.
    Command,
}

/// Returns the fields before the names, the names, and the fields after them.
fn layout(opcode: MongoOpcode) -> (&'static [FixedField], NameFields, &'static [FixedField]) {
    match opcode {
        MongoOpcode::Msg => (&[FLAGS], NameFields::None, &[]),
        MongoOpcode::Reply => {
            const REPLY: &[FixedField] =
                &[FLAGS, CURSOR, (4, Metadata, "starting from"), (4, Framing, "number returned")];
            (REPLY, NameFields::None, &[])
        }
        MongoOpcode::Query => (&[FLAGS], NameFields::Namespace, &[(4, Metadata, "number to skip"), LIMIT]),
        MongoOpcode::Insert => (&[FLAGS], NameFields::Namespace, &[]),
        MongoOpcode::Update | MongoOpcode::Delete => (&[RESERVED], NameFields::Namespace, &[FLAGS]),
        MongoOpcode::GetMore => (&[RESERVED], NameFields::Namespace, &[LIMIT, CURSOR]),
        MongoOpcode::KillCursors => (&[RESERVED, (4, Framing, "cursor count")], NameFields::None, &[]),
        MongoOpcode::Command => (&[], NameFields::Command, &[]),
        MongoOpcode::CommandReply | MongoOpcode::OldMsg | MongoOpcode::Compressed => (&[], NameFields::None, &[]),
    }
}

/// Posts the fields together, then opens what follows them.
pub fn fixed<R: Reader>(walk: &mut BodyWalk, cursor: &mut Cursor<'_, '_, '_, R>) -> Walked {
    let (before, names, after) = layout(walk.opcode);
    let here = cursor.peek();
    let [lead, trail] = [before, after].map(|parts| parts.iter().map(|(len, _, _)| len).sum::<u64>());
    let room = walk.left().checked_sub(lead + trail).ok_or(BodyStop::Damaged)?;
    let texts = texts(names, here, lead, room)?;
    let all = lead + trail + texts.iter().flatten().map(|text| text.len() as u64 + 1).sum::<u64>();
    if (here.len() as u64) < all {
        return Err(BodyStop::Wait);
    }
    parts(walk, cursor, before)?;
    match (names, texts) {
        (NameFields::Namespace, [Some(name), _]) => namespace(walk, cursor, name)?,
        (NameFields::Command, [Some(database), Some(command)]) => {
            walk.put(cursor, (Metadata, "database", database.len() as u64))?;
            walk.put(cursor, (Framing, "terminator", 1))?;
            walk.put(cursor, (Query, "command name", command.len() as u64))?;
            walk.put(cursor, (Framing, "terminator", 1))?;
            walk.facts.set_name(command);
        }
        _ => {}
    }
    parts(walk, cursor, after)?;
    read(walk, here);
    open(walk, cursor)
}

/// Returns the texts that start at `at` and take at most `room` bytes.
fn texts(names: NameFields, here: &[u8], at: u64, room: u64) -> Result<[Option<&[u8]>; 2], BodyStop> {
    let at = at as usize;
    if names == NameFields::None {
        return Ok([None, None]);
    }
    let first = c_string(here, at, room)?;
    if names == NameFields::Namespace {
        return Ok([Some(first), None]);
    }
    let room = room.checked_sub(first.len() as u64 + 1).ok_or(BodyStop::Damaged)?;
    let second = c_string(here, at + first.len() + 1, room)?;
    Ok([Some(first), Some(second)])
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

fn read(walk: &mut BodyWalk, here: &[u8]) {
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
    let name: &[u8] = match walk.opcode {
        MongoOpcode::Query if facts.documents => b"find",
        MongoOpcode::Insert => b"insert",
        MongoOpcode::Update => b"update",
        MongoOpcode::Delete => b"delete",
        MongoOpcode::GetMore => b"getMore",
        MongoOpcode::KillCursors => b"killCursors",
        MongoOpcode::OldMsg => b"msg",
        _ => return,
    };
    facts.set_name(name);
}

/// Opens the documents, or queues the rest for posting as it is.
fn open<R: Reader>(walk: &mut BodyWalk, cursor: &mut Cursor<'_, '_, '_, R>) -> Walked {
    let (lead, role) = match walk.opcode {
        MongoOpcode::Msg => return walk.open_sections(cursor.out()),
        MongoOpcode::KillCursors => {
            walk.push(walk.left(), Metadata, "cursor ids");
            return Ok(());
        }
        MongoOpcode::OldMsg => {
            walk.push(walk.left(), Metadata, "text");
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
