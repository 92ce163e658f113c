//! `explain` as a user gets it: of every demonstration's recording the right cause, the contract's fields, and a sentence where
//! there is nothing to explain.

use crate::refusal::refused;
use crate::support::{Trace, can_trace, done, gpuwhy, sim, simwork};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each demonstration, and what its first finding has to say.
const DEMOS: [(&str, &str); 14] = [
    ("cpu-hog", "cpu.preempted"),
    ("lock", "lock.futex"),
    ("page-faults", "mem.fault"),
    ("cold-start", "gpu.coldstart"),
    ("frees", "gpu.alloc"),
    ("gpu-busy", "gpu.wait"),
    ("copies", "copy.pcie"),
    ("recapture", "graph.recapture"),
    ("out-of-memory", "gpu.memory"),
    ("late-rank", "rank.straggler"),
    ("mismatch", "rank.hang"),
    ("hot-gpu", "gpu.throttle"),
    ("h200-item", "gpu.wait"),
    ("h200-loader", "io.block"),
];

fn replayed(demo: &str) -> Trace {
    let trace = Trace::new();
    let text = done(gpuwhy().args(["demo", demo, "--replay", "--out"]).arg(trace.file()).output().unwrap());
    assert!(text.contains("REPLAYED"), "{text}");
    trace
}

fn explained(trace: &Trace) -> Value {
    let text = done(gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap());
    serde_json::from_str(&text).unwrap()
}

/// 24 lines of 80 columns, the verdict second.
fn is_one_screen(what: &str, page: &str) {
    assert!(page.lines().count() <= 24, "{what}: more than a screen\n{page}");
    let wide: Vec<&str> = page.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{what}: wider than a screen: {wide:?}");
    assert!(page.lines().nth(1).is_some_and(|line| line.starts_with("=> ")), "{what}: no verdict\n{page}");
}

#[test]
fn every_demo_says_what_is_wrong() {
    let list = done(gpuwhy().args(["demo", "--list"]).output().unwrap());
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let known: Vec<&str> = DEMOS.iter().map(|(demo, _)| *demo).chain(["tour"]).collect();
    assert_eq!(names, known, "a demo without a verdict here");
    for (demo, class) in DEMOS {
        let trace = replayed(demo);
        let answer = explained(&trace);
        let first = &answer["findings"][0];
        assert_eq!(first["causes"][0]["class"], class, "{demo}: {}", first["title"]);
        assert!(first["explained_pct"].as_f64().unwrap() >= 60.0, "{demo}: {first}");
        let page =
            |words: &[&str]| done(gpuwhy().arg("explain").arg(trace.file()).args(words).output().unwrap());
        let first = page(&[]);
        is_one_screen(demo, &first);
        for word in [class, "why", "do", "Coverage:"] {
            assert!(first.contains(word), "{demo}: {word} is not in\n{first}");
        }
        let all = page(&["--verbose"]);
        for word in [class, "why", "cost", "do", "see", "Coverage:"] {
            assert!(all.contains(word), "{demo}: {word} is not in\n{all}");
        }
        let verdict = page(&["--quiet"]);
        assert!(verdict.lines().count() == 1 && verdict.len() > 20, "{demo}: {verdict}");
    }
}

#[test]
fn lines_of_python_are_those_of_the_script() {
    for (demo, line) in [("h200-item", "train.py:41 step"), ("h200-loader", "train.py:30 read_batch")] {
        let answer = explained(&replayed(demo));
        assert_eq!(answer["findings"][0]["where"]["python"][0], line, "{demo}");
    }
}

#[test]
fn the_end_of_a_trace_says_what_explain_says_of_its_file() {
    if !can_trace("the_end_of_a_trace_says_what_explain_says_of_its_file") {
        return;
    }
    let trace = Trace::new();
    let words = ["train", "--steps", "60", "--launches-per-step", "40", "--kernel-us", "250"];
    let mut command = gpuwhy();
    command.args(["trace", "--out"]).arg(trace.file()).arg("--").arg(simwork()).args(words);
    let output = command.env("LD_LIBRARY_PATH", sim()).output().unwrap();
    let end =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let file = done(gpuwhy().arg("explain").arg(trace.file()).output().unwrap());
    // From the verdict to the last finding: the titles before it, and what to type after it, differ.
    let answer = |text: &str| -> Vec<String> {
        let lines = text.lines().map(ToString::to_string);
        lines
            .skip_while(|line| !line.starts_with("=>"))
            .take_while(|line| !line.starts_with("Coverage"))
            .collect()
    };
    assert!(answer(&file).len() > 3, "{file}");
    assert_eq!(answer(&end), answer(&file));
}

#[test]
fn the_document_has_the_fields_of_the_contract() {
    let trace = replayed("cpu-hog");
    let answer = explained(&trace);
    let has = |value: &Value, fields: &[&str]| {
        for field in fields {
            assert!(value.get(field).is_some(), "{field} is missing in {value}");
        }
    };
    has(&answer, &["trace", "coverage", "steps", "findings", "tail", "idle"]);
    has(&answer["trace"], &["file", "start_ns", "end_ns", "events", "nodes"]);
    has(&answer["coverage"], &["lost", "sampled", "degraded", "unattached"]);
    let finding = &answer["findings"][0];
    has(
        finding,
        &[
            "id",
            "phase",
            "saves_ms_per_step",
            "severity",
            "title",
            "op",
            "pid",
            "process",
            "cgroup",
            "rank",
            "node",
            "window",
            "impact",
            "causes",
            "explained_pct",
            "where",
            "fixes",
            "sql",
            "refuted_by",
            "rule",
        ],
    );
    has(&finding["window"], &["start_ns", "end_ns"]);
    has(&finding["impact"], &["calls", "slow_calls", "p50_us", "p99_us", "max_us", "excess_ms", "wall_pct"]);
    has(&finding["causes"][0], &["class", "share_pct", "ms", "by", "evidence"]);
    has(&finding["causes"][0]["by"][0], &["pid", "comm", "cgroup", "ms", "count"]);
    has(&finding["where"], &["python", "native", "kernel"]);
    has(&answer["tail"][0], &["op", "quantile", "p_us", "by_cause"]);
    assert_eq!(finding["causes"][0]["by"][0]["comm"], "cpu-hog");
    let tree = &answer["steps"][0];
    has(
        tree,
        &[
            "pid",
            "process",
            "rank",
            "phase",
            "found_by",
            "count",
            "median_ms",
            "p99_ms",
            "gpu_busy_pct",
            "gpu_busy_source",
            "path",
            "outliers",
        ],
    );
    let part = &tree["path"][0];
    has(part, &["class", "share_pct", "ms", "saves_ms", "thread", "process", "message", "where", "parts"]);
    let [least, most] = [0, 1].map(|end| part["saves_ms"][end].as_f64().unwrap());
    assert!(least <= most, "{part}");
    // The evidence can be asked for.
    let rows =
        done(gpuwhy().arg("query").arg(trace.file()).arg(finding["sql"].as_str().unwrap()).output().unwrap());
    assert!(rows.contains("cpu-hog"), "{rows}");
    // The same file gives the same bytes.
    let again = || done(gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap());
    assert_eq!(again(), again());
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where `docs/screens.md` takes its traces from: a demonstration, or a recording of a program.
pub(crate) fn example(name: &str, folder: &Path) -> PathBuf {
    let file = folder.join(format!("{name}.db"));
    let recordings = ["crates/query/tests/recordings", "tests/e2e/recordings"];
    let packed = format!("{}.db.gz", name.replace('-', "_"));
    let recording =
        recordings.iter().map(|of| repository().join(of).join(&packed)).find(|path| path.exists());
    if let Some(recording) = recording {
        let unpacked = Command::new("gzip").arg("-dc").arg(recording).output().unwrap();
        std::fs::write(&file, unpacked.stdout).unwrap();
    } else {
        done(gpuwhy().args(["demo", name, "--replay", "--out"]).arg(&file).output().unwrap());
    }
    file
}

/// The names of the traces on the page, and the page's screen of each.
fn documented_screens() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(repository().join("docs/screens.md")).unwrap();
    let screen = |block: &str| {
        let (command, screen) = block.split_once('\n').unwrap();
        let name = command.strip_prefix("$ gpuwhy explain ").and_then(|file| file.strip_suffix(".db"));
        (name.unwrap().to_string(), screen.to_string())
    };
    page.split("```\n").skip(1).step_by(2).map(screen).collect()
}

/// With GPUWHY_WRITE_DOCS=1 the page gets what the program says; to be read before it is committed.
#[test]
fn first_screens_are_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let screens = documented_screens();
    assert!(screens.len() >= 7, "{} screens", screens.len());
    let page = repository().join("docs/screens.md");
    let is_writing = std::env::var_os("GPUWHY_WRITE_DOCS").is_some();
    for (name, screen) in screens {
        let file = example(&name, folder.path());
        let mut explain = gpuwhy();
        explain.current_dir(folder.path()).arg("explain").arg(file.file_name().unwrap());
        let message = done(explain.output().unwrap());
        if is_writing {
            let text = std::fs::read_to_string(&page).unwrap();
            let head = format!("$ gpuwhy explain {name}.db\n");
            std::fs::write(&page, text.replace(&format!("{head}{screen}"), &format!("{head}{message}")))
                .unwrap();
            continue;
        }
        is_one_screen(&name, &message);
        is_plain(&name, &message);
        assert_eq!(message, screen, "docs/screens.md, {name}");
    }
}

/// What is not shown is not acquitted, and what is suggested asks the same question.
#[test]
fn a_verdict_is_of_all_findings_whichever_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = example("loader_cpu", folder.path());
    let said = |options: &[&str]| done(gpuwhy().arg("explain").arg(&file).args(options).output().unwrap());
    let verdict = |page: &str| page.split("=> ").nth(1).unwrap().split("\n\n").next().unwrap().to_string();
    let whole = verdict(&said(&[]));
    assert!(whole.contains("computing"), "{whole}");
    let top = said(&["--top", "0"]);
    assert_eq!(verdict(&top), whole);
    let severe = said(&["--min-severity", "critical", "--top", "0"]);
    assert_eq!(verdict(&severe), whole);
    assert!(severe.contains(" --min-severity critical --verbose"), "{severe}");
    let of_copies = said(&["--op", "cudaMemcpyAsync", "--since", "600s"]);
    assert!(verdict(&of_copies).starts_with("No fault of cudaMemcpyAsync found"), "{of_copies}");
    assert!(of_copies.contains(" --since 600s --op cudaMemcpyAsync --verbose"), "{of_copies}");
}

/// The GPU's use comes early, findings have a time of day, and no sentence is cut.
fn is_plain(what: &str, page: &str) {
    let early: Vec<&str> = page.lines().take(7).collect();
    assert!(
        early.iter().any(|line| line.contains("GPU busy") || line.contains("GPU use")),
        "{what}: no GPU use\n{page}"
    );
    let numbered =
        |line: &&str| line.as_bytes().get(1).is_some_and(u8::is_ascii_digit) && line.starts_with(' ');
    for (at, _) in page.lines().enumerate().filter(|(_, line)| numbered(line)) {
        let title: String = page.lines().skip(at).take(3).collect();
        assert!(title.contains(" UTC"), "{what}: a finding without a time of day\n{page}");
    }
    for word in ["…", "of its own accord", "governor ", " * in /"] {
        assert!(!page.contains(word), "{what}: {word} in\n{page}");
    }
}

/// What is suggested, from `gpuwhy` to the end of its line.
fn suggested(page: &str) -> Vec<&str> {
    page.lines()
        .filter_map(|line| line.find("gpuwhy ").map(|at| &line[at..]))
        .filter(|command| !command.starts_with("gpuwhy demo"))
        .collect()
}

#[test]
fn suggested_commands_can_be_pasted_and_have_rows() {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_gpuwhy")).parent().unwrap().to_path_buf();
    let path = std::env::join_paths(
        std::iter::once(program).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let names = documented_screens().into_iter().map(|(name, _)| name);
    let demos = ["lock", "frees", "gpu-busy"].map(ToString::to_string);
    let mut ran = 0;
    for name in names.chain(demos) {
        // A name that a shell would take apart.
        let plain = example(&name, folder.path());
        let file = folder.path().join(format!("my {name}.db"));
        std::fs::rename(plain, &file).unwrap();
        let page = |words: &[&str]| {
            let mut explain = gpuwhy();
            explain.current_dir(folder.path()).arg("explain").arg(file.file_name().unwrap()).args(words);
            done(explain.output().unwrap())
        };
        for command in suggested(&page(&[])).into_iter().chain(suggested(&page(&["--verbose"]))) {
            let mut shell = Command::new("sh");
            shell.current_dir(folder.path()).env("PATH", &path).env_remove("GPUWHY_DB");
            let message = done(shell.arg("-c").arg(command).output().unwrap());
            assert!(message.lines().count() >= 2, "{name}: no rows of {command}\n{message}");
            ran += 1;
        }
    }
    assert!(ran >= 30, "{ran} commands");
}

#[test]
fn what_is_chosen_is_told_and_nothing_else() {
    let trace = replayed("late-rank");
    let all = explained(&trace);
    let pid = all["findings"][0]["pid"].as_u64().unwrap().to_string();
    let page = |words: &[&str]| done(gpuwhy().arg("explain").arg(trace.file()).args(words).output().unwrap());
    assert!(page(&["--per-process"]).contains(&format!("== simwork[{pid}], rank 2")));
    assert!(page(&["--tail", "p99"]).contains("Calls at p99 and above"));
    let of_pid = page(&["--pid", &pid, "--json"]);
    let of_pid: Value = serde_json::from_str(&of_pid).unwrap();
    assert!(
        of_pid["findings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|finding| finding["pid"].as_u64() == pid.parse().ok())
    );
    refused(gpuwhy().arg("explain").arg(trace.file()).args(["--pid", "1"]), 3, &["no calls of process 1"]);
    refused(gpuwhy().arg("explain").arg(trace.file()).args(["--from", "yesterday"]), 2, &["is no time"]);
    refused(
        gpuwhy().arg("explain").arg(trace.file()).args(["--pid", "nobody"]),
        3,
        &["no process is named", "simwork"],
    );
    let by_name = page(&["--pid", "simwork", "--json"]);
    let by_name: Value = serde_json::from_str(&by_name).unwrap();
    assert_eq!(by_name["findings"].as_array().unwrap().len(), all["findings"].as_array().unwrap().len());
    let compared = done(gpuwhy().arg("compare").arg(trace.file()).arg(trace.file()).output().unwrap());
    assert!(compared.contains("No difference is beyond noise."), "{compared}");
    refused(gpuwhy().arg("compare").arg(trace.file()), 2, &["only one trace"]);
}

#[test]
fn a_part_of_the_time_is_asked_for_as_people_say_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = example("old-loader-sleep", folder.path());
    let page = |words: &[&str]| done(gpuwhy().arg("explain").arg(&file).args(words).output().unwrap());
    let json =
        |words: &[&str]| -> Value { serde_json::from_str(&page(&[words, &["--json"]].concat())).unwrap() };
    let (all, part) = (json(&[]), json(&["--from", "11:50:40", "--until", "11:50:43"]));
    let length = |answer: &Value| {
        answer["trace"]["end_ns"].as_u64().unwrap() - answer["trace"]["start_ns"].as_u64().unwrap()
    };
    assert_eq!(length(&part), 3_000_000_000);
    // Events are those of the time that was asked about.
    for (words, answer) in [("--from", &part), ("--since", &json(&["--since", "3s"]))] {
        let (few, many) =
            (answer["trace"]["events"].as_u64().unwrap(), all["trace"]["events"].as_u64().unwrap());
        assert!(few > 0 && few * 2 < many, "{words}: {few} of {many}");
    }
    refused(gpuwhy().arg("explain").arg(&file).args(["--from", "12:00"]), 3, &["ends at", "11:50:46"]);
    refused(gpuwhy().arg("explain").arg(&file).args(["--until", "03:00"]), 3, &["begins at", "11:50:26"]);
    let wrong = ["--from", "11:50:43", "--until", "2026-11-16T11:50:40Z"];
    refused(gpuwhy().arg("explain").arg(&file).args(wrong), 2, &["swap them"]);
    // The name of the runtime finds what is counted at the driver.
    let of_op = |op: &str| json(&["--op", op, "--tail", "p95"])["tail"].clone();
    assert_eq!(of_op("cudaLaunchKernel"), of_op("cuLaunchKernel"));
    assert!(page(&["--tail", "p95"]).contains("Calls at p95 and above"));
}

#[test]
fn slower_steps_fail_and_twins_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| example(name, folder.path());
    // One program, recorded twice; and with a sleep, and with computing, planted into its steps.
    let (train, twin) = (file("train"), file("sliced-train"));
    let compare = |a: &Path, b: &Path| {
        let mut compare = gpuwhy();
        compare.arg("compare").arg(a).arg(b).args(["--max-regression", "5%"]);
        compare
    };
    for (planted, part) in [("sleep", "asleep in fetch"), ("compute", "computing in score")] {
        let slow = file(planted);
        let message = refused(
            &mut compare(&train, &slow),
            1,
            &["the step of python3 is", "slower", "beyond noise", part],
        );
        assert!(message.contains("ms"), "{message}");
        done(compare(&slow, &train).output().unwrap());
    }
    for (a, b) in [(&train, &twin), (&twin, &train), (&train, &train)] {
        let message = done(compare(a, b).output().unwrap());
        assert!(message.contains("No step is slower by more than 5% beyond noise."), "{message}");
    }
    // A slowdown that is allowed.
    done(
        gpuwhy()
            .arg("compare")
            .arg(&train)
            .arg(file("sleep"))
            .args(["--max-regression", "500%"])
            .output()
            .unwrap(),
    );
    // Nothing to compare is neither good nor bad.
    let stepless = file("frees");
    refused(&mut compare(&stepless, &train), 3, &["no process has a repeating step in both"]);
    let json = done(gpuwhy().arg("compare").arg(&train).arg(file("sleep")).arg("--json").output().unwrap());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(!json["message"].as_array().unwrap().is_empty(), "{json}");
    assert_eq!(json["message"], json["said"], "scripts may use the old name");
    let page = done(gpuwhy().arg("compare").arg(&train).arg(&twin).output().unwrap());
    for unit in ["GiB", " W", "°C", "MHz"] {
        assert!(page.contains(unit), "{unit} is not in\n{page}");
    }
    // A rare call has a rate; what has none was not called, and is a dash.
    let words: Vec<&str> = page.split_whitespace().collect();
    assert!(words.windows(2).any(|pair| pair[0] == "->"), "{page}");
    assert!(!words.windows(2).any(|pair| matches!(pair, ["0", "->"] | ["->", "0"])), "{page}");
    refused(
        gpuwhy().arg("compare").arg(&train).arg(&twin).args(["--max-regression", "much"]),
        2,
        &["percentage"],
    );
}
