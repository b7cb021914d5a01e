//! Plans the runs of a sweep, with their order and folders.

use super::parameter::{SweepParameter, assigned, combinations, filled};
use super::repetition::Repetition;
use std::path::Path;

/// One combination of values with its runs.
#[derive(Clone, Debug)]
pub struct PlannedPoint {
    /// The folder of its runs below the sweep's, such as `P=1,c=16`.
    pub folder: String,
    /// One run per round.
    pub runs: Vec<Repetition>,
    /// A warm-up run before the counted ones.
    pub warm_up: Repetition,
}

/// Returns the points of a sweep that writes to `folder`.
pub fn points(folder: &Path, parameters: &[SweepParameter], command: &[String], runs: u32) -> Vec<PlannedPoint> {
    let mut points: Vec<PlannedPoint> = Vec::new();
    for values in combinations(parameters) {
        let mut name = name(parameters, &values);
        // Values may differ only in characters that the folder name replaces or cuts.
        while points.iter().any(|point| point.folder == name) {
            name.push('_');
        }
        // Without parameters, braces belong to the command.
        let command = if parameters.is_empty() { command.to_vec() } else { filled(command, parameters, &values) };
        let repetition = |of: String, keep: bool| Repetition {
            folder: folder.join(&name).join(&of),
            name: if name.is_empty() { of } else { format!("{name}/{of}") },
            command: command.clone(),
            parameters: assigned(parameters, &values),
            keep,
        };
        points.push(PlannedPoint {
            runs: (1..=runs).map(|number| repetition(format!("run-{number}"), true)).collect(),
            warm_up: repetition("warm-up".to_owned(), false),
            folder: name,
        });
    }
    points
}

/// Returns a folder name such as `P=1,c=16`, with `_` for unsafe characters.
fn name(parameters: &[SweepParameter], values: &[String]) -> String {
    let harmless = |letter: char| if letter.is_ascii_alphanumeric() || "._+-".contains(letter) { letter } else { '_' };
    let one = |(parameter, value): (&SweepParameter, &String)| {
        format!("{}={}", parameter.name, value.chars().take(LONGEST).map(harmless).collect::<String>())
    };
    parameters.iter().zip(values).map(one).collect::<Vec<_>>().join(",")
}

/// Maximum characters of a value in a file name, which can have 255 in total.
const LONGEST: usize = 40;

/// Returns the order of the points in a round. Each round starts one point later than the previous one, so that slow drift
/// affects all points alike.
pub fn order(points: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..points).map(move |at| (at + round) % points)
}

#[cfg(test)]
mod tests {
    use super::super::parameter::parse;
    use super::*;

    #[test]
    fn each_run_has_a_folder_and_a_command_of_its_own() {
        let parameters = [parse("P=1,10").unwrap(), parse("url=a/b,a:b").unwrap()];
        let command = ["run", "{P}", "{url}"].map(str::to_owned);
        let points = points(Path::new("out"), &parameters, &command, 2);
        let folders: Vec<&str> = points.iter().map(|point| &*point.folder).collect();
        assert_eq!(folders, ["P=1,url=a_b", "P=1,url=a_b_", "P=10,url=a_b", "P=10,url=a_b_"]);
        let last = &points[3].runs[1];
        assert_eq!(last.folder, Path::new("out/P=10,url=a_b_/run-2"));
        assert_eq!((&*last.name, last.command.join(" ")), ("P=10,url=a_b_/run-2", "run 10 a:b".to_owned()));
        assert!(last.keep && !points[3].warm_up.keep);
    }

    #[test]
    fn where_nothing_varies_the_runs_lie_in_the_folder_itself() {
        let command = ["run", "{P}", "{{x}}"].map(str::to_owned);
        let points = points(Path::new("out"), &[], &command, 2);
        let [point] = points.as_slice() else { panic!("{points:?}") };
        assert_eq!(point.runs[1].folder, Path::new("out/run-2"));
        assert_eq!((&*point.runs[1].name, point.runs[1].command.as_slice()), ("run-2", &command[..]));
    }

    #[test]
    fn every_round_has_every_point_once_in_another_order() {
        let rounds: Vec<Vec<usize>> = (0..4).map(|round| order(3, round).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
    }
}
