//! Removes passwords from command lines before a record keeps them, since people share records.
//!
//! Finds credentials in URLs, options and variables whose names suggest a secret, the short options and commands of database
//! clients, and all of these within a shell script or an SQL statement. A word that may be a secret is treated as one.

/// Replaces a secret.
const MASK: &str = "***";

/// Returns the words of a command line with secrets masked.
pub fn command_line(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut reader = WordReader::default();
    words.into_iter().map(|word| reader.argument(&word)).collect()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Program {
    #[default]
    Other,
    Redis,
    Memtier,
    Mysql,
    /// `-p SECRET`.
    Mongo,
    Nodetool,
    Curl,
}

impl Program {
    fn named(word: &str) -> Option<Self> {
        let name = word.rsplit('/').next().unwrap_or(word);
        let is = |names: &[&str]| names.contains(&name);
        if ["redis-", "valkey-", "keydb-"].iter().any(|start| name.starts_with(start)) || is(&["iredis"]) {
            return Some(Self::Redis);
        }
        if name.starts_with("mysql") || name.starts_with("mariadb") || is(&["mycli"]) {
            return Some(Self::Mysql);
        }
        if name.starts_with("mongo") || is(&["cqlsh", "sshpass", "bsondump"]) {
            return Some(Self::Mongo);
        }
        match name {
            "memtier_benchmark" => Some(Self::Memtier),
            "nodetool" => Some(Self::Nodetool),
            "curl" => Some(Self::Curl),
            _ => None,
        }
    }

    /// Returns how a secret follows the option, if one does.
    fn option(self, word: &str) -> Option<Hide> {
        match (self, word) {
            (Self::Redis | Self::Memtier, "-a") | (Self::Nodetool, "-pw") | (Self::Curl, "-u") => Some(Hide::Words(1)),
            (Self::Mongo, "-p") => Some(Hide::Value),
            _ => None,
        }
    }

    /// Returns the one-letter option that holds its secret in the same word.
    fn joined(self) -> Option<&'static str> {
        match self {
            Self::Mysql | Self::Mongo => Some("-p"),
            Self::Memtier => Some("-a"),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hide {
    #[default]
    Nothing,
    /// This many words, whatever they are.
    Words(u8),
    /// The next word, unless it is an option.
    Value,
    /// The next word if it is quoted; the word after an equals sign in any case.
    Quoted,
}

#[derive(Clone, Debug, Default)]
struct WordReader {
    program: Program,
    hide: Hide,
    before: String,
    /// The words are `ACL SETUSER` rules.
    rules: bool,
}

impl WordReader {
    /// Redacts one argument, which may be a text of several words.
    fn argument(&mut self, argument: &str) -> String {
        if self.hide == Hide::Nothing {
            if let Some((name, value)) = argument.split_once('=')
                && is_name(name)
                && is_secret(name)
                && !value.is_empty()
                && !(value.contains(char::is_whitespace) && self.is_script())
            {
                return format!("{name}={MASK}");
            }
            if argument.contains(char::is_whitespace) {
                return self.text(argument);
            }
        }
        self.word(argument)
    }

    /// Returns whether the next argument is a script: `sh -c`, `bash -lc`.
    fn is_script(&self) -> bool {
        self.before.starts_with('-') && !self.before.starts_with("--") && self.before.ends_with('c')
    }

    /// Redacts a text: a script, a statement or a connection string.
    fn text(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = if first.is_whitespace() { first.len_utf8() } else { word_length(rest) };
            let (word, after) = rest.split_at(length);
            if first.is_whitespace() {
                out.push_str(word);
            } else {
                out.push_str(&self.quoted_or_plain(word));
            }
            rest = after;
        }
        out
    }

    /// Redacts a word of a text, which may be a text itself.
    fn quoted_or_plain(&mut self, word: &str) -> String {
        let quote = word.chars().next().filter(|first| matches!(first, '\'' | '"'));
        let inside = quote.and_then(|quote| word.strip_prefix(quote)?.strip_suffix(quote));
        match (quote, inside) {
            (Some(quote), Some(inside)) if self.hide == Hide::Nothing && inside.contains(char::is_whitespace) => {
                format!("{quote}{}{quote}", self.clone().text(inside))
            }
            _ => self.word(word),
        }
    }

    fn word(&mut self, word: &str) -> String {
        let before = std::mem::replace(&mut self.before, word.to_owned());
        let bare = word.trim_matches(['\'', '"', ';', ')', '(']);
        let quoted = word.starts_with(['\'', '"', '$']);
        match std::mem::take(&mut self.hide) {
            Hide::Quoted if bare == "=" => {
                self.hide = Hide::Words(1);
                return word.to_owned();
            }
            Hide::Words(left) => {
                self.hide = if left > 1 { Hide::Words(left - 1) } else { Hide::Nothing };
                return MASK.to_owned();
            }
            Hide::Value if !word.starts_with('-') => return MASK.to_owned(),
            Hide::Quoted if quoted => return MASK.to_owned(),
            Hide::Nothing | Hide::Value | Hide::Quoted => {}
        }
        if bare.starts_with('-') {
            return self.option(bare).unwrap_or_else(|| pairs(&urls(word)));
        }
        if let Some(program) = Program::named(bare) {
            self.program = program;
            return word.to_owned();
        }
        self.rules |= self.program == Program::Redis && before.eq_ignore_ascii_case("setuser");
        if self.rules && bare.len() > 1 && bare.starts_with(['>', '<', '#', '!']) {
            return format!("{}{MASK}", bare.get(..1).unwrap_or_default());
        }
        self.hide = self.announced(bare, &before);
        pairs(&urls(word))
    }

    /// Returns which of the next words are secret, after a word of a command or statement.
    fn announced(&self, word: &str, before: &str) -> Hide {
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        if self.program == Program::Redis && is("auth") {
            // A password, or a user and a password, follows.
            return Hide::Words(2);
        }
        if is("requirepass") || is("masterauth") {
            return Hide::Words(1);
        }
        let statement = is("password") || is("by") && before.eq_ignore_ascii_case("identified");
        if statement { Hide::Quoted } else { Hide::Nothing }
    }

    /// Redacts an option that has its secret in the same word.
    fn option(&mut self, word: &str) -> Option<String> {
        if let Some(hide) = self.program.option(word) {
            self.hide = hide;
            return Some(word.to_owned());
        }
        if let Some(letter) = self.program.joined()
            && word.starts_with(letter)
            && word.len() > letter.len()
            && !word.contains('=')
        {
            return Some(format!("{letter}{MASK}"));
        }
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if !is_secret(name) || name.len() < 4 {
            return None;
        }
        if value.is_none() {
            self.hide = if self.program == Program::Redis { Hide::Words(1) } else { Hide::Value };
        }
        Some(value.map_or_else(|| word.to_owned(), |_| format!("{name}={MASK}")))
    }
}

/// Returns the length of the first word of a text, in bytes. White space in quotes does not end it.
fn word_length(text: &str) -> usize {
    let (mut open, mut before) = (None, ' ');
    for (at, letter) in text.char_indices() {
        let opens = matches!(letter, '\'' | '"') && matches!(before, ' ' | '=' | '(' | ',' | ':');
        if open == Some(letter) {
            open = None;
        } else if open.is_none() {
            if letter.is_whitespace() {
                return at;
            }
            let closes = || text.get(at + 1..).is_some_and(|rest| rest.contains(letter));
            open = (opens && closes()).then_some(letter);
        }
        before = letter;
    }
    text.len()
}

/// Redacts `scheme://user:SECRET@host` anywhere in a word.
fn urls(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some((scheme, after)) = rest.split_once("://") {
        out.extend([scheme, "://"]);
        let end =
            after.find(|letter: char| letter.is_whitespace() || matches!(letter, '\'' | '"')).unwrap_or(after.len());
        let (url, next) = after.split_at(end);
        match credentials(url) {
            Some((user, host)) => {
                out.extend([user, ":", MASK]);
                // The rest may contain another URL.
                rest = after.get(url.len() - host.len()..).unwrap_or(next);
            }
            None => rest = after,
        }
    }
    out + rest
}

/// Returns the user of a URL that has a password, and everything from the `@` on.
fn credentials(url: &str) -> Option<(&str, &str)> {
    let authority = url.split(['/', '?', '#']).next().unwrap_or(url);
    let (user, after) = url.split_once(':')?;
    let at = match authority.rfind('@') {
        Some(at) => at,
        // A password with an unescaped slash is possible; a port has only digits.
        None if after.split(['/', '?', '#']).next()?.bytes().all(|byte| byte.is_ascii_digit()) => return None,
        None => url.rfind('@')?,
    };
    let has_password = user.len() < at && !user.contains(['/', '?', '#', '@']) && at > user.len() + 1;
    if has_password { Some((user, url.get(at..)?)) } else { None }
}

/// Redacts `name=SECRET` and `"name":"SECRET"` anywhere in a word.
fn pairs(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find(['=', ':']) {
        let (name, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default());
        let sign = rest.get(at..=at).unwrap_or_default();
        out.extend([name, sign]);
        rest = after;
        let bare = name.trim_end_matches(['\'', '"']);
        let start = bare.rfind(|letter: char| !(letter.is_ascii_alphanumeric() || "_-.".contains(letter)));
        let key = start.map_or(bare, |start| bare.get(start + 1..).unwrap_or_default());
        // A colon has many meanings; it separates a name from a secret only before a quote.
        let quote = after.chars().next().filter(|first| matches!(first, '\'' | '"'));
        if !is_secret(key) || sign == ":" && quote.is_none() {
            continue;
        }
        let in_url = start.is_some_and(|start| matches!(bare.as_bytes().get(start), Some(b'?' | b'&')));
        let end = match quote {
            Some(quote) => after.get(1..).and_then(|inside| inside.find(quote)).map_or(after.len(), |end| end + 2),
            None if in_url => after.find('&').unwrap_or(after.len()),
            None => after.find(['\'', '"']).unwrap_or(after.len()),
        };
        if end > 0 {
            out.push_str(MASK);
        }
        rest = after.get(end..).unwrap_or_default();
    }
    out + rest
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Returns whether an option or variable with this name holds a secret.
fn is_secret(name: &str) -> bool {
    // The shell's working directory.
    if matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    let mut parts = name.split(['-', '_', '.']);
    if parts.next() == Some("no") {
        return false;
    }
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or_default();
    let whole: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let lasts = ["pass", "pwd", "pw", "auth", "token", "credential", "credentials", "authenticate"];
    let ends = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "apikey",
        "secretkey",
        "accesskey",
        "authtoken",
        "requirepass",
        "masterauth",
    ];
    lasts.contains(&last) || ends.iter().any(|end| whole.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the words of a line, separated by spaces; `~` within a word stands for a space.
    #[track_caller]
    fn becomes(line: &str, expected: &str) {
        let words = line.split(' ').map(|word| word.replace('~', " "));
        let found: Vec<String> = command_line(words).into_iter().map(|word| word.replace(' ', "~")).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn urls_lose_their_passwords() {
        becomes("psql postgres://u:hunter2@db:5432/app?x=1", "psql postgres://u:***@db:5432/app?x=1");
        becomes("c redis://:hunter2@127.0.0.1:6379/0", "c redis://:***@127.0.0.1:6379/0");
        becomes("c mongodb://a:p@ss@h1,h2/db", "c mongodb://a:***@h1,h2/db");
        becomes("c redis://:hun/ter#2@host", "c redis://:***@host");
        becomes("c --url=mysql://a:b@h/d", "c --url=mysql://a:***@h/d");
        becomes("c x://a:b@h,y://c:d@i", "c x://a:***@h,y://c:***@i");
        becomes("c jdbc:postgresql://h/d?user=x&password=s&ssl=1", "c jdbc:postgresql://h/d?user=x&password=***&ssl=1");
    }

    #[test]
    fn urls_without_passwords_stay() {
        for line in ["c http://h:80/a@b", "c redis://127.0.0.1:6379", "c postgres://u@h/d", "c file:///a/b"] {
            becomes(line, line);
        }
    }

    #[test]
    fn options_whose_names_say_so_lose_their_values() {
        becomes("c --password=hunter2 --pass hunter2 -h x", "c --password=*** --pass *** -h x");
        becomes(
            "sysbench --mysql-password=s --pgsql-password=s run",
            "sysbench --mysql-password=*** --pgsql-password=*** run",
        );
        becomes(
            "c --auth-token s --api-key s --secretAccessKey=s",
            "c --auth-token *** --api-key *** --secretAccessKey=***",
        );
        becomes("redis-server --requirepass s --masterauth s", "redis-server --requirepass *** --masterauth ***");
        becomes("ycsb -p redis.password=s -p redis.port=1", "ycsb -p redis.password=*** -p redis.port=1");
        becomes("cassandra-stress -mode native user=u password=s", "cassandra-stress -mode native user=u password=***");
    }

    #[test]
    fn options_that_hold_none_stay() {
        for line in [
            "psql -W -p 5432 --no-password -h x",
            "psql --password -h x",
            "redis-cli --no-auth-warning -p 6379",
            "pgbench -p 7432 -c 2",
            "mongosh --authenticationDatabase admin --port 1",
            "env PWD=/home/u TERM=x c",
            "overhead capture -p 17 --db redis",
            "c --password-file /etc/x --passfile=/y bypass=1",
        ] {
            becomes(line, line);
        }
    }

    #[test]
    fn the_clients_own_options_are_known() {
        becomes("redis-cli -p 6379 -a hunter2 get a", "redis-cli -p 6379 -a *** get a");
        becomes("/opt/bin/redis-benchmark -a -dashed -t get", "/opt/bin/redis-benchmark -a *** -t get");
        becomes("valkey-cli --user u --pass s ping", "valkey-cli --user u --pass *** ping");
        becomes("memtier_benchmark -as -n 1", "memtier_benchmark -a*** -n 1");
        becomes("mysql -u root -phunter2 -P 3306", "mysql -u root -p*** -P 3306");
        becomes("mongosh -u a -p hunter2 db", "mongosh -u a -p *** db");
        becomes("cqlsh -u a -p hunter2 h", "cqlsh -u a -p *** h");
        becomes("nodetool -u a -pw s status", "nodetool -u a -pw *** status");
        becomes("sudo docker exec r redis-cli -a s ping", "sudo docker exec r redis-cli -a *** ping");
    }

    #[test]
    fn commands_and_statements_are_known() {
        becomes("redis-cli AUTH s", "redis-cli AUTH ***");
        becomes("redis-cli hello 3 auth u s", "redis-cli hello 3 auth *** ***");
        becomes("redis-cli config set requirepass s", "redis-cli config set requirepass ***");
        becomes("redis-cli acl setuser u on >s ~*", "redis-cli acl setuser u on >*** ~*");
        becomes("psql -c ALTER~USER~x~PASSWORD~'my~s';", "psql -c ALTER~USER~x~PASSWORD~***");
        becomes("mysql -e CREATE~USER~x~IDENTIFIED~BY~'s'", "mysql -e CREATE~USER~x~IDENTIFIED~BY~***");
    }

    #[test]
    fn variables_lose_their_values() {
        becomes("env PGPASSWORD=s psql", "env PGPASSWORD=*** psql");
        becomes("env REDISCLI_AUTH=a~b MYSQL_PWD=s c", "env REDISCLI_AUTH=*** MYSQL_PWD=*** c");
    }

    #[test]
    fn texts_are_read_like_command_lines() {
        becomes("sh -c redis-cli~-a~hunter2~get~x", "sh -c redis-cli~-a~***~get~x");
        becomes("sh -c PGPASSWORD='a~b'~psql~-c~'select~1'", "sh -c PGPASSWORD=***~psql~-c~'select~1'");
        becomes("sh -c ssh~h~'redis-cli~-a~s'", "sh -c ssh~h~'redis-cli~-a~***'");
        becomes("psql host=h~password=s~dbname=d", "psql host=h~password=***~dbname=d");
        becomes("psql host=h~password~=~'a~b'", "psql host=h~password~=~***");
        becomes("c {\"user\":\"u\",\"password\":\"s\"}", "c {\"user\":\"u\",\"password\":***}");
        becomes("sh -c echo~it's~a~test;~redis-cli~ping", "sh -c echo~it's~a~test;~redis-cli~ping");
    }

    #[test]
    fn nothing_breaks_on_odd_words() {
        for word in ["", "=", "://", ":", "'", "\"", "--", "-", "é=ü", "a://:@", "password=", "\u{202e}://ü:ß@é"] {
            let _ = command_line([word.to_owned(), format!("{word} {word}")]);
        }
    }
}
