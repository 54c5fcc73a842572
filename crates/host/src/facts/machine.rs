//! The kind of machine: hypervisor, cloud and instance, container, distribution.

use evenkeel_hostfs::proc::field;
use serde::Serialize;

use super::cgroup;
use super::dmi::Dmi;
use super::provider::{Cloud, Hypervisor};
use crate::catalogue::Instance;
use crate::fact::Fact;
use crate::probe::{Probe, and_then, is_absence, or_else};

/// The machine, from its firmware, processor and files.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// The hypervisor: from the processor's hypervisor leaf, otherwise from /sys/hypervisor, otherwise from DMI.
    pub hypervisor: Fact<Hypervisor>,
    /// The cloud, by the DMI strings.
    pub cloud: Fact<Cloud>,
    /// The instance type as the cloud names it, such as `c5n.xlarge`. From DMI, otherwise from instance metadata if that may be queried.
    pub instance_type: Fact<String>,
    /// The documented figures of that type.
    pub catalogue: Fact<Instance>,
    /// DMI `sys_vendor`.
    pub vendor: Fact<String>,
    /// DMI `product_name`.
    pub product: Fact<String>,
    /// Whether evenkeel runs in a container, and of which kind.
    pub container: Fact<Container>,
    /// Whether the root has a file that container engines create in the root of every container.
    /// A machine whose root was unpacked from an image may have this file too.
    /// A process of a container that changed into its host's root does not see the file.
    /// Decisions use this fact, but reports do not show it.
    #[serde(skip)]
    pub has_mark_of_container: bool,
    /// The distribution, by os-release.
    pub distribution: Fact<Distribution>,
}

/// The container in which evenkeel runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Container {
    None,
    Docker,
    Podman,
    Kubernetes,
    /// Another container, as `/run/systemd/container` names it (lxc, systemd-nspawn).
    Other(String),
}

/// A Linux distribution, by os-release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// `ID`, such as `debian`.
    pub id: String,
    /// `VERSION_ID`, such as `12`. Rolling distributions have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `PRETTY_NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Machine {
    pub(super) fn probe(probe: Probe<'_>) -> Machine {
        let dmi = Dmi::probe(probe);
        let cloud = dmi.cloud();
        let instance_type = dmi.instance_type(probe, &cloud);
        Machine {
            hypervisor: probe_hypervisor(probe, &dmi),
            catalogue: Instance::from_type(&instance_type),
            instance_type,
            cloud,
            container: probe_container(probe),
            has_mark_of_container: MARKS_OF_CONTAINERS.iter().any(|mark| has(probe, mark)),
            distribution: or_else(probe_distribution(probe, "/etc/os-release"), || {
                probe_distribution(probe, "/usr/lib/os-release")
            }),
            vendor: dmi.vendor,
            product: dmi.product,
        }
    }
}

/// Queries sources in the order of reliability: the processor, /sys/hypervisor, the firmware.
fn probe_hypervisor(probe: Probe<'_>, dmi: &Dmi) -> Fact<Hypervisor> {
    const XEN: &str = "/sys/hypervisor/type";
    let registers = |leaf: &str| probe.parse(&format!("@cpuid/{leaf}"), "four registers", parse_registers);
    let is_xen = || probe.parse(XEN, "a name", |name| Some(name == "xen")).known() == Some(&true);
    match registers("1") {
        Fact::Known([_, _, ecx, _]) if ecx >> 31 & 1 == 1 => {
            let named = registers("40000000").map(hypervisor_by_signature);
            // For guests that know only Hyper-V, KVM presents Hyper-V's leaf first, and then its own leaf.
            let is_kvm = || registers("40000100").map(hypervisor_by_signature) == Fact::Known(Hypervisor::Kvm);
            named.map(|named| if named == Hypervisor::HyperV && is_kvm() { Hypervisor::Kvm } else { named })
        }
        // Xen's paravirtual guests see the host's processor, which does not report the hypervisor.
        Fact::Known(_) => Fact::Known(if is_xen() { Hypervisor::Xen } else { Hypervisor::None }),
        _ if is_xen() => Fact::Known(Hypervisor::Xen),
        unasked => match dmi.hypervisor() {
            Some(hypervisor) => Fact::Known(hypervisor),
            None => or_else(unasked.map(|_| Hypervisor::Other), || probe_device_tree(probe)),
        },
    }
}

/// For Arm guests without DMI: the hypervisor's node of the device tree.
fn probe_device_tree(probe: Probe<'_>) -> Fact<Hypervisor> {
    let path = "/sys/firmware/devicetree/base/hypervisor/compatible";
    probe.parse(path, "names separated by NULs", |text| {
        let named = |name: &str| text.split('\0').any(|part| part.starts_with(name));
        Some(match () {
            () if named("linux,kvm") => Hypervisor::Kvm,
            () if named("xen,xen") => Hypervisor::Xen,
            () if named("vmware") => Hypervisor::Vmware,
            () => Hypervisor::Other,
        })
    })
}

fn parse_registers(text: &str) -> Option<[u32; 4]> {
    let mut words = text.split_whitespace().map(|word| u32::from_str_radix(word, 16).ok());
    let registers = [words.next()??, words.next()??, words.next()??, words.next()??];
    words.next().is_none().then_some(registers)
}

/// The twelve letters in ebx, ecx, edx of the hypervisor's first leaf.
fn hypervisor_by_signature([_, ebx, ecx, edx]: [u32; 4]) -> Hypervisor {
    let letters: Vec<u8> = [ebx, ecx, edx].into_iter().flat_map(u32::to_le_bytes).collect();
    match letters.as_slice() {
        b"KVMKVMKVM\0\0\0" => Hypervisor::Kvm,
        b"XenVMMXenVMM" => Hypervisor::Xen,
        b"Microsoft Hv" => Hypervisor::HyperV,
        b"VMwareVMware" => Hypervisor::Vmware,
        b"TCGTCGTCGTCG" => Hypervisor::Tcg,
        _ => Hypervisor::Other,
    }
}

/// The inode numbers of the first namespaces of a kernel (`include/linux/proc_ns.h`).
const FIRST_NAMESPACES: [(&str, &str); 3] =
    [("pid", "pid:[4026531836]"), ("uts", "uts:[4026531838]"), ("cgroup", "cgroup:[4026531835]")];

/// Paths that Podman, Docker and Kubernetes create in the root of a container.
const MARKS_OF_CONTAINERS: [&str; 3] = ["/run/.containerenv", "/.dockerenv", "/var/run/secrets/kubernetes.io"];

fn has(probe: Probe<'_>, mark: &str) -> bool {
    probe.0.text(mark).is_ok() || probe.0.entries(mark).is_ok()
}

fn probe_container(probe: Probe<'_>) -> Fact<Container> {
    let membership = cgroup::membership(probe);
    if let Some(container) = membership.known().and_then(|text| container_by_group(text)) {
        return Fact::Known(container);
    }
    let named = probe.text("/run/systemd/container");
    if let Fact::Known(name) = named {
        return Fact::Known(container_by_name(&name));
    }
    if probe.entries("/var/run/secrets/kubernetes.io").known().is_some() {
        return Fact::Known(Container::Kubernetes);
    }
    // Some roots have the file without a directory.
    // Such a root is a container's root, or a virtual machine's root that was unpacked from a container's image.
    // The namespaces distinguish the two.
    let [podman, docker] =
        ["/run/.containerenv", "/.dockerenv"].map(|path| probe.parse(path, "anything", |_| Some(())));
    let is_first = FIRST_NAMESPACES.map(|(name, first)| namespace_is(probe, name, first));
    match (&podman, &docker) {
        (Fact::Known(()), _) if !is_first.iter().all(is_true) => Fact::Known(Container::Podman),
        (_, Fact::Known(())) if !is_first.iter().all(is_true) => Fact::Known(Container::Docker),
        _ if is_first[0] == Fact::Known(false) => Fact::Known(Container::Other("unnamed".to_owned())),
        // No sign of a container was found. This counts as an answer only if the readings succeeded.
        _ if is_true(&is_first[0]) || (membership.known().is_some() && probe.says_absent("/.dockerenv")) => {
            Fact::Known(Container::None)
        }
        _ => and_then(membership, |_| docker.map(|()| Container::None)),
    }
}

fn is_true(fact: &Fact<bool>) -> bool {
    *fact == Fact::Known(true)
}

/// Whether this process is in the kernel's first namespace of this kind. An old kernel without namespaces of a kind has only one.
fn namespace_is(probe: Probe<'_>, name: &str, first: &str) -> Fact<bool> {
    match probe.0.link(&format!("{}/ns/{name}", probe.process())) {
        Ok(link) => Fact::Known(link == first),
        Err(refusal) if name == "cgroup" && is_absence(&refusal) => Fact::Known(true),
        Err(refusal) => refusal.into(),
    }
}

fn container_by_group(membership: &str) -> Option<Container> {
    let has = |part: &str| membership.contains(part);
    match () {
        () if has("kubepods") => Some(Container::Kubernetes),
        () if has("/docker/") || has("/docker-") => Some(Container::Docker),
        () if has("/libpod-") => Some(Container::Podman),
        () => None,
    }
}

fn container_by_name(name: &str) -> Container {
    match name {
        "docker" => Container::Docker,
        "podman" => Container::Podman,
        other => Container::Other(other.to_owned()),
    }
}

fn probe_distribution(probe: Probe<'_>, path: &str) -> Fact<Distribution> {
    probe.parse(path, "an ID", parse_os_release)
}

fn parse_os_release(text: &str) -> Option<Distribution> {
    let value = |key: &str| field(text, key, '=').map(unquote).filter(|value| !value.is_empty());
    Some(Distribution { id: value("ID")?, version: value("VERSION_ID"), name: value("PRETTY_NAME") })
}

/// A value as the shell reads it: in single quotes, double quotes or no quotes, with `\` before special characters.
fn unquote(value: &str) -> String {
    if let Some(inner) = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')) {
        return inner.to_owned();
    }
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};
    use expect_test::expect;
    use proptest::prelude::*;

    use super::super::dmi::AZURE_CHASSIS;
    use super::*;

    fn machine(lines: &str) -> Machine {
        let root = Root::captured(Capture::parse(&format!("evenkeel-capture 1\n{lines}\nend\n")).unwrap());
        Machine::probe(Probe(&root))
    }

    const SIGNED: &str = "@cpuid/1 = 00000000 00000000 80000000 00000000\n@cpuid/40000000 = 40000001 ";
    const KVM: &str = "4b4d564b 564b4d56 0000004d";
    const HYPER_V: &str = "7263694d 666f736f 76482074";

    #[test]
    fn the_processor_is_believed_before_the_firmware() {
        let arm = |lines: &str| format!("@cpuid/1 ! ENOENT\n/sys/hypervisor/type ! ENOENT\n{lines}");
        let dmi = |vendor: &str, product: &str| {
            arm(&format!("/sys/class/dmi/id/sys_vendor = {vendor}\n/sys/class/dmi/id/product_name = {product}"))
        };
        let table = [
            (format!("{SIGNED}{KVM}"), Some(Hypervisor::Kvm)),
            (format!("{SIGNED}566e6558 65584d4d 4d4d566e"), Some(Hypervisor::Xen)),
            (format!("{SIGNED}{HYPER_V}\n@cpuid/40000100 ! ENOENT"), Some(Hypervisor::HyperV)),
            (format!("{SIGNED}{HYPER_V}\n@cpuid/40000100 = 40000101 {KVM}"), Some(Hypervisor::Kvm)),
            (format!("{SIGNED}61774d56 4d566572 65726177"), Some(Hypervisor::Vmware)),
            (format!("{SIGNED}54474354 43544743 47435447"), Some(Hypervisor::Tcg)),
            (format!("{SIGNED}00000000 00000000 00000000"), Some(Hypervisor::Other)),
            (format!("{SIGNED}4b4d564b 564b4d56"), None),
            ("@cpuid/1 = 0 0 0 0\n/sys/hypervisor/type ! ENOENT".to_owned(), Some(Hypervisor::None)),
            ("@cpuid/1 = 0 0 0 0\n/sys/hypervisor/type = xen".to_owned(), Some(Hypervisor::Xen)),
            (dmi("Amazon EC2", "a1.xlarge"), Some(Hypervisor::Kvm)),
            (dmi("Amazon EC2", "a1.metal"), Some(Hypervisor::None)),
            (dmi("QEMU", "QEMU Virtual Machine"), Some(Hypervisor::Other)),
            (dmi("QEMU", "KVM Virtual Machine"), Some(Hypervisor::Kvm)),
            (dmi("Ampere", "Mt. Jade"), None),
            (arm("/sys/firmware/devicetree/base/hypervisor/compatible =~ linux,kvm\\x00"), Some(Hypervisor::Kvm)),
            (
                arm("/sys/firmware/devicetree/base/hypervisor/compatible =~ xen,xen-4.17\\x00xen,xen\\x00"),
                Some(Hypervisor::Xen),
            ),
            (arm(""), None),
        ];
        for (lines, expected) in table {
            assert_eq!(machine(&lines).hypervisor.known().copied(), expected, "{lines}");
        }
    }

    #[test]
    fn metadata_counts_if_the_firmware_names_no_cloud() {
        let azure = format!(
            "/sys/class/dmi/id/sys_vendor = Microsoft Corporation\n/sys/class/dmi/id/chassis_asset_tag = {AZURE_CHASSIS}\n"
        );
        let amazon = |product: &str| {
            format!("/sys/class/dmi/id/sys_vendor = Amazon EC2\n/sys/class/dmi/id/product_name = {product}\n")
        };
        let table = [
            format!("{azure}@metadata/azure/vm-size = Standard_D2s_v3"),
            format!("{azure}@metadata/azure/vm-size ! ENOENT"),
            format!("{azure}@metadata/azure/vm-size ! ETIMEDOUT"),
            format!("{azure}@metadata/azure/vm-size ! EACCES"),
            format!("{}@metadata/ec2/instance-type = m4.xlarge", amazon("HVM domU")),
            format!("{}@metadata/ec2/instance-type = m4.xlarge", amazon("c5n.xlarge")),
        ];
        let seen: String = table.iter().map(|lines| format!("{}\n", machine(lines).instance_type)).collect();
        expect![[r#"
            Standard_D2s_v3
            absent (Azure provides it only through instance metadata: use --metadata to query it)
            odd (@metadata/azure/vm-size: connection timed out (ETIMEDOUT): "")
            denied (@metadata/azure/vm-size: permission denied (EACCES))
            m4.xlarge
            c5n.xlarge
        "#]]
        .assert_eq(&seen);
    }

    #[test]
    fn clouds_tell_who_they_are_in_different_places() {
        let names = ["sys_vendor", "product_name", "bios_version", "chassis_asset_tag"];
        let table = [
            ["Amazon EC2", "c5n.xlarge", "1.0", "Amazon EC2"],
            ["Xen", "HVM domU", "4.11.amazon", ""],
            ["Xen", "HVM domU", "4.17", ""],
            ["Microsoft Corporation", "Virtual Machine", "090008", AZURE_CHASSIS],
            ["Microsoft Corporation", "Virtual Machine", "Hyper-V UEFI Release v4.1", "None"],
            ["Google", "Google Compute Engine", "Google", ""],
            ["QEMU", "Standard PC (i440FX + PIIX, 1996)", "1.6.6", "OracleCloud.com"],
            ["Hetzner", "vServer", "20171111", ""],
            ["DigitalOcean", "Droplet", "20171212", ""],
            ["Dell Inc.", "PowerEdge R640", "2.19.1", ""],
        ];
        let mut seen = String::new();
        for row in table {
            let lines = names.iter().zip(row).map(|(name, value)| format!("/sys/class/dmi/id/{name} = {value}\n"));
            let machine = machine(&lines.collect::<String>());
            let cloud = serde_json::to_string(&machine.cloud).unwrap();
            seen += &format!("{}: {cloud}, {}\n", row[0], machine.instance_type);
        }
        expect![[r#"
            Amazon EC2: "aws", c5n.xlarge
            Xen: "aws", absent (Amazon's Xen provides it only through instance metadata: use --metadata to query it)
            Xen: "none", absent (the DMI strings match no cloud that evenkeel knows)
            Microsoft Corporation: "azure", absent (Azure provides it only through instance metadata: use --metadata to query it)
            Microsoft Corporation: "none", absent (the DMI strings match no cloud that evenkeel knows)
            Google: "gcp", absent (Google Cloud provides it only through instance metadata: use --metadata to query it)
            QEMU: "oracle", absent (Oracle Cloud provides it only through instance metadata)
            Hetzner: "hetzner", absent (Hetzner provides it only through instance metadata)
            DigitalOcean: "digital-ocean", absent (DigitalOcean provides it only through instance metadata)
            Dell Inc.: "none", absent (the DMI strings match no cloud that evenkeel knows)
        "#]]
        .assert_eq(&seen);
    }

    /// A machine's answers to the container checks, with these differences.
    fn container(differs: &[&str]) -> Fact<Container> {
        let own = [
            "/proc/self/cgroup = 0::/",
            "/run/systemd/container ! ENOENT",
            "/var/run/secrets/kubernetes.io/ :! ENOENT",
            "/run/.containerenv ! ENOENT",
            "/.dockerenv ! ENOENT",
            "/proc/self/ns/pid -> pid:[4026531836]",
            "/proc/self/ns/uts -> uts:[4026531838]",
            "/proc/self/ns/cgroup -> cgroup:[4026531835]",
        ];
        // Later lines replace earlier ones.
        machine(&[&own, differs].concat().join("\n")).container
    }

    #[test]
    fn containers_show_in_one_place_or_another() {
        let pid = "/proc/self/ns/pid -> pid:[4026532255]";
        let table: [(&[&str], Container); 13] = [
            (&[], Container::None),
            (&["/proc/self/ns/cgroup ->! ENOENT"], Container::None),
            (&["/.dockerenv =~"], Container::None),
            (&["/.dockerenv =~", pid], Container::Docker),
            (&["/.dockerenv =~", "/proc/self/ns/uts -> uts:[4026532254]"], Container::Docker),
            (&["/.dockerenv =~", "/proc/self/ns/pid ->! EACCES"], Container::Docker),
            (&["/run/.containerenv =~", pid], Container::Podman),
            (&["/proc/self/cgroup = 4:cpu,cpuacct:/docker/5ab0"], Container::Docker),
            (
                &["/proc/self/cgroup = 0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope"],
                Container::Kubernetes,
            ),
            (&["/var/run/secrets/kubernetes.io/ : serviceaccount", pid], Container::Kubernetes),
            (&["/run/systemd/container = lxc", pid], Container::Other("lxc".to_owned())),
            (&["/run/systemd/container = podman", pid], Container::Podman),
            (&[pid], Container::Other("unnamed".to_owned())),
        ];
        for (differs, expected) in table {
            assert_eq!(container(differs), Fact::Known(expected), "{differs:?}");
        }
    }

    #[test]
    fn no_container_is_said_only_when_the_looks_were_answered() {
        let unanswered = "/proc/self/ns/pid ->! EACCES";
        assert_eq!(container(&[unanswered]), Fact::Known(Container::None), "its files answer");
        let lines = [unanswered, "/.dockerenv ! EIO"];
        assert!(matches!(container(&lines), Fact::Odd { .. }));
        assert!(machine("/proc/self/cgroup = 0::/").container.is_absent());
        assert!(machine("/.dockerenv ! ENOENT").container.is_absent());
    }

    #[test]
    fn os_release_is_read_as_the_shell_reads_it() {
        let table = [
            (
                "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME='Debian 12'\n",
                Some(("debian", Some("12"), Some("Debian 12"))),
            ),
            ("NAME=x\nID=\"arch\"\n", Some(("arch", None, None))),
            ("ID=a\\ b\nPRETTY_NAME=\"a \\\"b\\\" \\$c\"\n", Some(("a b", None, Some("a \"b\" $c")))),
            ("ID='it\\s'\n", Some(("it\\s", None, None))),
            ("ID=\n", None),
            ("VERSION_ID=1\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            let found = parse_os_release(text);
            let found = found.as_ref().map(|of| (of.id.as_str(), of.version.as_deref(), of.name.as_deref()));
            assert_eq!(found, expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "(ID|VERSION_ID|=|[\"'\\\\a-zé ]|\n|[0-9a-f]{8} )*|.{0,20}") {
            let _ = (parse_os_release(&text), parse_registers(&text), container_by_group(&text));
        }
    }
}
