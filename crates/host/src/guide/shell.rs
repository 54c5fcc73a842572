//! Commands of a shell, read as text: what `sysctl`, `echo`, `tee`, `ethtool`, `cpupower` and `grubby` would set. Nothing is run.

use std::collections::BTreeMap;

use super::functions::{Called, Function, Functions, Part};
use super::line::{Ask, Content, Skip};
use super::shell_line::{BEFORE, Command, HARMLESS, OF_SHELL, braces, commands, here, output, with_sequences};
use super::words::{Word, split};
use super::{boot, names, settings, tools};
use crate::finding::shown;

/// How deep `sh -c` may be nested.
const DEPTH_MAX: usize = 3;
/// The maximum number of variables of a script.
const VARIABLES_MAX: usize = 1000;

/// The maximum length of a word after its variables are replaced. If it would become longer, the variables stay, and evenkeel does not
/// understand the word.
const EXPANDED_BYTES_MAX: usize = 4096;

/// The number of arguments that a function may have.
const ARGUMENTS_MAX: usize = 9;

/// The maximum number of words of a loop. Also the maximum number of commands that loops make of one command.
const LOOP_MAX: usize = 64;

/// The state of a script up to the current line.
#[derive(Default)]
pub(super) struct Script {
    /// The possible values of each variable: in a loop, each of its words.
    variables: BTreeMap<String, Vec<String>>,
    /// The loops that are open, by their variables.
    loops: Vec<String>,
    functions: Functions,
    /// The word that ends the here-document which a command reads.
    pub(super) here: Option<String>,
}

/// The result of one command.
#[derive(Debug, PartialEq)]
enum Found {
    Asks(Vec<Ask>),
    Skip(Skip),
    Unclear(String),
    /// An unknown command, by its name.
    Stranger(String),
}

impl Script {
    /// One line of commands. `None` if its first word is not a known command.
    pub(super) fn line(&mut self, line: &str) -> Option<Content> {
        let (function, line) = match self.functions.part(line) {
            Part::Outside => return self.nested(line, 0),
            Part::Edge => return Some(Content::NotASetting(Skip::Structure)),
            Part::Inside { function, line } => (function, line),
        };
        let content = self.nested(line, 0);
        self.functions.found(&function, content.as_ref());
        match content {
            // It sets nothing before a call, which may have the values.
            None | Some(Content::NotUnderstood(_)) if line.contains('$') => Some(Content::NotASetting(Skip::Structure)),
            content => content,
        }
    }

    /// Ends a function whose last line is missing.
    pub(super) fn end_of_text(&mut self) {
        self.functions.end();
    }

    /// Exchanges the values of `$1`, `$2`, … with these.
    fn exchange(&mut self, values: &mut [Option<Vec<String>>]) {
        for (value, number) in values.iter_mut().zip(1_u8..) {
            let name = number.to_string();
            let before = self.variables.remove(&name);
            if let Some(value) = value.take() {
                self.variables.insert(name, value);
            }
            *value = before;
        }
    }

    /// A call of a function: what its lines set with these arguments.
    fn call(&mut self, function: Function, arguments: &[Word], depth: usize) -> Found {
        let known = |word: &&Word| !word.is_expanded && word.text.len() <= EXPANDED_BYTES_MAX;
        let mut values: Vec<Option<Vec<String>>> =
            (0..ARGUMENTS_MAX).map(|at| arguments.get(at).filter(known).map(|word| vec![word.text.clone()])).collect();
        self.exchange(&mut values);
        let mut all = All::default();
        for line in &function.lines {
            self.nested(line, depth + 1).into_iter().for_each(|content| all.add(found(content)));
        }
        self.exchange(&mut values);
        // A function often sets the value now and writes it to a file.
        let mut seen = function.asks;
        all.asks.retain(|ask| {
            let is_new = !seen.contains(ask);
            seen.extend(is_new.then(|| ask.clone()));
            is_new
        });
        all.content().map_or(Found::Skip(Skip::Command), found)
    }

    fn nested(&mut self, line: &str, depth: usize) -> Option<Content> {
        let words = with_sequences(split(line));
        if let Some(array) = self.array(&words) {
            return Some(array);
        }
        self.here = here(&words);
        let mut all = All::default();
        // The output of the previous command, and the outputs of all commands of a group.
        let mut said: Option<String> = None;
        let mut group: Option<Vec<Option<String>>> = None;
        for command in commands(&words) {
            let first = command.words.first().map_or("", |word| word.text.as_str());
            let before = command.input.clone().map(|input| self.expand(&input.text)).or_else(|| said.take());
            if command.opens || first == "{" {
                group = Some(Vec::new());
            }
            if first == "}" || command.words.is_empty() {
                let printed = group.take().and_then(|all| all.into_iter().collect::<Option<Vec<String>>>());
                let printed = printed.map(|lines| lines.join("\n")).filter(|text| !text.is_empty());
                match &command.file {
                    Some(file) => all.add(self.of_group(file, printed)),
                    None => {
                        all.add(Found::Skip(Skip::Structure));
                        said = printed;
                    }
                }
                continue;
            }
            for found in self.each(&command, before.as_deref(), depth) {
                all.add(found);
            }
            said = output(&self.expanded(&command.words));
            if let Some(group) = group.as_mut().filter(|_| command.file.is_none()) {
                group.push(said.clone());
            }
        }
        all.content()
    }

    /// `NAME=(WORD…)`: a variable with several words.
    fn array(&mut self, words: &[Word]) -> Option<Content> {
        let [name, open, values @ .., close] = words else { return None };
        let is = |word: &Word, text: &str| word.is_operator && word.text == text;
        let name = name.text.strip_suffix('=').filter(|_| is_variable(&name.text))?;
        let is_array = is(open, "(") && is(close, ")") && (1..=LOOP_MAX).contains(&values.len());
        let is_known = is_array && !values.iter().any(|word| word.is_operator && word.text != ";" || word.is_expanded);
        if !is_known || self.variables.len() >= VARIABLES_MAX {
            return None;
        }
        let short = |word: &Word| word.text.chars().take(EXPANDED_BYTES_MAX).collect();
        self.variables.insert(name.to_owned(), values.iter().filter(|word| !word.is_operator).map(short).collect());
        Some(Content::NotASetting(Skip::Structure))
    }

    /// Handles a group of commands whose output goes to a file.
    fn of_group(&self, file: &Word, printed: Option<String>) -> Found {
        let file = self.expanded(std::slice::from_ref(file)).swap_remove(0);
        let is_setting = ["/proc/", "/sys/"].iter().any(|begin| file.text.starts_with(begin))
            || file.text.contains("sysctl")
            || boot::is_file(&file.text);
        match printed {
            Some(text) => self.written(&file, &text),
            None if is_setting => Found::Unclear("the text that the group writes is not on this line".to_owned()),
            None => Found::Skip(Skip::Command),
        }
    }

    /// A command, once for each word of the loops around it.
    fn each(&mut self, command: &Command, said: Option<&str>, depth: usize) -> Vec<Found> {
        let name = command.words.iter().map(|word| word.text.as_str()).find(|word| !BEFORE.contains(word));
        let is_kept = name.is_some_and(|name| name == "for" || is_variable(name) && name.contains('='));
        let texts: Vec<&str> = command.words.iter().chain(&command.file).map(|word| word.text.as_str()).collect();
        let uses = |name: &str| {
            texts.iter().any(|text| text.contains(&format!("${name}")) || text.contains(&format!("${{{name}")))
        };
        let several: Vec<(String, Vec<String>)> = self
            .variables
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
                self.variables.insert(name.clone(), vec![values[rest % values.len()].clone()]);
                rest /= values.len();
            }
            let one = self.command(command, said, depth);
            if !found.contains(&one) {
                found.push(one);
            }
        }
        self.variables.extend(several);
        found
    }

    /// Replaces the variables that the script has set in the words of a command.
    fn expanded(&self, words: &[Word]) -> Vec<Word> {
        let one = |word: &Word| {
            if !word.is_expanded {
                return word.clone();
            }
            let text = self.expand(&word.text);
            let is_expanded = text.contains(['$', '`']);
            Word { text, is_operator: false, is_expanded }
        };
        words.iter().map(one).collect()
    }

    /// Replaces `$NAME` and `${NAME}` in a text, if the variable is known.
    fn expand(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let (name, rest) = match part.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                Some(braced) => braced,
                None => part.split_at(part.find(|letter| !is_name(letter)).unwrap_or(part.len())),
            };
            let name = name.strip_suffix("[@]").or_else(|| name.strip_suffix("[*]")).unwrap_or(name);
            match self.variables.get(name).map(Vec::as_slice) {
                Some([value]) => expanded.extend([value.as_str(), rest]),
                _ => expanded.extend(["$", part]),
            }
            if expanded.len() > EXPANDED_BYTES_MAX {
                return text.to_owned();
            }
        }
        expanded
    }

    /// Every text that results from the possible values of loop variables.
    fn alternatives(&self, text: &str) -> Vec<String> {
        let mut all = vec![self.expand(text)];
        for (name, values) in self.variables.iter().filter(|(_, values)| values.len() > 1) {
            let uses =
                ["[@]}", "[*]}", "}"].map(|end| format!("${{{name}{end}")).into_iter().chain([format!("${name}")]);
            let uses: Vec<String> = uses.collect();
            if uses.iter().any(|uses| text.contains(uses.as_str())) && all.len() * values.len() <= LOOP_MAX {
                let with = |text: &String| {
                    let of = |value: &String| uses.iter().fold(text.clone(), |text, uses| text.replace(uses, value));
                    values.iter().map(of).collect::<Vec<_>>()
                };
                all = all.iter().flat_map(with).filter(|text| text.len() <= EXPANDED_BYTES_MAX).collect();
            }
        }
        all
    }

    fn command(&mut self, command: &Command, said: Option<&str>, depth: usize) -> Found {
        let words = self.expanded(&command.words);
        let mut words: &[Word] = &words;
        while let Some((first, rest)) = words.split_first() {
            let is_option =
                first.text.starts_with('-') && command.words.first().is_some_and(|word| word.text == "sudo");
            if !BEFORE.contains(&first.text.as_str()) && !is_option {
                break;
            }
            if first.text == "while" || first.text == "until" {
                self.loops.push(String::new());
            }
            words = rest;
        }
        let Some((name, arguments)) = words.split_first() else { return Found::Skip(Skip::Structure) };
        let name = name.text.rsplit('/').next().unwrap_or_default();
        let texts: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
        match self.functions.called(name) {
            Called::Unknown => {}
            Called::Within => return Found::Skip(Skip::Structure),
            Called::Function(function) if depth < DEPTH_MAX => return self.call(function, arguments, depth),
            Called::Function(_) | Called::TooMany => {
                return Found::Unclear("its calls of functions are too many, or too deep, to follow".to_owned());
            }
        }
        match name {
            "for" => self.remember_loop(&command.words),
            "done" => self.leave_loop(),
            "sh" | "bash" => self.inner(&texts, depth),
            "echo" | "printf" => match (&command.file, output(words)) {
                (Some(file), Some(text)) => self.written(&self.expanded(std::slice::from_ref(file))[0], &text),
                (Some(_), None) => Found::Unclear("evenkeel can't tell what `printf` prints".to_owned()),
                (None, _) => Found::Skip(Skip::Command),
            },
            "tee" => self.tee(arguments, said),
            "sysctl" => sysctl(arguments),
            "sed" => found(boot::sed(&texts)),
            _ if name.contains('=') && !name.starts_with('=') && is_variable(name) => {
                let raw = command.words.iter().find(|word| !BEFORE.contains(&word.text.as_str()));
                self.assign(raw.unwrap_or(&words[0]))
            }
            name if OF_SHELL.contains(&name) => self.exported(name, arguments),
            name if HARMLESS.contains(&name) => Found::Skip(Skip::Command),
            name => match tools::asks(name, &texts) {
                Some(_) if arguments.iter().any(|word| word.is_expanded) && !tools::takes_any_device(name) => unclear(),
                Some(found) => found.map_or_else(Found::Skip, Found::Asks),
                None => Found::Stranger(name.to_owned()),
            },
        }
    }

    /// `sh -c '…'`.
    fn inner(&mut self, texts: &[&str], depth: usize) -> Found {
        match texts.iter().position(|text| text.starts_with('-') && text.ends_with('c')) {
            Some(at) if depth < DEPTH_MAX => match texts.get(at + 1).and_then(|text| self.nested(text, depth + 1)) {
                Some(content) => found(content),
                None => Found::Skip(Skip::Command),
            },
            _ => Found::Skip(Skip::Command),
        }
    }

    fn tee(&self, arguments: &[Word], said: Option<&str>) -> Found {
        let files: Vec<&Word> = arguments.iter().filter(|word| !word.text.starts_with('-')).collect();
        match (said, files.as_slice()) {
            (Some(said), [file]) => self.written(file, said),
            (Some(said), [_, ..]) => {
                let mut all = All::default();
                files.iter().for_each(|file| all.add(self.written(file, said)));
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

    /// `for NAME in WORD…`: each word, which may be a pattern of files. What only a shell can expand is unknown.
    fn remember_loop(&mut self, words: &[Word]) -> Found {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).skip_while(|word| *word != "for").collect();
        let ["for", name, rest @ ..] = texts.as_slice() else { return Found::Skip(Skip::Structure) };
        self.loops.push((*name).to_owned());
        let values = match rest {
            ["in", values @ ..] => {
                let words = values.iter().filter(|word| **word != "do").flat_map(|word| self.alternatives(word));
                words
                    .flat_map(|word| word.split_whitespace().flat_map(braces).collect::<Vec<_>>())
                    .take(LOOP_MAX + 1)
                    .collect()
            }
            _ => Vec::new(),
        };
        let is_known =
            (1..=LOOP_MAX).contains(&values.len()) && !values.iter().any(|value: &String| value.contains(['$', '`']));
        self.variables.remove(*name);
        if is_known && self.variables.len() < VARIABLES_MAX {
            let short = |value: String| value.chars().take(EXPANDED_BYTES_MAX).collect();
            self.variables.insert((*name).to_owned(), values.into_iter().map(short).collect());
        }
        Found::Skip(Skip::Structure)
    }

    /// Handles the end of a loop. After it, the loop's variable keeps its last word.
    fn leave_loop(&mut self) -> Found {
        if let Some(name) = self.loops.pop()
            && let Some(values) = self.variables.get_mut(&name)
        {
            values.drain(..values.len().saturating_sub(1));
        }
        Found::Skip(Skip::Structure)
    }

    /// `NAME=VALUE`: kernel arguments, or a variable.
    fn assign(&mut self, word: &Word) -> Found {
        let Some((name, _)) = word.text.split_once('=') else { return Found::Stranger(word.text.clone()) };
        if name.starts_with("GRUB_CMDLINE") {
            return found(settings::arguments(&self.expand(&word.text)));
        }
        let name = name.trim_end_matches('+').to_owned();
        let values: Vec<String> = self
            .alternatives(&word.text)
            .iter()
            .filter_map(|text| Some(text.split_once('=')?.1.chars().take(EXPANDED_BYTES_MAX).collect()))
            .collect();
        let is_known = !word.text.contains("+=") && !values.iter().any(|value: &String| value.contains(['$', '`']));
        self.variables.remove(&name);
        if is_known && !values.is_empty() && self.variables.len() < VARIABLES_MAX {
            self.variables.insert(name, values);
        }
        Found::Skip(Skip::Structure)
    }

    /// A text that is written to a file.
    fn written(&self, file: &Word, text: &str) -> Found {
        let path = file.text.as_str();
        if boot::is_file(path) {
            return found(boot::written(path, text));
        }
        // A variable in the name of a device matches every device.
        if text.contains(['$', '`'])
            || file.is_expanded && !path.starts_with("/sys/") && !path.starts_with("/proc/irq/")
        {
            return unclear();
        }
        if path.starts_with("/proc/") || path.starts_with("/sys/") {
            return match names::by_file(path, text.trim()) {
                Some(ask) => Found::Asks(vec![ask]),
                None => Found::Unclear(format!("evenkeel does not know {path}")),
            };
        }
        if path.contains("sysctl") {
            let lines = text.split('\n').flat_map(|line| line.split("\\n")).map(|line| (line, settings::line(line)));
            let asks = lines.map(|(line, content)| match content {
                Content::Settings(asks) => asks,
                Content::NotUnderstood(_) => vec![Ask::not_understood(format!("{line:?} in a file of sysctls"))],
                Content::NotASetting(_) => Vec::new(),
            });
            let asks: Vec<Ask> = asks.flatten().collect();
            return if asks.is_empty() {
                Found::Unclear(format!("no setting is written to {path}"))
            } else {
                Found::Asks(asks)
            };
        }
        Found::Skip(Skip::Command)
    }
}

fn unclear() -> Found {
    Found::Unclear("only a shell could expand it, and evenkeel runs nothing".to_owned())
}

/// The content of one part of a line.
fn found(content: Content) -> Found {
    match content {
        Content::Settings(asks) => Found::Asks(asks),
        Content::NotASetting(skip) => Found::Skip(skip),
        Content::NotUnderstood(why) => Found::Unclear(why),
    }
}

/// The combined content of all commands of a line.
#[derive(Default)]
struct All {
    asks: Vec<Ask>,
    unclear: Vec<String>,
    skip: Option<Skip>,
    strangers: Vec<String>,
}

impl All {
    fn add(&mut self, found: Found) {
        match found {
            Found::Asks(found) => self.asks.extend(found),
            Found::Skip(why) => self.skip = Some(why),
            Found::Unclear(why) if self.unclear.contains(&why) => {}
            Found::Unclear(why) => self.unclear.push(why),
            Found::Stranger(name) => {
                self.strangers.push(format!("evenkeel does not know the command {}", shown(&name)));
            }
        }
    }

    /// `None` if there are only unknown commands.
    fn content(mut self) -> Option<Content> {
        if self.asks.is_empty() && self.unclear.is_empty() && self.skip.is_none() {
            return None;
        }
        self.unclear.extend(self.strangers);
        match (self.asks.is_empty(), self.unclear.is_empty(), self.skip) {
            (false, _, _) => {
                self.asks.extend(self.unclear.into_iter().map(Ask::not_understood));
                Some(Content::settings(self.asks))
            }
            (true, true, Some(skip)) => Some(Content::NotASetting(skip)),
            (true, ..) => Some(Content::not(self.unclear.join("; "))),
        }
    }
}

/// Whether a word begins with the name of a variable and `=`, or `+=`.
fn is_variable(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `sysctl -w KEY=VALUE …`.
fn sysctl(arguments: &[Word]) -> Found {
    let named: Vec<&Word> = arguments.iter().filter(|word| !word.text.starts_with('-')).collect();
    let is_write = arguments.iter().any(|word| word.text == "-w" || word.text == "--write");
    if is_write && named.iter().any(|word| word.is_expanded) {
        return unclear();
    }
    if !named.iter().any(|word| word.text.contains('=')) {
        return Found::Skip(Skip::Command);
    }
    if named.iter().any(|word| word.is_expanded) {
        return unclear();
    }
    let each: Vec<Option<Ask>> = named.iter().map(|word| settings::assignment(&word.text)).collect();
    if each.iter().all(Option::is_some) {
        return Found::Asks(each.into_iter().flatten().collect());
    }
    // The arguments may have spaces around the `=`, or between the numbers of one value.
    let whole = named.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    match settings::assignment(&whole).filter(|_| whole.matches('=').count() == 1) {
        Some(ask) => Found::Asks(vec![ask]),
        None => Found::Unclear("`sysctl` has an argument that is not a key=value of a sysctl".to_owned()),
    }
}
