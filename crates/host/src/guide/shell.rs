//! Commands of a shell, read as text: what `sysctl`, `echo`, `tee`, `ethtool`, `cpupower` and `grubby` would set. Nothing is run.

use std::collections::{BTreeMap, BTreeSet};

use super::branches::{Branches, is_stop};
use super::functions::{Called, Function, Functions, Part};
use super::line::{Content, Skip};
use super::shell_file::{LATENCY, latency, written};
use super::shell_found::{All, Found, found, taken_back, unclear};
use super::shell_line::{
    BEFORE, Command, HARMLESS, OF_SHELL, QUIET, braces, commands, counted, here, output, with_sequences,
};
use super::shell_sysctl::sysctl;
use super::variables::{EXPANDED_BYTES_MAX, LOOP_MAX, VARIABLES_MAX, Variables, is_variable};
use super::words::{Word, split};
use super::{arithmetic, boot, prompt, settings, tmpfiles, tools};

/// How deep `sh -c` may be nested.
const DEPTH_MAX: usize = 3;
/// The number of arguments that a function may have.
const ARGUMENTS_MAX: usize = 9;

/// The maximum number of commands of a group.
const GROUP_MAX: usize = 200;
/// The maximum number of functions that `trap` may name.
const HANDLERS_MAX: usize = 100;

/// The state of a script up to the current line.
#[derive(Default)]
pub(super) struct Script {
    variables: Variables,
    /// The loops that are open, by their variables.
    loops: Vec<String>,
    functions: Functions,
    branches: Branches,
    /// The functions that the script runs at its end, because `trap` names them.
    handlers: BTreeSet<String>,
    /// The files that `exec 3>FILE` opened, by their numbers.
    files: BTreeMap<String, Word>,
    /// The word that ends the here-document of a command.
    pub(super) here: Option<String>,
    /// The outputs of the commands of a group that began on an earlier line.
    group: Option<Vec<Option<String>>>,
}

/// A file that receives the output of a command.
struct File {
    word: Word,
    /// Whether the script keeps the file open.
    is_open: bool,
}

impl File {
    /// Whether the file is the latency file, and the script keeps it open.
    fn is_held(&self) -> bool {
        self.is_open && self.word.text == LATENCY
    }
}

impl Script {
    /// The script of a text.
    pub(super) fn of_text(text: &str) -> Script {
        let handler =
            |line: &str| line.trim_start().strip_prefix("trap ")?.split_whitespace().next().map(str::to_owned);
        Script { handlers: text.lines().filter_map(handler).take(HANDLERS_MAX).collect(), ..Script::default() }
    }

    /// One of several scripts of a text, by its number.
    pub(super) fn numbered(number: usize) -> Script {
        Script { branches: Branches::of_script(number), ..Script::default() }
    }

    /// Whether a function reverts settings.
    fn is_stop(&self, function: &str) -> bool {
        is_stop(function) || self.handlers.contains(function)
    }

    /// One line of commands. `None` if its first word is not a known command.
    pub(super) fn line(&mut self, line: &str) -> Option<Content> {
        let line = prompt::without(line);
        if let Some(content) = tmpfiles::line(line) {
            return Some(content);
        }
        let (function, line) = match self.functions.part(line) {
            Part::Outside => return self.nested(line, 0),
            Part::Edge => return Some(Content::NotASetting(Skip::Structure)),
            Part::Inside { function, line } => (function, line),
        };
        let content = match self.nested(line, 0) {
            Some(Content::Settings(asks)) if self.is_stop(&function) => {
                Some(Content::not(taken_back(&asks, &function)))
            }
            content => content,
        };
        self.functions.found(&function, content.as_ref());
        match content {
            // Before a call of its function, the line sets nothing, because the call may have the values.
            None | Some(Content::NotUnderstood(_)) if line.contains('$') => Some(Content::NotASetting(Skip::Structure)),
            content => content,
        }
    }

    /// Ends a function whose last line is missing.
    pub(super) fn end_of_text(&mut self) {
        self.functions.end();
        self.branches.back_to((0, 0));
    }

    /// Exchanges the values of `$1`, `$2`, … with these.
    fn exchange(&mut self, values: &mut [Option<Vec<String>>]) {
        for (value, number) in values.iter_mut().zip(1_u8..) {
            let name = number.to_string();
            let before = self.variables.known.remove(&name);
            if let Some(value) = value.take() {
                self.variables.known.insert(name, value);
            }
            *value = before;
        }
    }

    /// Handles a call of a function: the settings of the function's lines with these arguments.
    fn call(&mut self, function: Function, arguments: &[Word], depth: usize) -> Found {
        let known = |word: &&Word| !word.is_expanded && word.text.len() <= EXPANDED_BYTES_MAX;
        let mut values: Vec<Option<Vec<String>>> =
            (0..ARGUMENTS_MAX).map(|at| arguments.get(at).filter(known).map(|word| vec![word.text.clone()])).collect();
        self.exchange(&mut values);
        let (mut all, outside) = (All::default(), self.branches.depth());
        for line in &function.lines {
            self.nested(line, depth + 1).into_iter().for_each(|content| all.add(found(content)));
        }
        self.branches.back_to(outside);
        self.exchange(&mut values);
        // A function often sets the value now, and also writes it to a file.
        let mut seen = function.asks;
        all.asks.retain(|ask| {
            let is_new = !seen.iter().any(|seen| seen.is_same(ask));
            seen.extend(is_new.then(|| ask.clone()));
            is_new
        });
        all.content().map_or(Found::Skip(Skip::Command), found)
    }

    fn nested(&mut self, line: &str, depth: usize) -> Option<Content> {
        let mut words = with_sequences(split(&arithmetic::as_words(line)));
        if let Some(array) = self.array(&words) {
            return Some(array);
        }
        self.here = here(&words);
        let mut all = All::default();
        if self.begins_counted(&mut words) {
            all.add(Found::Skip(Skip::Structure));
        }
        // The output of the previous command, and the outputs of all commands of a group.
        let mut said: Option<String> = None;
        let mut group = self.group.take();
        let mut is_test = false;
        for command in commands(&words) {
            let first = command.words.first().map_or("", |word| word.text.as_str());
            if std::mem::replace(&mut is_test, ["while", "until"].contains(&first) && command.words.len() == 1) {
                self.variables.forget(&command.words);
                all.add(Found::Skip(Skip::Structure));
                continue;
            }
            if self.branches.follow(&command.words, &command.end) || first.is_empty() && command.end == ";;" {
                self.branches.after(&command.end);
                all.add(Found::Skip(Skip::Structure));
                continue;
            }
            self.remember_file(&command);
            let before = command.input.clone().map(|input| self.variables.expand(&input.text)).or_else(|| said.take());
            if command.opens || first == "{" {
                group = Some(Vec::new());
            }
            if first == "}" || command.words.is_empty() {
                let found;
                (found, said) = self.end_group(&command, group.take());
                all.add(found);
                continue;
            }
            for found in self.each(&command, before.as_deref(), depth) {
                all.add(self.in_branch(found));
            }
            self.branches.after(&command.end);
            said = output(&self.variables.expanded(&command.words));
            let is_kept = command.file.is_none() && (first != "{" || command.words.len() > 1);
            if let Some(group) = group.as_mut().filter(|group| is_kept && group.len() < GROUP_MAX) {
                group.push(said.clone());
            }
        }
        self.group = group.filter(|_| depth == 0);
        if words.iter().any(|word| word.text.contains("$[")) {
            all.blame_arithmetic();
        }
        all.content()
    }

    /// The result of a command, within the branch around the command.
    fn in_branch(&self, found: Found) -> Found {
        match (found, self.branches.stop()) {
            (Found::Asks(asks), Some(stop)) => Found::Unclear(taken_back(&asks, stop)),
            (Found::Asks(mut asks), None) => {
                let branch = self.branches.current();
                asks.iter_mut().filter(|ask| ask.branch.0.is_empty()).for_each(|ask| ask.branch = branch.clone());
                Found::Asks(asks)
            }
            (found, _) => found,
        }
    }

    /// `exec 3<>FILE` opens a file for the commands after it.
    fn remember_file(&mut self, command: &Command) {
        let is_exec = command.words.first().is_some_and(|word| word.text == "exec");
        if let Some((number, file)) = command.opened.as_ref().filter(|_| is_exec && self.files.len() < VARIABLES_MAX) {
            let file = self.file(file).word;
            self.files.insert(number.clone(), file);
        }
    }

    /// Handles commands in an argument of another command. Their branches end in the argument.
    fn within(&mut self, text: &str, depth: usize) -> Option<Content> {
        let outside = self.branches.depth();
        let content = match text.contains("<<") {
            true => self.with_here(text, depth),
            false => self.nested(text, depth),
        };
        self.branches.back_to(outside);
        content
    }

    /// Commands with a here-document among them: its lines are settings, and no commands.
    fn with_here(&mut self, text: &str, depth: usize) -> Option<Content> {
        let mut all = All::default();
        for line in text.lines() {
            match self.here.take() {
                Some(end) if line.trim() == end => {}
                Some(end) => {
                    self.here = Some(end);
                    all.add(found(settings::line(line)));
                }
                None => self.nested(line, depth).into_iter().for_each(|content| all.add(found(content))),
            }
        }
        self.here = None;
        all.content()
    }

    /// `NAME=(WORD…)`: a variable with several words.
    fn array(&mut self, words: &[Word]) -> Option<Content> {
        let [name, open, values @ .., close] = words else { return None };
        let is = |word: &Word, text: &str| word.is_operator && word.text == text;
        let name = name.text.strip_suffix('=').filter(|_| is_variable(&name.text))?;
        let is_array = is(open, "(") && is(close, ")") && (1..=LOOP_MAX).contains(&values.len());
        let is_known = is_array && !values.iter().any(|word| word.is_operator && word.text != ";" || word.is_expanded);
        if !is_known || self.variables.known.len() >= VARIABLES_MAX {
            return None;
        }
        let short = |word: &Word| word.text.chars().take(EXPANDED_BYTES_MAX).collect();
        self.variables
            .known
            .insert(name.to_owned(), values.iter().filter(|word| !word.is_operator).map(short).collect());
        Some(Content::NotASetting(Skip::Structure))
    }

    /// The end of a group of commands: what it writes to a file, or else what it prints for the next command.
    fn end_group(&self, command: &Command, group: Option<Vec<Option<String>>>) -> (Found, Option<String>) {
        let printed = group.and_then(|all| all.into_iter().collect::<Option<Vec<String>>>());
        let printed = printed.map(|lines| lines.join("\n")).filter(|text| !text.is_empty());
        match &command.file {
            Some(file) => (self.in_branch(self.of_group(file, printed)), None),
            None => (Found::Skip(Skip::Structure), printed),
        }
    }

    /// Handles the head of a loop that counts, and removes it from the words.
    fn begins_counted(&mut self, words: &mut Vec<Word>) -> bool {
        let Some(counted) = counted(words) else { return false };
        words.drain(..counted.after);
        self.begin_loop(&counted.name, counted.numbers);
        true
    }

    /// Handles a group of commands whose output goes to a file.
    fn of_group(&self, file: &Word, printed: Option<String>) -> Found {
        let file = self.file(file).word;
        let is_setting = ["/proc/", "/sys/"].iter().any(|begin| file.text.starts_with(begin))
            || file.text.contains("sysctl")
            || boot::is_file(&file.text);
        match printed {
            Some(text) => written(&file, &text),
            None if is_setting => Found::Unclear("the text that the group writes is not on this line".to_owned()),
            None => Found::Skip(Skip::Command),
        }
    }

    /// Handles a command, once for each word of the loops around it.
    fn each(&mut self, command: &Command, said: Option<&str>, depth: usize) -> Vec<Found> {
        let name = command.words.iter().map(|word| word.text.as_str()).find(|word| !BEFORE.contains(word));
        let is_kept = name.is_some_and(|name| name == "for" || is_variable(name) && name.contains('='));
        let texts: Vec<&str> = command.words.iter().chain(&command.file).map(|word| word.text.as_str()).collect();
        let uses = |name: &str| {
            texts.iter().any(|text| text.contains(&format!("${name}")) || text.contains(&format!("${{{name}")))
                || texts.iter().any(|text| text.contains("$[") && text.contains(name))
        };
        let several: Vec<(String, Vec<String>)> = self
            .variables
            .known
            .iter()
            .filter(|(name, values)| values.len() > 1 && uses(name))
            .map(|(name, values)| (name.clone(), values.clone()))
            .collect();
        let count: usize = several.iter().map(|(_, values)| values.len()).fold(1, usize::saturating_mul);
        if is_kept || several.is_empty() {
            return vec![self.command(command, said, depth)];
        }
        if count > LOOP_MAX {
            return vec![Found::Unclear("its loops have too many words".to_owned())];
        }
        let mut found = Vec::new();
        for at in 0..count {
            let mut rest = at;
            for (name, values) in &several {
                self.variables.known.insert(name.clone(), vec![values[rest % values.len()].clone()]);
                rest /= values.len();
            }
            let one = self.command(command, said, depth);
            if !found.contains(&one) {
                found.push(one);
            }
        }
        self.variables.known.extend(several);
        found
    }

    fn command(&mut self, command: &Command, said: Option<&str>, depth: usize) -> Found {
        let words = self.variables.expanded(&command.words);
        let mut words: &[Word] = &words;
        while let Some((first, rest)) = words.split_first() {
            let is_option =
                first.text.starts_with('-') && command.words.first().is_some_and(|word| word.text == "sudo");
            if !BEFORE.contains(&first.text.as_str()) && !is_option {
                break;
            }
            if first.text == "while" || first.text == "until" {
                self.loops.push(String::new());
                self.variables.forget(&command.words);
            }
            words = rest;
        }
        let Some((name, arguments)) = words.split_first() else { return Found::Skip(Skip::Structure) };
        let name = name.text.rsplit('/').next().unwrap_or_default();
        let texts: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
        match self.functions.called(name) {
            Called::Unknown => {}
            Called::Within => return Found::Skip(Skip::Structure),
            Called::Function(_) if self.is_stop(name) => return Found::Skip(Skip::Command),
            Called::Function(function) if depth < DEPTH_MAX => return self.call(function, arguments, depth),
            Called::Function(_) | Called::TooMany => {
                return Found::Unclear("its calls of functions are too many, or too deep, to follow".to_owned());
            }
        }
        let is_expanded: Vec<bool> = arguments.iter().map(|word| word.is_expanded).collect();
        let may_have_variables = |name: &str| tools::may_have_variables(name, &is_expanded);
        match name {
            "for" => self.remember_loop(&command.words),
            "done" => self.leave_loop(),
            "sh" | "bash" | "dash" | "ash" | "su" => self.inner(&texts, depth),
            "ssh" if depth < DEPTH_MAX => self.remote(&texts, depth),
            "echo" | "printf" => match (command.file.as_ref().map(|file| self.file(file)), output(words)) {
                (Some(file), _) if file.is_held() => latency(words),
                (Some(file), Some(text)) => written(&file.word, &text),
                (Some(_), None) => Found::Unclear("evenkeel can't tell what `printf` prints".to_owned()),
                (None, _) => Found::Skip(Skip::Command),
            },
            "tee" => self.tee(arguments, said),
            "sysctl" => sysctl(arguments),
            "trap" => self.trap(&texts, depth),
            "sed" => found(boot::sed(&texts)),
            _ if name.contains('=') && !name.starts_with('=') && is_variable(name) => {
                let raw = command.words.iter().find(|word| !BEFORE.contains(&word.text.as_str()));
                self.assign(raw.unwrap_or(&words[0]))
            }
            name if OF_SHELL.contains(&name) => self.exported(name, arguments),
            name if HARMLESS.contains(&name) => Found::Skip(Skip::Command),
            name if QUIET.contains(&name) => Found::Quiet,
            name => match tools::asks(name, &texts) {
                Some(_) if arguments.iter().any(|word| word.is_expanded) && !may_have_variables(name) => unclear(),
                Some(found) => found.map_or_else(Found::Skip, Found::Asks),
                None => Found::Stranger(name.to_owned()),
            },
        }
    }

    /// The file that receives the output of a command. `&3` stands for the file that `exec 3>FILE` opened.
    fn file(&self, file: &Word) -> File {
        match file.text.strip_prefix('&').and_then(|number| self.files.get(number)) {
            Some(path) => File { word: path.clone(), is_open: true },
            None => File { word: self.variables.expanded(std::slice::from_ref(file)).swap_remove(0), is_open: false },
        }
    }

    /// Handles `trap '…' EXIT`: the commands that a script runs at its end.
    fn trap(&mut self, texts: &[&str], depth: usize) -> Found {
        let handler = texts.iter().find(|text| **text != "--").filter(|_| depth < DEPTH_MAX);
        match handler.and_then(|handler| self.within(handler, depth + 1)) {
            Some(Content::Settings(asks)) => Found::Unclear(taken_back(&asks, "trap")),
            Some(Content::NotUnderstood(why)) => Found::Unclear(why),
            _ => Found::Skip(Skip::Structure),
        }
    }

    /// `sh -c '…'`.
    fn inner(&mut self, texts: &[&str], depth: usize) -> Found {
        match texts.iter().position(|text| text.starts_with('-') && text.ends_with('c')) {
            Some(at) if depth < DEPTH_MAX => match texts.get(at + 1).and_then(|text| self.within(text, depth + 1)) {
                Some(content) => found(content),
                None => Found::Skip(Skip::Command),
            },
            _ => Found::Skip(Skip::Command),
        }
    }

    /// `ssh HOST 'COMMAND'`, without options that take a value.
    fn remote(&mut self, texts: &[&str], depth: usize) -> Found {
        let words: Vec<&str> = texts.iter().copied().skip_while(|text| text.starts_with('-')).collect();
        match words.split_first().filter(|(_, rest)| !rest.is_empty()) {
            Some((_, rest)) => self.within(&rest.join(" "), depth + 1).map_or(Found::Skip(Skip::Command), found),
            None => Found::Skip(Skip::Command),
        }
    }

    fn tee(&self, arguments: &[Word], said: Option<&str>) -> Found {
        let files: Vec<&Word> = arguments.iter().filter(|word| !word.text.starts_with('-')).collect();
        match (said, files.as_slice()) {
            (Some(said), [file]) => written(file, said),
            (Some(said), [_, ..]) => {
                let mut all = All::default();
                files.iter().for_each(|file| all.add(written(file, said)));
                all.content().map_or(Found::Skip(Skip::Command), found)
            }
            (None, [_, ..]) if self.here.is_some() => Found::Skip(Skip::Structure),
            _ => Found::Unclear("the text that `tee` writes is not on this line".to_owned()),
        }
    }

    /// `export NAME=VALUE` sets variables too.
    fn exported(&mut self, name: &str, arguments: &[Word]) -> Found {
        let mut said = Found::Skip(Skip::Structure);
        if ["export", "local"].contains(&name) {
            for word in arguments.iter().filter(|word| word.text.contains('=') && is_variable(&word.text)) {
                said = self.assign(word);
            }
        }
        said
    }

    /// `for NAME in WORD…`: remembers each word, which may be a pattern of files. Words that only a shell can expand are unknown.
    fn remember_loop(&mut self, words: &[Word]) -> Found {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).skip_while(|word| *word != "for").collect();
        let ["for", name, rest @ ..] = texts.as_slice() else { return Found::Skip(Skip::Structure) };
        let values: Vec<String> = match rest {
            ["in", values @ ..] => {
                let words =
                    values.iter().filter(|word| **word != "do").flat_map(|word| self.variables.alternatives(word));
                words
                    .flat_map(|word| word.split_whitespace().flat_map(braces).collect::<Vec<_>>())
                    .take(LOOP_MAX + 1)
                    .collect()
            }
            _ => Vec::new(),
        };
        self.begin_loop(name, Some(values));
        Found::Skip(Skip::Structure)
    }

    /// The head of a loop: its variable takes these values, or unknown ones.
    fn begin_loop(&mut self, name: &str, values: Option<Vec<String>>) {
        self.loops.push(name.to_owned());
        self.variables.known.remove(name);
        let is_known = |values: &Vec<String>| {
            (1..=LOOP_MAX).contains(&values.len()) && !values.iter().any(|value| value.contains(['$', '`']))
        };
        if let Some(values) = values.filter(is_known).filter(|_| self.variables.known.len() < VARIABLES_MAX) {
            let short = |value: String| value.chars().take(EXPANDED_BYTES_MAX).collect();
            self.variables.known.insert(name.to_owned(), values.into_iter().map(short).collect());
        }
    }

    /// Handles the end of a loop. After the end, the loop's variable keeps its last word.
    fn leave_loop(&mut self) -> Found {
        if let Some(name) = self.loops.pop()
            && let Some(values) = self.variables.known.get_mut(&name)
        {
            values.drain(..values.len().saturating_sub(1));
        }
        Found::Skip(Skip::Structure)
    }

    /// `NAME=VALUE`: kernel arguments, or a variable.
    fn assign(&mut self, word: &Word) -> Found {
        let Some((name, _)) = word.text.split_once('=') else { return Found::Stranger(word.text.clone()) };
        if name.starts_with("GRUB_CMDLINE") || ["append", "APPEND", "kernelopts"].contains(&name) {
            return found(settings::arguments(&self.variables.expand(&word.text)));
        }
        let name = name.trim_end_matches('+').to_owned();
        let values: Vec<String> = self
            .variables
            .alternatives(&word.text)
            .iter()
            .filter_map(|text| Some(text.split_once('=')?.1.chars().take(EXPANDED_BYTES_MAX).collect()))
            .collect();
        let is_known = !word.text.contains("+=") && !values.iter().any(|value: &String| value.contains(['$', '`']));
        self.variables.known.remove(&name);
        if is_known && !values.is_empty() && self.variables.known.len() < VARIABLES_MAX {
            self.variables.known.insert(name, values);
        }
        Found::Skip(Skip::Structure)
    }
}
