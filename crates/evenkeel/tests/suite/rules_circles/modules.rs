//! Reads the modules of a crate from its sources, and finds the files that each file needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The names on a module's path, from the crate's root.
type Names = Vec<String>;

/// The meaning of a name in a module.
#[derive(Debug, Clone)]
enum Name {
    /// An item that the module defines.
    Item,
    /// An imported path.
    Import(Names),
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// An item, and the file that defines it.
    Item(PathBuf),
    /// A module of the crate.
    Module(Names),
}

#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    names: BTreeMap<String, Vec<Name>>,
    /// Modules that are imported with `*`.
    globs: Vec<Names>,
    /// The paths in the code, except paths that are only re-exported.
    paths: BTreeSet<Names>,
}

/// The modules of one crate without its tests.
#[derive(Debug, Default)]
pub(super) struct Modules {
    modules: BTreeMap<Names, Module>,
    /// The files that define each macro. A macro is visible from its place in the text.
    macros: BTreeMap<String, BTreeSet<PathBuf>>,
    /// The methods: module and path of the type, name of the function, and file.
    functions: Vec<(Names, Names, String, PathBuf)>,
    /// The same methods, by the type's file, the type's name and the name of the function.
    methods: BTreeMap<(PathBuf, String, String), BTreeSet<PathBuf>>,
}

/// Reads the code of one file into its modules.
struct Reader<'a> {
    into: &'a mut Modules,
    at: Names,
    file: PathBuf,
    /// The type of the current `impl`; `None` outside of an `impl`.
    own: Option<Names>,
    /// Modules in other files: the name of each module, and its file if the declaration names one.
    children: Vec<(Names, Option<PathBuf>)>,
    /// Names within macros that define items. Such a name is a module if a file with that name exists.
    maybe_children: Vec<Names>,
}

/// Whether these attributes restrict code to tests.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    let is_test_only = |condition: &syn::Meta| match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => {
            list.tokens.clone().into_iter().any(|token| token.to_string() == "test")
        }
        _ => false,
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Meta>().is_ok_and(|condition| is_test_only(&condition))
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item defines.
fn defined(item: &syn::Item) -> Option<&syn::Ident> {
    match item {
        syn::Item::Const(item) => Some(&item.ident),
        syn::Item::Enum(item) => Some(&item.ident),
        syn::Item::Fn(item) => Some(&item.sig.ident),
        syn::Item::Macro(item) => item.ident.as_ref(),
        syn::Item::Static(item) => Some(&item.ident),
        syn::Item::Struct(item) => Some(&item.ident),
        syn::Item::Trait(item) => Some(&item.ident),
        syn::Item::Type(item) => Some(&item.ident),
        syn::Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

/// The file that `#[path = "…"]` names; `None` without this attribute.
fn named_file(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("path")).find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
        Some(text.value())
    })
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        self.into
            .modules
            .entry(self.at.clone())
            .or_insert_with(|| Module { file: self.file.clone(), ..Module::default() })
    }

    /// Stores the imports of a `use` line, and their names in this module.
    fn imports(&mut self, tree: &syn::UseTree, before: &Names, is_passed_on: bool) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Names>();
        let (path, name) = match tree {
            syn::UseTree::Path(path) => return self.imports(&path.tree, &with(&path.ident), is_passed_on),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.imports(tree, before, is_passed_on));
            }
            syn::UseTree::Glob(_) => return self.module().globs.push(before.clone()),
            syn::UseTree::Name(name) if name.ident == "self" => (before.clone(), before.last().cloned()),
            syn::UseTree::Name(name) => (with(&name.ident), Some(name.ident.to_string())),
            syn::UseTree::Rename(rename) if rename.ident == "self" => (before.clone(), Some(rename.rename.to_string())),
            syn::UseTree::Rename(rename) => (with(&rename.ident), Some(rename.rename.to_string())),
        };
        let module = self.module();
        if !is_passed_on {
            module.paths.insert(path.clone());
        }
        if let Some(name) = name {
            module.names.entry(name).or_default().push(Name::Import(path));
        }
    }

    /// Stores the paths among the tokens of a macro.
    /// Also stores single names, because the macro may call functions with these names.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons, mut is_field) = (Names::new(), 0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(name) if !is_field => {
                    if colons < 2 {
                        self.path(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' && !path.is_empty() => colons += 1,
                other => {
                    self.path(std::mem::take(&mut path));
                    colons = 0;
                    is_field = matches!(&other, TokenTree::Punct(sign) if sign.as_char() == '.');
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.path(path);
    }

    fn path(&mut self, mut path: Names) {
        if path.first().is_some_and(|first| first == "Self") {
            path.splice(..1, self.own.clone().unwrap_or_default());
        }
        if !path.is_empty() {
            self.module().paths.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test(attributes(item)) {
            return;
        }
        if let Some(name) = defined(item) {
            self.module().names.entry(name.to_string()).or_default().push(Name::Item);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let before = self.own.take();
        if let syn::Type::Path(of) = &*block.self_ty {
            let own: Names = of.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            for item in block.items.iter().filter(|_| block.trait_.is_none()) {
                if let syn::ImplItem::Fn(function) = item {
                    let name = function.sig.ident.to_string();
                    self.into.functions.push((self.at.clone(), own.clone(), name, self.file.clone()));
                }
            }
            self.own = Some(own);
        }
        visit::visit_item_impl(self, block);
        self.own = before;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if let (syn::Expr::Path(receiver), Some(own)) = (&*call.receiver, &self.own)
            && receiver.path.is_ident("self")
        {
            self.path(own.iter().cloned().chain([call.method.to_string()]).collect());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.at.push(item.ident.to_string());
        match &item.content {
            Some(_) => {
                self.module();
                visit::visit_item_mod(self, item);
            }
            None => {
                let named = named_file(&item.attrs).map(|name| self.file.with_file_name(name));
                self.children.push((self.at.clone(), named));
            }
        }
        self.at.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_passed_on = !matches!(item.vis, syn::Visibility::Inherited);
        if item.leading_colon.is_none() {
            self.imports(&item.tree, &Names::new(), is_passed_on);
        }
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        match &item.ident {
            Some(name) => {
                self.into.macros.entry(name.to_string()).or_default().insert(self.file.clone());
            }
            None => {
                let mut names = Vec::new();
                identifiers(item.mac.tokens.clone(), &mut names);
                let at = &self.at;
                self.maybe_children
                    .extend(names.into_iter().map(|name| at.iter().cloned().chain([name]).collect::<Names>()));
            }
        }
        visit::visit_item_macro(self, item);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        visit::visit_macro(self, called);
        self.tokens(called.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        // An attribute may contain a path in a string, as in serde's `with = "super::as_list"`.
        let syn::Meta::List(list) = &attribute.meta else { return };
        for token in list.tokens.clone() {
            let text = token.to_string();
            let path = text.trim_matches('"').split("::").map(str::to_owned).collect::<Names>();
            if path.len() > 1 {
                self.path(path);
            }
        }
        self.tokens(list.tokens.clone());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

fn identifiers(tokens: TokenStream, into: &mut Names) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => into.push(name.to_string()),
            TokenTree::Group(group) => identifiers(group.stream(), into),
            _ => {}
        }
    }
}

impl Modules {
    /// Reads the crate whose root file is `root`.
    pub(super) fn new(sources: &BTreeMap<PathBuf, String>, root: &Path) -> Self {
        let mut modules = Self::default();
        let folder = root.parent().unwrap();
        let mut left = vec![(Names::new(), root.to_owned())];
        while let Some((at, file)) = left.pop() {
            let code = syn::parse_file(&sources[&file]).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let mut reader =
                Reader { into: &mut modules, at, file, own: None, children: Vec::new(), maybe_children: Vec::new() };
            reader.module();
            reader.visit_file(&code);
            let Reader { children, maybe_children, .. } = reader;
            let usual = |at: &Names| {
                let below = folder.join(at.join("/"));
                [below.with_extension("rs"), below.join("mod.rs")].into_iter().find(|file| sources.contains_key(file))
            };
            for (at, named) in children {
                let file = named.or_else(|| usual(&at)).unwrap_or_else(|| panic!("no file of module {at:?}"));
                left.push((at, file));
            }
            let made: BTreeMap<Names, PathBuf> =
                maybe_children.into_iter().filter_map(|at| usual(&at).map(|file| (at, file))).collect();
            left.extend(made);
        }
        for (at, of, function, file) in std::mem::take(&mut modules.functions) {
            for target in modules.resolve(&at, &of, &mut BTreeSet::new()) {
                if let (Target::Item(type_file), Some(name)) = (target, of.last()) {
                    let key = (type_file, name.clone(), function.clone());
                    modules.methods.entry(key).or_default().insert(file.clone());
                }
            }
        }
        modules
    }

    /// The targets of a path in this module. Empty if the path leads to another crate.
    fn resolve(&self, from: &Names, path: &[String], asked: &mut BTreeSet<(Names, String)>) -> BTreeSet<Target> {
        let mut at = from.clone();
        let mut rest = path;
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => break,
            }
            rest = after;
        }
        let is_written_out = rest.len() < path.len();
        let mut found = BTreeSet::from([Target::Module(at)]);
        for (step, name) in rest.iter().enumerate() {
            let mut next = BTreeSet::new();
            // A function may have the same name as a module. A path that continues can only mean the module.
            if found.iter().any(|target| matches!(target, Target::Module(_))) {
                found.retain(|target| matches!(target, Target::Module(_)));
            }
            for target in found {
                match target {
                    Target::Module(at) => match self.look_up(&at, name, asked) {
                        Some(targets) => next.extend(targets),
                        // Nothing else in the sources shows an item that a macro defines.
                        // A path with a single name means another crate, or a local name.
                        None if step > 0 || is_written_out => {
                            next.extend(self.modules.get(&at).map(|module| Target::Item(module.file.clone())));
                        }
                        None => {}
                    },
                    Target::Item(file) => {
                        let key = (file.clone(), rest[step.saturating_sub(1)].clone(), name.clone());
                        next.extend(self.methods.get(&key).into_iter().flatten().cloned().map(Target::Item));
                        next.insert(Target::Item(file));
                    }
                }
            }
            found = next;
        }
        found
    }

    /// The meaning of a name in a module; `None` if the module does not have the name.
    fn look_up(&self, at: &Names, name: &str, asked: &mut BTreeSet<(Names, String)>) -> Option<BTreeSet<Target>> {
        let module = self.modules.get(at)?;
        let mut targets = BTreeSet::new();
        let below: Names = at.iter().cloned().chain([name.to_owned()]).collect();
        let mut is_known = self.modules.contains_key(&below);
        if is_known {
            targets.insert(Target::Module(below));
        }
        if !asked.insert((at.clone(), name.to_owned())) {
            return Some(targets);
        }
        for meaning in module.names.get(name).into_iter().flatten() {
            is_known = true;
            match meaning {
                Name::Item => drop(targets.insert(Target::Item(module.file.clone()))),
                Name::Import(path) => targets.extend(self.resolve(at, path, asked)),
            }
        }
        if !is_known {
            for glob in &module.globs {
                for target in self.resolve(at, glob, &mut asked.clone()) {
                    if let Target::Module(of) = target
                        && let Some(found) = self.look_up(&of, name, asked)
                    {
                        is_known = true;
                        targets.extend(found);
                    }
                }
            }
        }
        asked.remove(&(at.clone(), name.to_owned()));
        is_known.then_some(targets)
    }

    /// The files that each file needs.
    pub(super) fn graph(&self) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
        let mut graph: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
        for (at, module) in &self.modules {
            let needs = graph.entry(module.file.clone()).or_default();
            for path in &module.paths {
                let targets = self.resolve(at, path, &mut BTreeSet::new());
                let is_item = |target| match target {
                    Target::Item(file) => Some(file),
                    Target::Module(_) => None,
                };
                needs.extend(targets.into_iter().filter_map(is_item));
                if let [name] = &path[..]
                    && !module.names.contains_key(name)
                {
                    needs.extend(self.macros.get(name).into_iter().flatten().cloned());
                }
            }
            needs.remove(&module.file);
        }
        graph
    }
}
