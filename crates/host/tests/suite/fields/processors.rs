//! Tools that report CPUs, caches and memory nodes: lscpu, numactl, lstopo.

use std::collections::BTreeMap;

use evenkeel_sys::CpuSet;
use serde_json::Value;

use super::{Row, after, each, row, set};

/// All lines of `lscpu -J`, including nested lines of newer versions. The lines below `Vulnerabilities` have short names.
fn lines<'a>(list: &'a Value, before: &str, to: &mut BTreeMap<String, &'a str>) {
    for line in each(list) {
        let Some(field) = line["field"].as_str() else { continue };
        if let Some(data) = line["data"].as_str() {
            to.insert(format!("{before}{}", field.trim_end_matches(':')), data);
        }
        lines(&line["children"], if field == "Vulnerabilities:" { "Vulnerability " } else { "" }, to);
    }
}

/// A vulnerability's state as plain words, because lscpu writes `;` for the kernel's `:`.
fn plain(state: &str) -> Value {
    state.split([':', ';', ',', ' ']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").into()
}

pub(crate) fn lscpu(facts: &Value, text: &str) -> Vec<Row> {
    let json: Value = serde_json::from_str(text).unwrap();
    let mut said = BTreeMap::new();
    lines(&json["lscpu"], "", &mut said);
    let list =
        |field: &str| said.get(field).and_then(|list| CpuSet::parse_list(list)).map(|set| set.to_string().into());
    let mut rows = vec![row("cpus.online", &facts["cpus"]["online"], list("On-line CPU(s) list"))];
    // lscpu leaves out the maker in the name of an Arm core. On x86, it prints the full name.
    let model = said.get("Model name").map(|model| Value::from(*model));
    rows.push(row(
        "cpus.model",
        &facts["cpus"]["model"],
        model.filter(|_| facts["kernel"]["architecture"] == "x86_64"),
    ));
    // lscpu knows fewer hypervisors than evenkeel, and names Hyper-V by its maker.
    let vendor = said.get("Hypervisor vendor").map(|vendor| vendor.to_lowercase().replace("microsoft", "hyper-v"));
    rows.push(row("machine.hypervisor", &facts["machine"]["hypervisor"], vendor.map(Value::from)));
    for one in each(&facts["cpus"]["vulnerabilities"]) {
        let name = one["name"].as_str().unwrap();
        let theirs = said.iter().find(|(field, _)| {
            field.strip_prefix("Vulnerability ").is_some_and(|field| field.to_lowercase().replace(' ', "_") == name)
        });
        let ours = one["state"].as_str().map_or_else(|| one["state"].clone(), plain);
        rows.push(row(format!("cpus.vulnerabilities.{name}"), &ours, theirs.map(|(_, state)| plain(state))));
    }
    for node in each(&facts["numa"]["nodes"]) {
        rows.push(row(
            format!("numa.nodes[{}].cpus", node["node"]),
            &node["cpus"],
            list(&format!("NUMA node{} CPU(s)", node["node"])),
        ));
    }
    rows
}

pub(crate) fn lscpu_each(facts: &Value, text: &str) -> Vec<Row> {
    let json: Value = serde_json::from_str(text).unwrap();
    let all = each(&json["cpus"]);
    // In some versions of lscpu, numbers are text.
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse::<i64>().ok());
    let is_on = |cpu: &Value| cpu["online"] == true || cpu["online"] == "yes";
    let index = |cpu: &Value| usize::try_from(number(&cpu["cpu"]).unwrap()).unwrap();
    let mut rows = Vec::new();
    for ours in each(&facts["cpus"]["cpus"]) {
        let Some(theirs) = all.iter().find(|cpu| number(&cpu["cpu"]) == ours["cpu"].as_i64()) else { continue };
        let name = format!("cpus.cpus[{}]", ours["cpu"]);
        rows.push(row(format!("{name}.online"), &ours["online"], Some(is_on(theirs).into())));
        if !is_on(theirs) {
            continue;
        }
        let alike = all
            .iter()
            .filter(|cpu| is_on(cpu) && (&cpu["core"], &cpu["socket"]) == (&theirs["core"], &theirs["socket"]));
        rows.push(row(format!("{name}.siblings"), &ours["siblings"], Some(set(alike.map(index)))));
        // lscpu uses its own socket numbers, so compare which CPUs share a socket.
        let together = all.iter().filter(|cpu| is_on(cpu) && cpu["socket"] == theirs["socket"]);
        let of_package = each(&facts["cpus"]["cpus"])
            .iter()
            .filter(|cpu| cpu["online"] == true && cpu["package"] == ours["package"]);
        let of_package = set(of_package.map(|cpu| usize::try_from(cpu["cpu"].as_u64().unwrap()).unwrap()));
        let of_package = if ours["package"].is_number() { of_package } else { ours["package"].clone() };
        rows.push(row(format!("{name}.package"), &of_package, Some(set(together.map(index)))));
    }
    rows
}

pub(crate) fn numactl(facts: &Value, text: &str) -> Vec<Row> {
    let nodes = each(&facts["numa"]["nodes"]);
    let count = after(text, "available").and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    let mut rows = vec![row("numa.nodes", &nodes.len().into(), count.map(Value::from))];
    let numbers =
        |line: &str| line.split_whitespace().filter_map(|word| word.parse::<usize>().ok()).collect::<Vec<_>>();
    for node in nodes {
        let (number, name) = (&node["node"], format!("numa.nodes[{}]", node["node"]));
        let cpus = after(text, &format!("node {number} cpus")).map(|line| set(numbers(line)));
        rows.push(row(format!("{name}.cpus"), &node["cpus"], cpus));
        let distances = after(text, &number.to_string()).map(|line| Value::from(numbers(line)));
        rows.push(row(format!("{name}.distances"), &node["distances"], distances));
        // numactl prints whole MiB.
        let mib = after(text, &format!("node {number} size")).and_then(|line| numbers(line).first().copied());
        let ours =
            node["memory_bytes"].as_u64().map_or_else(|| node["memory_bytes"].clone(), |bytes| (bytes >> 20).into());
        rows.push(row(format!("{name}.memory_bytes"), &ours, mib.map(Value::from)));
    }
    rows
}

/// An attribute of an `<object …>` or `<info …>` in hwloc's XML. hwloc writes each on its own line, with attributes in quotes.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

fn cpus_of(object: &str) -> Option<CpuSet> {
    CpuSet::parse_mask(&attribute(object, "cpuset")?.replace("0x", ""))
}

pub(crate) fn lstopo(facts: &Value, text: &str) -> Vec<Row> {
    let objects: Vec<&str> = text.lines().filter(|line| line.contains("<object ")).collect();
    let of_type =
        |kind: &'static str| objects.iter().copied().filter(move |object| attribute(object, "type") == Some(kind));
    let mut rows = Vec::new();
    for cpu in each(&facts["cpus"]["cpus"]).iter().filter(|cpu| cpu["online"] == true) {
        let index = usize::try_from(cpu["cpu"].as_u64().unwrap()).unwrap();
        let has = |object: &&str| cpus_of(object).is_some_and(|cpus| cpus.contains(index));
        let core = of_type("Core").find(has).and_then(cpus_of).map(|cpus| cpus.to_string().into());
        rows.push(row(format!("cpus.cpus[{index}].siblings"), &cpu["siblings"], core));
        let package =
            of_type("Package").find(has).and_then(|object| attribute(object, "os_index")?.parse::<i64>().ok());
        rows.push(row(format!("cpus.cpus[{index}].package"), &cpu["package"], package.map(Value::from)));
        for cache in each(&cpu["caches"]) {
            let kind = if cache["kind"] == "Instruction" { "iCache" } else { "Cache" };
            let name = format!("L{}{kind}", cache["level"]);
            let object = objects.iter().copied().filter(|object| attribute(object, "type") == Some(&name)).find(has);
            let field = format!("cpus.cpus[{index}].caches.{name}");
            let bytes = object.and_then(|object| attribute(object, "cache_size")?.parse::<u64>().ok());
            rows.push(row(format!("{field}.size_bytes"), &cache["size_bytes"], bytes.map(Value::from)));
            let shared = object.and_then(cpus_of).map(|cpus| cpus.to_string().into());
            rows.push(row(format!("{field}.shared_by"), &cache["shared_by"], shared));
        }
    }
    for node in each(&facts["numa"]["nodes"]) {
        let number = node["node"].to_string();
        let object = of_type("NUMANode").find(|object| attribute(object, "os_index") == Some(&number));
        let bytes = object.and_then(|object| attribute(object, "local_memory")?.parse::<u64>().ok());
        rows.push(row(format!("numa.nodes[{number}].memory_bytes"), &node["memory_bytes"], bytes.map(Value::from)));
        let cpus = object.and_then(cpus_of).map(|cpus| cpus.to_string().into());
        rows.push(row(format!("numa.nodes[{number}].cpus"), &node["cpus"], cpus));
    }
    let info = |name: &str| {
        let line = text.lines().find(|line| attribute(line, "name") == Some(name))?;
        Some(Value::from(attribute(line, "value")?))
    };
    rows.push(row("kernel.release", &facts["kernel"]["release"], info("OSRelease")));
    rows.push(row("kernel.architecture", &facts["kernel"]["architecture"], info("Architecture")));
    rows
}
