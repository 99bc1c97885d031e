use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::*;

/// A directory with an ignore file.
struct Project(TempDir);

impl Project {
    fn new(text: impl AsRef<[u8]>) -> Project {
        let project = Project(tempfile::tempdir().unwrap());
        fs::write(project.ignore_file(), text).unwrap();
        project
    }

    fn ignore_file(&self) -> PathBuf {
        self.0.path().join(".geminiignore")
    }

    fn names(&self, path: &str) -> Result<bool> {
        names(&self.ignore_file(), &self.0.path().join(path))
    }

    fn fault(&self, path: &str) -> String {
        format!("{:#}", self.names(path).unwrap_err())
    }
}

/// Whether the system can have a file with this name.
fn can_be_name(path: &str) -> bool {
    !cfg!(windows) || !path.contains(['\\', ':'])
}

#[test]
fn patterns_are_those_of_gitignore() {
    for (text, path, expected) in [
        ("secret.txt", "deep/down/secret.txt", true),
        ("secret.txt", "secret.txt.old", false),
        ("secret.txt", "my-secret.txt", false),
        ("/secret.txt", "deep/secret.txt", false),
        ("build/", "x/build/out.txt", true),
        ("build/", "build", false),
        ("build", "build/out.txt", true),
        ("*.log\n!keep.log", "keep.log", false),
        ("!keep.log\n*.log", "keep.log", true),
        ("a/**/b", "a/x/y/b", true),
        ("a/**/b", "a/b", true),
        ("a/**\n!a/x", "a/x/y", true),
        ("a/*\n!a/x", "a/x/y", false),
        ("a/**\\/b", "a/x/y/b", true),
        ("**/a/b", "x/a/b", true),
        ("a/*/c", "a/x/y/c", false),
        ("x/a**/b", "x/ab/c/b", true),
        ("x/[a]**/b", "x/ab/c/b", false),
        ("# comment\n\n  \n", "comment", false),
        ("\\#odd", "#odd", true),
        ("\\!odd", "!odd", true),
        ("sp\\ ", "sp ", true),
        ("sp\\\\ ", "sp\\", true),
        ("sp  ", "sp", true),
        ("a[", "a[", false),
        ("a\\", "a\\", false),
        ("[!a-c]x", "dx", true),
        ("[]-]", "]", true),
        ("[a-]", "-", true),
        ("[[:nonsense:]]", "n", false),
        ("x[!a]y", "x/y", false),
        ("x?y", "x/y", false),
        ("crlf.txt\r\n", "crlf.txt", true),
        ("crlf.txt\r", "crlf.txt", true),
        ("\u{feff}first", "first", true),
        ("build/\n!build/keep", "build/keep", true),
        ("build/*\n!build/keep", "build/keep", false),
        ("a/b", "x/a/b", false),
        ("Secret.TXT", "secret.txt", true),
        ("secret.txt", "SECRET.txt", true),
        ("[A-C]x", "bX", true),
        ("[!B]x", "bx", false),
        ("[!bB]x", "bx", false),
        ("[aA]x", "Ax", true),
        ("[a-cB]x", "bx", true),
        ("*字.txt", "漢字.txt", true),
        ("a\\\\b", "a\\b", true),
        ("/", "a", false),
    ]
    .into_iter()
    .filter(|(_, path, _)| can_be_name(path))
    {
        assert_eq!(Project::new(text).names(path).unwrap(), expected, "{text:?} and {path:?}");
    }
}

#[test]
fn classes_are_those_of_the_c_locale() {
    // Of what is no letter; letters are compared whatever their case.
    for (class, others) in [
        ("alnum", "0123456789"),
        ("alpha", ""),
        ("blank", "\t "),
        ("cntrl", "\t\r\u{1}\u{7f}"),
        ("digit", "0123456789"),
        ("graph", "0123456789!-:@[`{~"),
        ("lower", ""),
        ("print", "0123456789!-:@[`{~ "),
        ("punct", "!-:@[`{~"),
        ("space", "\t\r "),
        ("upper", ""),
        ("xdigit", "0123456789"),
    ] {
        let project = Project::new(format!("x[[:{class}:]]y"));
        let is_in = |char: &char| project.names(&format!("x{char}y")).unwrap();
        let all = "\t\r\u{1}\u{7f}0123456789!-:@[`{~ ";
        let all = || all.chars().filter(|char| can_be_name(&char.to_string()));
        let found: String = all().filter(is_in).collect();
        assert!(found.chars().eq(all().filter(|char| others.contains(*char))), "{class}");
        let letters: String = "afgz".chars().filter(is_in).collect();
        let expected = match class {
            "blank" | "cntrl" | "digit" | "punct" | "space" => "",
            "xdigit" => "af",
            _ => "afgz",
        };
        assert_eq!(letters, expected, "{class}");
    }
}

#[test]
fn a_file_that_changes_is_read_again() {
    let project = Project::new("");
    let is_named = || project.names("a").unwrap();
    let write = |text| fs::write(project.ignore_file(), text).unwrap();
    assert!(!is_named());
    write("a\n");
    assert!(is_named());
    write("b and c\n");
    assert!(!is_named());
    write("a\n");
    assert!(is_named());
    fs::remove_file(project.ignore_file()).unwrap();
    assert!(!is_named());
}

#[test]
#[cfg(unix)]
fn a_file_that_is_replaced_by_one_of_the_same_size_and_time_is_read_again() {
    let project = Project::new("a");
    let modified = fs::metadata(project.ignore_file()).unwrap().modified().unwrap();
    assert!(project.names("a").unwrap());
    let other = project.0.path().join("other");
    fs::write(&other, "b").unwrap();
    std::fs::File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
    fs::rename(&other, project.ignore_file()).unwrap();
    assert!(!project.names("a").unwrap());
    assert!(project.names("b").unwrap());
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let project = Project::new("a");
    assert!(names(&project.ignore_file(), Path::new("/elsewhere/a")).is_err());
    fs::remove_file(project.ignore_file()).unwrap();
    fs::create_dir(project.ignore_file()).unwrap();
    assert_eq!(project.fault("a"), "cannot be read: it is not a regular file");
    let project = Project::new(vec![b'\n'; MAX_SIZE as usize]);
    assert!(!project.names("a").unwrap());
    let project = Project::new(vec![b'\n'; MAX_SIZE as usize + 1]);
    assert_eq!(project.fault("a"), "cannot be read: it is larger than 32768 bytes");
}

#[test]
#[cfg(unix)]
fn a_fifo_or_a_device_is_not_waited_for() {
    let project = Project::new("a");
    fs::remove_file(project.ignore_file()).unwrap();
    assert!(Command::new("mkfifo").arg(project.ignore_file()).status().unwrap().success());
    assert_eq!(project.fault("a"), "cannot be read: it is not a regular file");
    // One that took the place of a file after that was looked at.
    assert!(Known::read(&project.ignore_file()).is_err());
    fs::remove_file(project.ignore_file()).unwrap();
    std::os::unix::fs::symlink("/dev/zero", project.ignore_file()).unwrap();
    assert_eq!(project.fault("a"), "cannot be read: it is not a regular file");
    fs::remove_file(project.ignore_file()).unwrap();
    std::os::unix::fs::symlink(".geminiignore", project.ignore_file()).unwrap();
    assert!(project.fault("a").starts_with("cannot be read: "));
}

#[test]
fn what_backtracking_would_not_end_is_answered() {
    let deep = "d/".repeat(70) + "README.md";
    let project = Project::new("**/".repeat(30) + "b");
    assert!(!project.names(&deep).unwrap());
    assert!(project.names(&(deep + "/b")).unwrap());
    let project = Project::new("**/*d*/".repeat(30) + "b");
    assert!(!project.names(&"d/".repeat(70)).unwrap());
    assert!(Project::new("*a".repeat(60) + "b").names(&("a".repeat(90) + "b")).unwrap());
    assert!(Project::new("*a".repeat(60)).names(&"a".repeat(60)).unwrap());
}

#[test]
fn too_much_work_is_refused_and_remembered() {
    let path = "a".repeat(4000);
    let project = Project::new("*a".repeat(10_000));
    assert!(project.fault(&path).starts_with("is too costly to match"));
    let known = known(&project.ignore_file()).unwrap().unwrap();
    assert_eq!(known.matcher.verdicts.lock().unwrap()[path.as_bytes()], Err(TooCostly));
    assert!(project.names("b").is_ok());
    assert!(Project::new("\n*a".repeat(10_000)).names("b").is_ok());
}

#[test]
fn verdicts_are_remembered_as_long_as_the_file_is_the_same() {
    let project = Project::new("a");
    assert!(project.names("a").unwrap());
    let first = known(&project.ignore_file()).unwrap().unwrap();
    // What is remembered is believed.
    first.matcher.verdicts.lock().unwrap().insert(b"a".into(), Ok(false));
    assert!(!project.names("a").unwrap());
    fs::write(project.ignore_file(), "a\n").unwrap();
    assert!(project.names("a").unwrap());
    for n in 0..2 * MAX_VERDICTS {
        project.names(&n.to_string()).unwrap();
    }
    let known = known(&project.ignore_file()).unwrap().unwrap();
    assert!(known.matcher.verdicts.lock().unwrap().len() <= MAX_VERDICTS);
}

#[test]
fn only_so_many_ignore_files_are_remembered() {
    let projects: Vec<_> = (0..MAX_KNOWN + 1).map(|_| Project::new("a")).collect();
    for project in &projects {
        assert!(project.names("a").unwrap());
        assert!(lock(&KNOWN).len() <= MAX_KNOWN);
    }
}

#[test]
fn a_thousand_common_lines_are_within_the_budget() {
    let lines = (0..1000).map(|n| match n % 8 {
        0 | 4 => format!("*.ext{n}\n"),
        1 | 5 => format!("/top{n}/\n"),
        2 | 6 | 7 => format!("name-{n}.txt\n"),
        _ => format!("src/**/generated{n}/*.rs\n"),
    });
    let project = Project::new(lines.collect::<String>());
    let path = "src/some/rather/deep/directory/of/a/project/with/long/names/generated3/a.rs";
    assert!(project.names(path).unwrap());
    assert!(!project.names(&path.replace("generated3", "generated4")).unwrap());
}

#[test]
fn a_thousand_lines_that_end_with_a_class_are_within_the_budget() {
    let project = Project::new("*.py[cod]\n".repeat(1000));
    let path = "src/some/rather/deep/directory/of/a/project/with/long/names/module.pyx";
    assert!(!project.names(path).unwrap());
}

/// With this seed and those after it, ignore files and paths are drawn.
const FIRST_SEED: u64 = 1;

/// What ignore files are made of, between bars.
const PIECES: &str = concat!(
    "a|b|c|ab|x|.|1|-|é|*|*|**|**/|/**/|/**|/|/|?|[ab]|[!a]|[^b-c]|[a-|[|]|[]",
    "|[]a]|[!]]|[a-c-x]|[\\]]|[/]|[[:alpha:]]|[![:digit:]x]|[[:punct:]|[[:|:]",
    "|[:nonsense:]|\\|\\*|\\/| |\\ |!|#|\t",
);

fn draw(random: &mut SmallRng, pieces: &[&str], max: usize) -> String {
    (0..random.random_range(1..=max)).map(|_| *pieces.choose(random).unwrap()).collect()
}

fn draw_ignore_file(random: &mut SmallRng) -> String {
    let pieces: Vec<&str> = PIECES.split('|').collect();
    let mut text = String::from(if random.random_ratio(1, 20) { "\u{feff}" } else { "" });
    for _ in 0..random.random_range(1..=4) {
        text += if random.random_ratio(1, 5) { "!" } else { "" };
        text += &draw(random, &pieces, 6);
        text += ["\n", "\n", "\n", "\r\n", "/\n", " \n"].choose(random).unwrap();
    }
    if random.random_ratio(1, 5) {
        text.pop();
    }
    text
}

fn draw_path(random: &mut SmallRng) -> String {
    let bytes = ["a", "b", "c", "ab", "A", "x", ".", "1", "-", "é", " ", "*", "[", "]", "\\", "!"];
    let names: Vec<_> = (0..random.random_range(1..=5))
        .map(|_| draw(random, &bytes, 3))
        .map(|name| if name.chars().all(|char| char == '.') { "a".into() } else { name })
        .collect();
    names.join("/")
}

/// The paths, in this order, that Git says the `.gitignore` of `repository` names.
fn named_by_git(repository: &Path, paths: &[String]) -> Vec<String> {
    let mut git = Command::new("git")
        .args(["-c", "core.ignoreCase=true", "-c", "core.excludesFile=", "check-ignore"])
        .args(["--no-index", "-z", "--stdin"])
        .current_dir(repository)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = git.stdin.take().unwrap();
    stdin.write_all((paths.join("\0") + "\0").as_bytes()).unwrap();
    drop(stdin);
    let output = git.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let names = String::from_utf8(output.stdout).unwrap();
    names.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn git_says_the_same() {
    let project = Project::new("");
    let directory = project.0.path();
    let init = Command::new("git").args(["init", "-q", "--template="]).arg(directory).status();
    if init.is_err() {
        eprintln!("skipped: there is no git");
        return;
    }
    let cases = std::env::var("IGNORE_CASES").map_or(300, |cases| cases.parse().unwrap());
    let mut named = 0;
    for seed in FIRST_SEED..FIRST_SEED + cases {
        let mut random = SmallRng::seed_from_u64(seed);
        let text = draw_ignore_file(&mut random);
        let mut paths: Vec<_> = (0..60).map(|_| draw_path(&mut random)).collect();
        paths.sort();
        paths.dedup();
        fs::write(directory.join(".gitignore"), &text).unwrap();
        fs::write(project.ignore_file(), &text).unwrap();
        let ours = paths.iter().filter(|path| project.names(path).unwrap());
        let ours: Vec<_> = ours.cloned().collect();
        assert_eq!(ours, named_by_git(directory, &paths), "seed {seed}, {text:?}");
        named += ours.len();
    }
    // Else nothing was compared.
    assert!(named > 3 * cases as usize, "{named}");
}

#[test]
fn work_is_bounded_by_the_lengths() {
    let pieces = ["*", "**/", "/", "a", "?", "[a]", "[!b]", "*a", "**/*", "/**", "\n", "\n!"];
    for seed in FIRST_SEED..FIRST_SEED + 2000 {
        let mut random = SmallRng::seed_from_u64(seed);
        let text = draw(&mut random, &pieces, 60);
        let path = draw(&mut random, &["a", "a/", "b", "aa/aa/"], 60);
        let lines = text.lines().count();
        // Each line may have a token more than bytes, and its end counts as one; all may be looked
        // at from both ends.
        let bound = 2 * (text.len() + 2 * lines) * path.len();
        let mut budget = Budget(bound);
        let verdict = Rules::parse(text.as_bytes()).name(path.as_bytes(), &mut budget);
        assert!(verdict.is_ok(), "seed {seed}, {text:?}, {path:?}");
        // With less than was used there is no verdict, and never a wrong one.
        if let Some(less) = (bound - budget.0).checked_sub(1) {
            let verdict = Rules::parse(text.as_bytes()).name(path.as_bytes(), &mut Budget(less));
            assert_eq!(verdict, Err(TooCostly), "seed {seed}, {text:?}, {path:?}");
        }
    }
}

#[test]
fn any_bytes_are_an_ignore_file() {
    for seed in FIRST_SEED..FIRST_SEED + 2000 {
        let mut random = SmallRng::seed_from_u64(seed);
        let text: Vec<u8> = (0..random.random_range(0..200)).map(|_| random.random()).collect();
        let path: Vec<u8> = (0..random.random_range(0..100)).map(|_| random.random()).collect();
        let _ = Rules::parse(&text).name(&path, &mut Budget(BUDGET));
    }
}
