//! What ends the help of each verb, and its man page: examples and exit statuses.

use clap::Command;

const STATUS: &str = "Exit status: 0 complete, 1 failed, 2 usage, 3 finished but partial";

/// Examples of the verbs whose arguments do not have them.
const EXAMPLES: [(&str, &str); 6] = [
    (
        "capture",
        "\
Examples:
  sudo overhead capture -i eth0 --db scylla                                      until Ctrl-C
  sudo overhead capture -i lo --db redis -o runs/get -- redis-benchmark -t get -n 100000
  sudo overhead capture --container cache --duration 10
  sudo overhead capture -i any --db postgres --port 5433 -w trace.pcapng -c 1000",
    ),
    (
        "analyze",
        "\
Examples:
  overhead analyze trace.pcap
  overhead analyze trace.pcap --db postgres --port 5433
  overhead analyze trace.pcap --by client --price 0.02/GB --per month
  overhead analyze trace.pcap.gz --from +2s --to +10s --format json",
    ),
    (
        "report",
        "\
Examples:
  overhead report runs/a runs/b -o report/
  overhead report runs/a --label runs/a=before --theme dark
  overhead report sweep -o sweep-report",
    ),
    (
        "top",
        "\
Examples:
  sudo overhead top -i eth0 --db postgres
  sudo overhead top --once --by client
  overhead top trace.pcap --sort latency",
    ),
    (
        "agent",
        "\
Examples:
  sudo overhead agent --dry-run
  overhead agent --print-config                          settings to start from, for --config
  sudo overhead agent --duration 1m",
    ),
    (
        "doctor",
        "\
Examples:
  sudo overhead doctor",
    ),
];

/// Exit statuses of the verbs that have others.
const STATUSES: [(&str, &str); 4] = [
    ("capture", ". With a command, its own, if it ended by itself."),
    ("sweep", "."),
    ("compare", ", 4 over a limit of --fail-on."),
    ("doctor", ": something cannot be measured on this machine."),
];

/// Adds examples and exit statuses to the verbs that lack them.
pub fn with_examples(command: Command) -> Command {
    command.mut_subcommands(|verb| {
        let find =
            |of: &[(&str, &'static str)]| of.iter().find(|(name, _)| *name == verb.get_name()).map(|(_, text)| *text);
        let said = verb.get_after_long_help().or(verb.get_after_help()).map(ToString::to_string);
        if verb.is_hide_set() || said.as_ref().is_some_and(|said| said.contains("Exit status: ")) {
            return verb;
        }
        let examples = said.unwrap_or_else(|| find(&EXAMPLES).unwrap_or_default().to_owned());
        let status = find(&STATUSES).unwrap_or(" (a warning says why).");
        let long = format!("{examples}\n\n{STATUS}{status}");
        verb.after_long_help(long.trim_start().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use crate::cli;

    /// Divides a line as a shell does.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        let of_part = |(at, part): (usize, &str)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        };
        parts.flat_map(of_part).collect()
    }

    #[test]
    fn examples_are_commands_that_parse() {
        let command = cli::command();
        let mut examples = 0;
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let help = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            let lines =
                help.lines().filter_map(|line| line.trim_start().trim_start_matches("sudo ").split("   ").next());
            for line in lines.filter(|line| line.starts_with("overhead ")) {
                let parsed = command.clone().try_get_matches_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                examples += 1;
            }
        }
        assert!(examples > 20, "{examples}");
    }
}
