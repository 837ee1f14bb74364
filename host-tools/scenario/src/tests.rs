//! Every error names its line and what was expected; every good file means what it says.

use super::{hosts::Lie, *};
use compasso_wire::{
    Duration, Key,
    config::{ClockChoice, MutexChoice, Stored},
};

const HEAD: &str = "nodes = 5\nduration = \"20s\"\n";

fn good(text: &str) -> Scenario {
    Scenario::parse(text, "good.toml").unwrap_or_else(|error| panic!("{error}"))
}

/// The error of `HEAD` followed by `text`, which begins on line 3.
fn refused(text: &str) -> String {
    let error = Scenario::parse(&format!("{HEAD}{text}"), "bad.toml").expect_err(text);
    error.to_string()
}

#[track_caller]
fn refuses(text: &str, line: usize, field: &str, message: &str) {
    let error = refused(text);
    assert!(error.starts_with(&format!("bad.toml:{line}: {field}: ")), "{error}");
    assert!(error.contains(message), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn the_example_of_the_interface_is_read() {
    let scenario = good(
        r#"
name = "coordinator-dies"
ids = [17, 24, 1, 28]
seed = 7
duration = "20s"
[clock]
sync = "cristian"
skew_ppm = [40, -25, 10.5, 0]
[election]
algorithm = "bully"
[mutex]
algorithm = "token-ring"
workload = { every = "200ms", hold = "0s" }
token_rest = "30ms"
[network]
delay = "200us..2ms"
loss = 0.01
[[step]]
at = "9s"
partition = [[17], [24]]
[[step]]
at = "5s"
crash = 28
[expect]
leader = 24
"#,
    );
    assert_eq!(scenario.ids, [17, 24, 1, 28]);
    assert_eq!(scenario.clock.sync, ClockChoice::Cristian);
    assert_eq!(scenario.mutex.algorithm, MutexChoice::TokenRing);
    assert_eq!(scenario.timing.token_rest, Duration(30_000));
    assert_eq!(scenario.steps[0].action, Action::Crash(28));
    assert_eq!(scenario.steps[1].action, Action::Partition(vec![vec![17], vec![24], vec![1, 28]]));
    assert_eq!(scenario.expect.leader, Some(24));
    let config = scenario.node_config(1, 1, Stored::default(), Key([0; 16]));
    assert_eq!(config.rate_ppb, 10_500);
    assert_eq!(config.members.len(), 4);
    assert!(config.wrong_clock_us.abs() <= 2_000_000);
    assert_ne!(config.wrong_clock_us, scenario.wrong_clock_us(17, 1));
}

#[test]
fn a_seed_decides_the_skews_and_is_written_back() {
    let text = "nodes = 3\nseed = 7 # lucky\nduration = \"1s\"\n[clock]\nskew_ppm = { uniform = 500 }\n";
    let seven = good(text);
    assert_eq!(seven, good(text));
    assert!(seven.clock.skew_ppm.iter().all(|ppm| ppm.abs() <= 500.0));
    assert_eq!(seven.timing.drift_ppm, 500, "leases must be safe with every crystal of the scenario");
    let eight = seven.clone().with_seed(8);
    assert_ne!(seven.clock.skew_ppm, eight.clock.skew_ppm);
    assert!(eight.to_toml().contains("seed = 8 # lucky"));
    assert_eq!(good(&eight.to_toml()).clock, eight.clock);
    let silent = good("nodes = 3\nduration = \"1s\"\n").with_seed(9);
    assert_eq!(good(&silent.to_toml()).seed, 9);
}

#[test]
fn broken_syntax_names_its_line() {
    assert!(refused("name = \n").starts_with("bad.toml:3: "));
    refuses("seed = 1\nseed = 2\n", 4, "seed", "expected once, found twice (duplicate key)");
    refuses("[clock]\nsync = \"none\"\n[clock]\n", 5, "clock", "duplicate key");
}

#[test]
fn a_lease_outlasts_a_few_heartbeats() {
    refuses("[timing]\n\nlease = \"250ms\"\n", 5, "timing.lease", "at least 3 heartbeats (300ms), found 250ms");
    refuses("[timing]\nsuspect_after = \"2s\"\nheartbeat = \"500ms\"\n", 5, "timing.heartbeat", "(1500ms), found 1s");
    good("nodes = 2\nduration = \"1s\"\n[timing]\nlease = \"300ms\"\n");
}

#[test]
fn unknown_keys_are_refused() {
    refuses("colour = 3\n", 3, "colour", "unknown key; expected one of: name, nodes");
    refuses("[clock]\n\nsnyc = \"none\"\n", 5, "clock.snyc", "expected one of: sync, skew_ppm, source");
    refuses("[[step]]\nat = \"1s\"\nexplode = 4\n", 5, "step[0].explode", "unknown key");
    refuses("[expect]\nleeder = 4\n", 4, "expect.leeder", "unknown key");
}

#[test]
fn a_clock_that_is_not_named_is_the_disciplined_one() {
    refuses("[clock]\nsync = \"sundial\"\n", 4, "clock.sync", "berkeley, disciplined; found \"sundial\"");
    assert_eq!(good("nodes = 2\nduration = \"1s\"\n[clock]\n").clock.sync, ClockChoice::Disciplined);
    refuses("[clock]\nadjust = \"step\"\n", 4, "clock.adjust", "that clock is never set back");
    good("nodes = 2\nduration = \"1s\"\n[deadlock]\nstrategy = \"ignore\"\n");
}

#[test]
fn time_from_the_host_needs_a_clock_that_follows_a_server() {
    refuses(
        "[clock]\nsync = \"berkeley\"\nsource = \"host\"\n",
        5,
        "clock.source",
        "expected \"coordinator\" with sync",
    );
    refuses("[clock]\nsync = \"none\"\nsource = \"host\"\n", 5, "clock.source", "with sync = \"none\"");
    refuses("[clock]\nadjust = \"jump\"\n", 4, "clock.adjust", "expected one of: slew, step; found \"jump\"");
    refuses("[[step]]\nat = \"1s\"\nleap = 1\n", 5, "step[0].leap", "without [clock] source = \"host\"");
    refuses("[[step]]\nat = \"1s\"\ntime_server = false\n", 5, "step[0].time_server", "without [clock] source");
    let host = "[clock]\nsync = \"cristian\"\nsource = \"host\"\n[[step]]\nat = \"1s\"\n";
    refuses(&format!("{host}leap = 2\n"), 8, "step[0].leap", "1 for a second more");
    refuses(&format!("{host}leap = 0\n"), 8, "step[0].leap", "expected 1 for a second more, or -1");
    refuses(&format!("{host}leap = 1\n[[step]]\nat = \"2s\"\nleap = -1\n"), 11, "step[1].leap", "expected one leap");
    let scenario = good(&format!("{HEAD}{host}leap = -1\n[[step]]\nat = \"2s\"\ntime_server = false\n"));
    assert_eq!(
        (scenario.steps[0].action.clone(), scenario.steps[1].action.clone()),
        (Action::Leap(-1), Action::TimeServer { host: None, serves: false })
    );
    let midnight = scenario.leap(&scenario.steps[0]).map(|leap| leap.at.0);
    assert_eq!(midnight, Some(scenario.tai_begin_us() + 3_000_000), "announced 2 s ahead");
}

#[test]
fn several_hosts_and_their_lies_are_read_and_what_cannot_be_is_refused() {
    let clock = |more: &str| format!("[clock]\nsource = \"host\"\n{more}");
    let step = |action: &str| format!("{}[[step]]\nat = \"1s\"\n{action}\n", clock("hosts = 3\n"));
    refuses(&clock("hosts = 4\n"), 5, "clock.hosts", "how many hosts have the time (a number from 1 to 3), found 4");
    refuses(&clock("hosts = 0\n"), 5, "clock.hosts", "from 1 to 3");
    refuses("[clock]\nhosts = 2\n", 4, "clock.hosts", "only that clock asks several hosts");
    let cristian = "[clock]\nsync = \"cristian\"\nsource = \"host\"\nhosts = 3\n";
    refuses(cristian, 6, "clock.hosts", "expected 1 without sync = \"disciplined\"");
    refuses("[[step]]\nat = \"1s\"\nlie = { host = 0, ppm = 1 }\n", 5, "step[0].lie", "without [clock] source");
    refuses(
        &step("lie = { host = 3, by = \"1ms\" }"),
        8,
        "step[0].lie.host",
        "the number of a host (a number from 0 to 2)",
    );
    refuses(&step("lie = { by = \"1ms\" }"), 8, "step[0].lie.host", "missing; expected the number of a host");
    refuses(&step("lie = { host = 1 }"), 8, "step[0].lie", "expected `by`");
    refuses(
        &step("lie = { host = 1, to = \"1ms\" }"),
        8,
        "step[0].lie.to",
        "unknown key; expected one of: host, by, ppm",
    );
    refuses(&step("lie = { host = 1, by = \"--1ms\" }"), 8, "step[0].lie.by", "expected a duration");
    refuses(&step("lie = { host = 1, by = \"-25h\" }"), 8, "step[0].lie.by", "at most 24h");
    refuses(&step("lie = { host = 1, ppm = 1001 }"), 8, "step[0].lie.ppm", "from -1000 to 1000");
    refuses(&step("lie = 80"), 8, "step[0].lie", "expected a table like { host = 1");
    refuses(&step("time_server = { host = 1 }"), 8, "step[0].time_server.serves", "missing; expected true or false");
    refuses(&step("time_server = { host = 9, serves = true }"), 8, "step[0].time_server.host", "from 0 to 2");
    let late = step("lie = { host = 1, ppm = 1 }").replace("1s", "9h");
    refuses(&late, 7, "step[0].at", "expected a moment within the run");
    let done = |action: &str| good(&format!("{HEAD}{}", step(action))).steps[0].action.clone();
    let lie = |by_us, ppm| Action::Lie { host: 1, lie: Lie { by_us, ppm } };
    assert_eq!(done("lie = { host = 1, by = \"-80ms\" }"), lie(-80_000, 0.0));
    assert_eq!(done("lie = { host = 1, by = \"0ms\" }"), lie(0, 0.0));
    assert_eq!(done("lie = { host = 1, by = \"2s\", ppm = -200 }"), lie(2_000_000, -200.0));
    let left = Action::TimeServer { host: Some(2), serves: false };
    assert_eq!(done("time_server = { host = 2, serves = false }"), left);
    assert_eq!(good(&format!("{HEAD}{}", clock(""))).clock.hosts, 1);
    assert_eq!(Lie { by_us: 5, ppm: -200.0 }.after(Duration(1_000_000)), -195);
}

#[test]
fn every_name_of_the_interface_for_turns_and_leaders_is_performed() {
    let with = |section: &str| good(&format!("nodes = 3\nduration = \"1s\"\n{section}"));
    for name in ["none", "bully", "ring", "chang-roberts", "hirschberg-sinclair", "detector"] {
        let scenario = with(&format!("[election]\nalgorithm = \"{name}\"\n"));
        assert_eq!(crate::election_name(scenario.election.algorithm), name);
    }
    for name in [
        "none",
        "central",
        "voting",
        "lamport",
        "ricart-agrawala",
        "token-ring",
        "suzuki-kasami",
        "maekawa-plain",
        "maekawa",
    ] {
        let scenario = with(&format!("[mutex]\nalgorithm = \"{name}\"\n"));
        assert_eq!(crate::mutex_name(&scenario.mutex.algorithm), name);
    }
}

#[test]
fn options_belong_to_their_algorithm_and_voting_sets_keep_maekawas_conditions() {
    refuses("[mutex]\nreplicas = 5\n", 4, "mutex.replicas", "expected only with algorithm = \"voting\"");
    refuses("[mutex]\nalgorithm = \"voting\"\nreplicas = 6\n", 5, "mutex.replicas", "how many nodes have a vote");
    let sets = |sets: &str, wanted: &str| {
        let text = format!("nodes = 5\nduration = \"1s\"\n[mutex]\nalgorithm = \"maekawa\"\nvoting_sets = {sets}\n");
        let error = Scenario::parse(&text, "bad.toml").expect_err(sets).to_string();
        assert!(error.starts_with("bad.toml:5: mutex.voting_sets") && error.contains(wanted), "{error}");
    };
    sets("[[1], [1], [2], [3], [4]]", "in its own set");
    sets("[[0]]", "one set for each of the 5 nodes");
    sets("[[1, 0], [1, 0], [2, 0], [3, 0], [4, 0]]", "in equally many sets");
    sets("[[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]", "a node in common");
    sets("[[0], [1, 0], [2, 0], [3, 0], [4, 0]]", "of one size");
}

#[test]
fn a_cluster_has_two_to_sixty_four_different_nodes() {
    let error = |text: &str| Scenario::parse(text, "bad.toml").expect_err(text).to_string();
    assert!(error("duration = \"1s\"\n").contains("bad.toml:1: nodes: missing"));
    assert!(
        error("nodes = 1\nduration = \"1s\"\n")
            .contains(":1: nodes: expected how many nodes there are (a number from 2 to 64), found 1")
    );
    assert!(error("nodes = \"5\"\nduration = \"1s\"\n").contains("found a string"));
    assert!(error("nodes = 5\nids = [1, 2]\nduration = \"1s\"\n").contains(":2: ids: expected either"));
    assert!(error("duration = \"1s\"\nids = [1, 2, 1]\n").contains(":2: ids[2]: expected unique ids; 1 occurs twice"));
    assert!(error("duration = \"1s\"\nids = [1]\n").contains(":2: ids: expected 2 to 64 ids"));
    assert!(error("duration = \"1s\"\nids = [1, 65535]\n").contains("ids[1]: expected an id"));
    assert!(error("duration = \"1s\"\nids = [1, 65533]\n").contains("0 to 65532"), "that one is a host");
}

#[test]
fn numbers_and_durations_have_bounds() {
    refuses("name = \"../up\"\n", 3, "name", "names the run's folder");
    refuses("seed = -1\n", 3, "seed", "expected a seed");
    refuses("hardening = 1\n", 3, "hardening", "expected true or false, found an integer");
    refuses("[clock]\nskew_ppm = [1, 2]\n", 4, "clock.skew_ppm", "each of the 5 nodes, found 2");
    refuses("[clock]\nskew_ppm = [1, 2, 3, 4, 2000]\n", 4, "clock.skew_ppm[4]", "from -1000 to 1000, found 2000");
    refuses("[clock]\nskew_ppm = { uniform = -3 }\n", 4, "clock.skew_ppm.uniform", "from 0 to 1000");
    refuses("[network]\nloss = 1.5\n", 4, "network.loss", "expected a share from 0 to 1, found 1.5");
    refuses("[network]\nreorder = nan\n", 4, "network.reorder", "expected a share");
    refuses("[network]\nduplicate = \"x\"\n", 4, "network.duplicate", "found a string");
    refuses("[network]\ndelay = \"2ms..1ms\"\n", 4, "network.delay", "the shorter delay first");
    refuses("[network]\ndelay = \"fast\"\n", 4, "network.delay", "expected a duration");
    refuses("[mutex]\nworkload = { every = \"0s\", hold = \"5ms\" }\n", 4, "mutex.workload.every", "more than no time");
    refuses("[mutex]\nworkload = { every = \"1s\" }\n", 4, "mutex.workload.hold", "missing");
    refuses("[mutex]\ntoken_rest = 20\n", 4, "mutex.token_rest", "expected a duration like \"20ms\", found an integer");
    refuses("[timing]\nheartbeat = \"2s\"\n", 3, "timing", "`suspect_after` to be longer");
    refuses("[timing]\nlease = \"0s\"\n", 4, "timing.lease", "more than no time");
    let error = Scenario::parse("nodes = 2\nduration = \"30h\"\n", "bad.toml").expect_err("too long").to_string();
    assert!(error.contains(":2: duration: expected at most 24h"), "{error}");
}

#[test]
fn how_ricart_agrawala_orders_and_answers_can_be_chosen() {
    let choice =
        |keys: &str| good(&format!("{HEAD}[mutex]\nalgorithm = \"ricart-agrawala\"\n{keys}\n")).mutex.algorithm;
    let plain = MutexChoice::RicartAgrawala { by_priority: false, answers_deferred: false };
    assert_eq!(choice(""), plain);
    assert_eq!(choice("order = \"timestamp\"\nanswers = \"ok\""), plain);
    let always = MutexChoice::RicartAgrawala { by_priority: false, answers_deferred: true };
    assert_eq!(choice("answers = \"always\""), always);
    refuses("[mutex]\nalgorithm = \"central\"\nanswers = \"always\"\n", 5, "mutex.answers", "ricart-agrawala");
}

#[test]
fn a_step_is_one_action_within_the_run() {
    refuses("[[step]]\nat = \"21s\"\ncrash = 4\n", 4, "step[0].at", "which ends at 20s; found 21s");
    refuses("[[step]]\ncrash = 4\n", 3, "step[0].at", "missing");
    refuses("[[step]]\nat = \"1s\"\n", 3, "step[0]", "expected one action of: crash");
    refuses("[[step]]\nat = \"1s\"\ncrash = 4\npause = 3\n", 3, "step[0]", "exactly one action, found 2: crash, pause");
    refuses("[[step]]\nat = \"1s\"\ncrash = 5\n", 5, "step[0].crash", "one of: 0, 1, 2, 3, 4; found 5");
    refuses("[[step]]\nat = \"1s\"\ncrash = \"4\"\n", 5, "step[0].crash", "found a string");
    refuses("[[step]]\nat = \"1s\"\nheal = false\n", 5, "step[0].heal", "expected true");
    refuses("[[step]]\nat = \"1s\"\nheal = 1\n", 5, "step[0].heal", "expected true or false");
    refuses("[[step]]\nat = \"1s\"\npartition = [0, 1]\n", 5, "step[0].partition[0]", "lists of ids");
    refuses("[[step]]\nat = \"1s\"\npartition = [[0, 1], [1]]\n", 5, "step[0].partition[1][0]", "1 is on two");
    refuses(
        "[[step]]\nat = \"1s\"\nset_skew = { node = 1, ppm = 5000 }\n",
        5,
        "step[0].set_skew.ppm",
        "from -1000 to 1000",
    );
    refuses(
        "[[step]]\nat = \"1s\"\nlock = { node = 1, hold = \"5ms\" }\n",
        5,
        "step[0].lock",
        "[mutex] algorithm is \"none\"",
    );
    refuses("[[step]]\nat = \"1s\"\nelect = 1\n", 5, "step[0].elect", "[election] algorithm is \"none\"");
    refuses(
        "[mutex]\nalgorithm = \"token-ring\"\n[[step]]\nat = \"1s\"\nlock = 3\n",
        7,
        "step[0].lock",
        "expected a table like",
    );
    refuses(
        "[mutex]\nalgorithm = \"token-ring\"\n[[step]]\nat = \"1s\"\nlock = { node = 9, hold = \"5ms\" }\n",
        7,
        "step[0].lock.node",
        "found 9",
    );
}

#[test]
fn steps_make_sense_in_the_order_of_time() {
    let restart = "[[step]]\nat = \"1s\"\nrestart = 4\n";
    refuses(restart, 5, "step[0].restart", "expected node 4 to be crashed at 1s, but it is running then");
    refuses("[[step]]\nat = \"1s\"\nresume = 4\n", 5, "step[0].resume", "to be paused");
    refuses(
        "[[step]]\nat = \"2s\"\ncrash = 4\n[[step]]\nat = \"3s\"\ncrash = 4\n",
        8,
        "step[1].crash",
        "it is crashed then",
    );
    refuses(
        "[[step]]\nat = \"2s\"\ncrash = 4\n[[step]]\nat = \"3s\"\nresume = 4\n",
        8,
        "step[1].resume",
        "it is crashed then",
    );
    let out_of_file_order = format!("{HEAD}{restart}[[step]]\nat = \"500ms\"\ncrash = 4\n");
    assert_eq!(good(&out_of_file_order).steps[0].action, Action::Crash(4));
}

#[test]
fn transactions_are_those_of_their_section() {
    let scenario = good(&format!(
        "{HEAD}[commit]\nworkload = {{ every = \"300ms\" }}\nrefuse_one_in = 10\n[[step]]\nat = \"1s\"\ntransaction = {{ refuse = [2] }}\n"
    ));
    let every = Some(Duration::from_millis(300));
    assert_eq!(scenario.commit, Some(compasso_wire::config::Commit { every, refuse_one_in: 10 }));
    let commands = scenario.commands(&scenario.steps[0]);
    assert_eq!(commands[0], (2, compasso_wire::message::Command::Refuse));
    assert_eq!(commands.len(), 6, "everybody is asked, the coordinator begins");
    refuses("[commit]\nevery = \"1s\"\n", 4, "commit.every", "expected one of: workload, refuse_one_in");
    refuses("[commit]\nworkload = { every = \"0s\" }\n", 4, "commit.workload.every", "more than no time");
    refuses("[commit]\nrefuse_one_in = 70000\n", 4, "commit.refuse_one_in", "from 0 to 65535");
    refuses("[[step]]\nat = \"1s\"\ntransaction = {}\n", 5, "step[0].transaction", "without a [commit] section");
    refuses(
        "[commit]\n[[step]]\nat = \"1s\"\ntransaction = { refuse = [7] }\n",
        6,
        "step[0].transaction.refuse[0]",
        "found 7",
    );
    refuses("[commit]\n[[step]]\nat = \"1s\"\ntransaction = 3\n", 6, "step[0].transaction", "expected a table like");
}

#[test]
fn leases_are_those_of_their_section_and_need_a_clock() {
    let clock = "[clock]\nsync = \"cristian\"\n";
    let scenario = good(&format!(
        "{HEAD}{clock}[cache]\nlease = \"500ms\"\ninvalidate = false\nworkload = {{ read = \"20ms\" }}\n\
         [[step]]\nat = \"1s\"\nread = 2\n[[step]]\nat = \"2s\"\nwrite = 1\n"
    ));
    let cache = scenario.cache.expect("a cache");
    assert_eq!((cache.lease, cache.invalidate), (Duration::from_millis(500), false));
    assert_eq!((cache.read_every, cache.write_every), (Some(Duration::from_millis(20)), None));
    assert_eq!(scenario.commands(&scenario.steps[1]), [(1, compasso_wire::message::Command::Write)]);
    refuses("[cache]\nlease = \"1s\"\n", 3, "cache", "expected [clock] sync to be other than \"none\"");
    refuses(&format!("{clock}[cache]\n"), 5, "cache.lease", "missing; expected how long a copy is valid");
    refuses(&format!("{clock}[cache]\nlease = \"0s\"\n"), 6, "cache.lease", "more than no time");
    refuses(
        &format!("{clock}[cache]\nlease = \"1s\"\nworkload = {{ read = \"0s\" }}\n"),
        7,
        "cache.workload.read",
        "more than no time",
    );
    refuses("[[step]]\nat = \"1s\"\nwrite = 1\n", 5, "step[0].write", "without a [cache] section");
}

#[test]
fn a_missing_or_binary_file_is_one_clear_line() {
    let error = Scenario::load("no/such.toml").expect_err("missing").to_string();
    assert!(error.starts_with("no/such.toml: cannot be read: "), "{error}");
    let path = std::env::temp_dir().join(format!("compasso-binary-{}.toml", std::process::id()));
    std::fs::write(&path, [0xff, 0xfe, 0x00]).expect("a temporary file");
    let error = Scenario::load(&path).expect_err("binary").to_string();
    let _ = std::fs::remove_file(&path);
    assert!(error.ends_with("expected a text file in UTF-8"), "{error}");
}

#[test]
fn the_shipped_concert_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/concert.toml");
    let concert = Scenario::load(path).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(concert.ids.len(), 5);
    assert_eq!(concert.expect.leader, Some(4));
}

#[test]
fn every_strategy_of_the_interface_is_performed_also_without_resources() {
    for name in ["ignore", "detect", "prevent-order", "wait-die", "wound-wait", "avoid"] {
        let scenario = good(&format!("nodes = 2\nduration = \"1s\"\n[deadlock]\nstrategy = \"{name}\"\n"));
        let locks = scenario.locks.unwrap();
        assert_eq!((crate::strategy_name(locks.strategy), locks.count), (name, 0));
    }
    refuses("[deadlock]\nstrategy = \"hope\"\n", 4, "deadlock.strategy", "expected one of: ignore, detect");
    refuses("[deadlock]\n", 3, "deadlock.strategy", "missing");
}

#[test]
fn resources_are_those_that_steps_name_in_the_order_of_their_names() {
    let scenario = good(
        "nodes = 2\nduration = \"9s\"\n[mutex]\nalgorithm = \"central\"\n[deadlock]\nstrategy = \"detect\"\n\
         [[step]]\nat = \"1s\"\nacquire = { node = 0, resources = [\"pear\", \"fig\"] }\n\
         [[step]]\nat = \"2s\"\nrelease = { node = 0, resource = \"apple\" }\n",
    );
    assert_eq!(scenario.names.resources, ["cs", "apple", "fig", "pear"]);
    assert_eq!(scenario.locks.unwrap().count, 3);
    let taken = match scenario.steps[0].action {
        Action::Acquire { node: 0, resources } => resources.iter().map(|resource| resource.0).collect(),
        _ => Vec::new(),
    };
    assert_eq!(taken, [2, 3]);
}

#[test]
fn what_cannot_be_locked_is_refused() {
    let deadlock = "[deadlock]\nstrategy = \"detect\"\nresources = [\"a\", \"b\"]\n";
    let step = |action: &str| format!("{deadlock}[[step]]\nat = \"1s\"\n{action}\n");
    refuses(&step("acquire = { node = 0, resource = \"c\" }"), 8, "step[0].acquire.resource", "one of: a, b");
    refuses(&step("acquire = { node = 0 }"), 8, "step[0].acquire", "expected `resources");
    refuses(&step("acquire = { node = 0, resources = [] }"), 8, "step[0].acquire.resources", "at least one");
    refuses(&step("release = { node = 9, resource = \"a\" }"), 8, "step[0].release.node", "one of: 0, 1");
    refuses("[[step]]\nat = \"1s\"\nacquire = { node = 0, resource = \"a\" }\n", 5, "step[0].acquire", "[deadlock]");
    refuses("[deadlock]\nstrategy = \"detect\"\nresources = [\"a\", \"cs\"]\n", 5, "deadlock.resources[1]", "twice");
    let workload = "workload = { every = \"1s\", hold = \"1ms\", several = 3 }\n";
    refuses(&format!("{deadlock}{workload}"), 6, "deadlock.workload.several", "from 1 to 2");
    refuses(&format!("[deadlock]\nstrategy = \"detect\"\n{workload}"), 5, "deadlock.workload", "`resources`");
    let avoid = "[deadlock]\nstrategy = \"avoid\"\n[[step]]\nat = \"1s\"\nclaims = { node = 0, resources = [\"a\"] }\n";
    let beyond = "[[step]]\nat = \"2s\"\nacquire = { node = 0, resources = [\"a\", \"b\"] }\n";
    refuses(&format!("{avoid}{beyond}"), 8, "step[1]", "claims \"b\"");
}

#[test]
fn files_are_saved_on_one_node_and_built_on_others() {
    use compasso_wire::{NodeId, message::Command};
    let edit = "[[step]]\nat = \"1s\"\nedit = { node = 2, file = \"main\" }\n";
    let build = |node: u16| format!("[[step]]\nat = \"2s\"\nbuild = {{ node = {node}, file = \"main\" }}\n");
    let scenario = good(&format!("{HEAD}{}{edit}", build(4)));
    assert_eq!(scenario.commands(&scenario.steps[0]), [(2, Command::Edit { file: 0 })]);
    assert_eq!(scenario.commands(&scenario.steps[1]), [(4, Command::Build { file: 0, source: NodeId(2) })]);
    refuses(&build(4), 5, "step[0].build", "an `edit` of the file before");
    refuses(&format!("{edit}{}", build(2)), 8, "step[1].build", "another node than the one that has the source");
    let elsewhere = edit.replace("node = 2", "node = 3").replace("1s", "2s");
    refuses(&format!("{edit}{elsewhere}"), 8, "step[1].edit", "saved on one node; this one is on 2");
    let many: String = (0..9).map(|file| edit.replace("main", &format!("f{file}"))).collect();
    refuses(&many, 29, "step[8].edit.file", "at most 8 different files");
    let make = "[make]\nworkload = { every = \"200ms\" }\n";
    refuses(&format!("{make}{edit}"), 4, "make.workload", "either a workload or");
    refuses("[make]\nworkload = { every = \"1ms\" }\n", 4, "make.workload.every", "at least 10ms");
}

#[test]
fn the_workload_of_files_asks_nobody_who_is_down_and_gives_every_node_its_turn() {
    let down = "[[step]]\nat = \"5s\"\ncrash = 4\n[[step]]\nat = \"12s\"\nrestart = 4\n";
    let scenario = good(&format!("{HEAD}[make]\nworkload = {{ every = \"100ms\" }}\n{down}"));
    let mut savers = std::collections::BTreeSet::new();
    let mut builders = std::collections::BTreeSet::new();
    for step in &scenario.steps {
        let nodes = match step.action {
            Action::Edit { node, .. } => vec![node],
            Action::Build { node, source, .. } => vec![node, source],
            _ => continue,
        };
        let is_down = (Duration::from_millis(5_000)..Duration::from_millis(12_000)).contains(&step.at);
        assert!(!(is_down && nodes.contains(&4)), "{step:?}");
        savers.extend(nodes.last().copied());
        builders.extend(nodes.first().copied().filter(|_| nodes.len() == 2));
    }
    assert_eq!((savers.len(), builders.len()), (5, 5));
    assert!(scenario.steps.is_sorted_by_key(|step| step.at));
}
