//! Commands of a client ("Command Phase" in `MySQL`'s manual; `MariaDB`'s own from 250 on).

use super::pair::ExpectedResponse;
use overhead_model::Class;

pub(super) const QUIT: u8 = 1;
pub(super) const INIT_DB: u8 = 2;
pub(super) const QUERY: u8 = 3;
pub(super) const FIELD_LIST: u8 = 4;
pub(super) const CREATE_DB: u8 = 5;
pub(super) const DROP_DB: u8 = 6;
pub(super) const CHANGE_USER: u8 = 17;
pub(super) const BINLOG_DUMP: u8 = 18;
pub(super) const TABLE_DUMP: u8 = 19;
pub(super) const REGISTER_REPLICA: u8 = 21;
pub(super) const STMT_PREPARE: u8 = 22;
pub(super) const STMT_EXECUTE: u8 = 23;
pub(super) const STMT_SEND_LONG_DATA: u8 = 24;
pub(super) const STMT_CLOSE: u8 = 25;
pub(super) const STMT_RESET: u8 = 26;
pub(super) const STMT_FETCH: u8 = 28;
pub(super) const BINLOG_DUMP_GTID: u8 = 30;
pub(super) const RESET_CONNECTION: u8 = 31;
pub(super) const STMT_BULK_EXECUTE: u8 = 250;
pub(super) const CLONE: u8 = 32;
pub(super) const CLONE_EXIT: u8 = 6;
/// Acknowledgment of a replica: not a command, and not answered.
pub(super) const SEMI_SYNC: u8 = 0xef;

#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub name: &'static str,
    pub class: Class,
    /// `None` if there is no reply.
    pub kind: Option<ExpectedResponse>,
}

/// Returns the description of a command, if there is one. Operations with a statement are named after it instead.
pub(super) fn command(code: u8) -> Option<Command> {
    let result = |name, class| (name, class, Some(ExpectedResponse::Result { is_binary: Some(false) }));
    let (name, class, kind) = match code {
        QUIT => ("TERMINATE", Class::Setup, None),
        INIT_DB => result("USE", Class::Setup),
        QUERY => result("QUERY", Class::Workload),
        FIELD_LIST => ("FIELD LIST", Class::Workload, Some(ExpectedResponse::FieldList)),
        CREATE_DB => result("CREATE DB", Class::Workload),
        DROP_DB => result("DROP DB", Class::Workload),
        7 => result("REFRESH", Class::Workload),
        8 => result("SHUTDOWN", Class::Workload),
        9 => ("STATISTICS", Class::Workload, Some(ExpectedResponse::Text)),
        10 => result("PROCESS INFO", Class::Workload),
        12 => result("PROCESS KILL", Class::Workload),
        13 => result("DEBUG", Class::Workload),
        14 => result("PING", Class::Workload),
        CHANGE_USER => ("CHANGE USER", Class::Setup, Some(ExpectedResponse::ChangeUser)),
        BINLOG_DUMP | BINLOG_DUMP_GTID => ("BINLOG DUMP", Class::Background, Some(ExpectedResponse::Stream)),
        TABLE_DUMP => ("TABLE DUMP", Class::Background, Some(ExpectedResponse::Stream)),
        REGISTER_REPLICA => result("REGISTER SLAVE", Class::Background),
        STMT_PREPARE => ("PREPARE", Class::Setup, Some(ExpectedResponse::Prepare)),
        STMT_EXECUTE | STMT_BULK_EXECUTE => {
            ("EXECUTE", Class::Workload, Some(ExpectedResponse::Result { is_binary: Some(true) }))
        }
        STMT_SEND_LONG_DATA => ("LONG DATA", Class::Workload, None),
        STMT_CLOSE => ("CLOSE", Class::Setup, None),
        STMT_RESET => result("STMT RESET", Class::Workload),
        27 => result("SET OPTION", Class::Workload),
        STMT_FETCH => ("FETCH", Class::Workload, Some(ExpectedResponse::Fetch)),
        RESET_CONNECTION => result("RESET", Class::Setup),
        CLONE => ("CLONE", Class::Background, Some(ExpectedResponse::Stream)),
        33 => ("GROUP REPLICATION STREAM", Class::Background, Some(ExpectedResponse::Stream)),
        _ => return None,
    };
    Some(Command { name, class, kind })
}

/// Returns whether a client packet with this first byte belongs to a clone in progress: `INIT` to `EXIT`.
pub(super) fn is_of_clone(first: Option<u8>) -> bool {
    matches!(first, Some(1..=CLONE_EXIT))
}

/// Returns whether a response with this first byte ends a command of a clone: `COMPLETE` or `ERROR`.
pub(super) fn ends_clone(first: u8) -> bool {
    matches!(first, 99 | 100)
}

/// Returns whether a command with this code may have this length.
pub(super) fn fits(code: u8, len: u64) -> bool {
    match code {
        QUIT | 9 | 10 | 13 | 14 | RESET_CONNECTION => len == 1,
        STMT_CLOSE | STMT_RESET => len == 5,
        STMT_FETCH => len == 9,
        27 => len == 3,
        STMT_EXECUTE => len >= 10,
        STMT_SEND_LONG_DATA | STMT_BULK_EXECUTE => len >= 7,
        12 => len == 5,
        _ => command(code).is_some() && len >= 1,
    }
}
