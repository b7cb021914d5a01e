//! The fields of a message that stand before its documents.

use super::roles::Role;
use super::walk::{Stop, Walk, c_string};
use super::wire::{Opcode, REPLY_FAILED, u32_at};
use overhead_decode::{Cursor, Reader};
use overhead_model::Account::{self, Framing, Metadata, Query};

/// A field of fixed length.
type Part = (u64, Account, &'static str);

const FLAGS: Part = (4, Metadata, "flags");
const RESERVED: Part = (4, Framing, "reserved");
const CURSOR: Part = (8, Metadata, "cursor id");
const LIMIT: Part = (4, Metadata, "number to return");

/// Texts, each ended by NUL, that a message names its object with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    None,
    /// `database.collection`
    Namespace,
    /// Database; command.
    Command,
}

/// The fields of a message before its documents.
struct Layout {
    before: &'static [Part],
    names: Names,
    after: &'static [Part],
}

fn layout(opcode: Opcode) -> Layout {
    let (before, names, after): (&[Part], _, &[Part]) = match opcode {
        Opcode::Msg => (&[FLAGS], Names::None, &[]),
        Opcode::Reply => {
            const REPLY: &[Part] = &[FLAGS, CURSOR, (4, Metadata, "starting from"), (4, Framing, "number returned")];
            (REPLY, Names::None, &[])
        }
        Opcode::Query => (&[FLAGS], Names::Namespace, &[(4, Metadata, "number to skip"), LIMIT]),
        Opcode::Insert => (&[FLAGS], Names::Namespace, &[]),
        Opcode::Update | Opcode::Delete => (&[RESERVED], Names::Namespace, &[FLAGS]),
        Opcode::GetMore => (&[RESERVED], Names::Namespace, &[LIMIT, CURSOR]),
        Opcode::KillCursors => (&[RESERVED, (4, Framing, "cursor count")], Names::None, &[]),
        Opcode::Command => (&[], Names::Command, &[]),
        Opcode::CommandReply | Opcode::OldMsg | Opcode::Compressed => (&[], Names::None, &[]),
    };
    Layout { before, names, after }
}

/// Posts them, all at once, and opens what follows.
pub(super) fn fixed<R: Reader>(walk: &mut Walk, cursor: &mut Cursor<'_, '_, '_, R>) -> Result<(), Stop> {
    let Layout { before, names, after } = layout(walk.opcode);
    let here = cursor.peek();
    let [lead, trail] = [before, after].map(|parts| parts.iter().map(|(len, _, _)| len).sum::<u64>());
    let room = walk.left().checked_sub(lead + trail).ok_or(Stop::Damaged)?;
    let texts = texts(names, here, lead, room)?;
    let all = lead + trail + texts.iter().flatten().map(|text| text.len() as u64 + 1).sum::<u64>();
    if (here.len() as u64) < all {
        return Err(Stop::Wait);
    }
    parts(walk, cursor, before)?;
    match (names, texts) {
        (Names::Namespace, [Some(name), _]) => namespace(walk, cursor, name)?,
        (Names::Command, [Some(database), Some(command)]) => {
            walk.put(cursor, database.len() as u64, Metadata, "database")?;
            walk.put(cursor, 1, Framing, "terminator")?;
            walk.put(cursor, command.len() as u64, Query, "command name")?;
            walk.put(cursor, 1, Framing, "terminator")?;
            walk.facts.set_name(command);
        }
        _ => {}
    }
    parts(walk, cursor, after)?;
    read(walk, here);
    open(walk, cursor)
}

/// The texts of `names` from `at` on, which may take `room` bytes.
fn texts(names: Names, here: &[u8], at: u64, room: u64) -> Result<[Option<&[u8]>; 2], Stop> {
    let at = at as usize;
    if names == Names::None {
        return Ok([None, None]);
    }
    let first = c_string(here, at, room)?;
    if names == Names::Namespace {
        return Ok([Some(first), None]);
    }
    let room = room.checked_sub(first.len() as u64 + 1).ok_or(Stop::Damaged)?;
    let second = c_string(here, at + first.len() + 1, room)?;
    Ok([Some(first), Some(second)])
}

fn parts<R: Reader>(walk: &mut Walk, cursor: &mut Cursor<'_, '_, '_, R>, parts: &'static [Part]) -> Result<(), Stop> {
    for &(len, account, field) in parts {
        walk.put(cursor, len, account, field)?;
    }
    Ok(())
}

/// The database is metadata and the collection query. The pseudo-collection of commands is neither.
fn namespace<R: Reader>(walk: &mut Walk, cursor: &mut Cursor<'_, '_, '_, R>, name: &[u8]) -> Result<(), Stop> {
    let dot = memchr::memchr(b'.', name).unwrap_or(name.len());
    let (database, rest) = name.split_at(dot);
    let collection = rest.get(1..).unwrap_or_default();
    walk.put(cursor, database.len() as u64, Metadata, "database")?;
    walk.put(cursor, (rest.len() - collection.len()) as u64, Framing, "separator")?;
    if walk.opcode == Opcode::Query && collection == b"$cmd" {
        walk.put(cursor, collection.len() as u64, Metadata, "command collection")?;
    } else {
        walk.put(cursor, collection.len() as u64, Query, "collection")?;
        walk.facts.set_collection(collection);
        walk.facts.documents = walk.opcode == Opcode::Query;
    }
    walk.put(cursor, 1, Framing, "terminator")
}

/// What the fields say.
fn read(walk: &mut Walk, here: &[u8]) {
    let facts = &mut walk.facts;
    match walk.opcode {
        Opcode::Msg | Opcode::Query => facts.flags = u32_at(here, 0).unwrap_or_default(),
        Opcode::Reply => {
            facts.flags = u32_at(here, 0).unwrap_or_default();
            facts.failed = facts.flags & REPLY_FAILED > 0;
            facts.cursor_open = here.get(4..12).is_some_and(|id| id.iter().any(|&byte| byte > 0));
        }
        _ => {}
    }
    let name: &[u8] = match walk.opcode {
        Opcode::Query if facts.documents => b"find",
        Opcode::Insert => b"insert",
        Opcode::Update => b"update",
        Opcode::Delete => b"delete",
        Opcode::GetMore => b"getMore",
        Opcode::KillCursors => b"killCursors",
        Opcode::OldMsg => b"msg",
        _ => return,
    };
    facts.set_name(name);
}

/// Opens the documents, or has the rest posted as it is.
fn open<R: Reader>(walk: &mut Walk, cursor: &mut Cursor<'_, '_, '_, R>) -> Result<(), Stop> {
    let (lead, role) = match walk.opcode {
        Opcode::Msg => return walk.open_sections(cursor.out()),
        Opcode::KillCursors => {
            walk.push(walk.left(), Metadata, "cursor ids");
            return Ok(());
        }
        Opcode::OldMsg => {
            walk.push(walk.left(), Metadata, "text");
            return Ok(());
        }
        Opcode::Query if walk.facts.documents => (Role::Selector, Role::Shape),
        Opcode::Query => (Role::Command, Role::Shape),
        Opcode::Insert => (Role::Document, Role::Document),
        Opcode::Command => (Role::Options, Role::Command),
        Opcode::Reply if walk.facts.failed => (Role::Reply, Role::Reply),
        Opcode::Reply => (walk.reply, walk.reply),
        Opcode::CommandReply => (Role::Reply, Role::Reply),
        Opcode::Update | Opcode::Delete | Opcode::GetMore | Opcode::Compressed => (Role::Expression, Role::Expression),
    };
    walk.open_documents(cursor.out(), lead, role);
    Ok(())
}
