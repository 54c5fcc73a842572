//! The kind of an interface: hardware, or software on top of other interfaces. Hardware settings belong to the lower interfaces.

use std::cell::OnceCell;

use evenkeel_hostfs::Why;
use evenkeel_hostfs::proc::field;
use evenkeel_sys::Errno;

use super::nic::{CLASS, NICS_MAX, Nic, NicKind};
use crate::fact::Fact;
use crate::probe::Probe;

impl NicKind {
    /// `None` if the entry is not an interface, such as the file `bonding_masters`.
    /// Software interfaces are identified by one file, because a container host has hundreds of these interfaces.
    pub(super) fn probe(probe: Probe<'_>, name: &str) -> Option<NicKind> {
        let dir = format!("{CLASS}/{name}");
        let is_hardware = match probe.0.link(&dir) {
            Ok(target) => !target.contains("/virtual/"),
            Err(refusal) if refusal.why == Why::Errno(Errno::INVAL) => return None,
            Err(_) => probe.0.link(&format!("{dir}/device")).is_ok(),
        };
        if is_hardware {
            return Some(NicKind::Hardware);
        }
        if name == "lo" {
            return Some(NicKind::Loopback);
        }
        let event = probe.text(&format!("{dir}/uevent"));
        Some(match event.known().and_then(|event| field(event, "DEVTYPE", '=')) {
            Some("bond") => NicKind::Bond,
            Some("vlan") => NicKind::Vlan,
            Some("bridge") => NicKind::Bridge,
            _ => NicKind::Virtual,
        })
    }
}

pub(super) fn probe_bond(probe: Probe<'_>, nic: &mut Nic) {
    let dir = format!("{CLASS}/{}/bonding", nic.name);
    nic.lower = probe.text(&format!("{dir}/slaves")).known().map(|names| words(names)).unwrap_or_default();
    // `active-backup 1`: the name of the mode, and its number for old tools.
    nic.bond_mode = Some(probe.parse(&format!("{dir}/mode"), "the mode of a bond and its number", |text| {
        text.split_whitespace().next().map(str::to_owned)
    }));
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().take(NICS_MAX).map(str::to_owned).collect()
}

/// The file that lists VLANs. It is read when the first VLAN is found, because most machines have no VLAN.
#[derive(Debug, Default)]
pub(super) struct Vlans(OnceCell<Fact<Vec<Vlan>>>);

/// A line of the list of VLANs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Vlan {
    name: String,
    id: u16,
    parent: String,
}

impl Vlans {
    fn find(&self, probe: Probe<'_>, name: &str) -> Option<&Vlan> {
        let path = format!("{}/net/vlan/config", probe.process());
        let vlans = self.0.get_or_init(|| probe.parse(&path, "VLANs", |text| Some(parse_vlans(text))));
        vlans.known()?.iter().find(|vlan| vlan.name == name)
    }
}

/// Uses the list of VLANs, which only root may read.
/// Without that list, the parent comes from the interface's link, and the number comes from the usual form of the name.
pub(super) fn probe_vlan(probe: Probe<'_>, nic: &mut Nic, vlans: &Vlans) {
    if let Some(vlan) = vlans.find(probe, &nic.name) {
        nic.lower = vec![vlan.parent.clone()];
        nic.vlan_id = Some(Fact::Known(vlan.id));
        return;
    }
    let entries = probe.entries(&format!("{CLASS}/{}", nic.name));
    let entries = entries.known().map(Vec::as_slice).unwrap_or_default();
    nic.lower = entries.iter().filter_map(|entry| entry.strip_prefix("lower_")).take(1).map(str::to_owned).collect();
    nic.vlan_id = Some(match vlan_in_name(&nic.name) {
        Some(id) => Fact::Known(id),
        None => Fact::absent(format!("the list of VLANs does not contain {}, and its name has no number", nic.name)),
    });
}

/// `eth0.100       | 100  | eth0`, after two header lines (`vlan_seq_show` of the kernel's `net/8021q/vlanproc.c`).
fn parse_vlans(text: &str) -> Vec<Vlan> {
    let vlans = text.lines().filter_map(|line| {
        let mut columns = line.split('|').map(str::trim);
        let (name, id, parent) = (columns.next()?, columns.next()?.parse().ok()?, columns.next()?);
        let is_whole = !name.is_empty() && !parent.is_empty() && id < 4096 && columns.next().is_none();
        is_whole.then(|| Vlan { name: name.to_owned(), id, parent: parent.to_owned() })
    });
    vlans.take(NICS_MAX).collect()
}

/// The number 100 in `eth0.100` and in `vlan100`.
fn vlan_in_name(name: &str) -> Option<u16> {
    let digits = name.rsplit_once('.').map(|(_, digits)| digits).or_else(|| name.strip_prefix("vlan"))?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|id| plain && *id < 4096)
}

/// A hardware interface whose master is a Hyper-V interface is the virtual function of that interface.
/// The kernel function is `netvsc_vf_join` of `drivers/net/hyperv`.
pub(super) fn pair_virtual_functions(nics: &mut [Nic]) {
    let is_netvsc = |nic: &Nic| nic.driver.known().is_some_and(|driver| driver == "hv_netvsc");
    let synthetic: Vec<(usize, String)> =
        nics.iter().enumerate().filter(|(_, nic)| is_netvsc(nic)).map(|(at, nic)| (at, nic.name.clone())).collect();
    for (at, name) in synthetic {
        let mut functions = Vec::new();
        for nic in nics.iter_mut().filter(|nic| nic.master.known() == Some(&name)) {
            nic.kind = NicKind::Vf;
            functions.push(nic.name.clone());
        }
        if let Some(nic) = nics.get_mut(at) {
            nic.lower = functions;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn vlans_are_listed_with_their_parents() {
        let text = "VLAN Dev name    | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n\
                    eth0.100       | 100  | eth0\ngame           | 4095  | bond0\nx | 4096 | eth0\n | 1 | eth0\ny | 2 |\n";
        let vlans: Vec<String> =
            parse_vlans(text).iter().map(|vlan| format!("{} {} {}", vlan.name, vlan.id, vlan.parent)).collect();
        assert_eq!(vlans, ["eth0.100 100 eth0", "game 4095 bond0"]);
    }

    #[test]
    fn a_usual_name_has_the_number() {
        let table = [
            ("eth0.100", Some(100)),
            ("vlan7", Some(7)),
            ("eth0", None),
            ("game", None),
            ("eth0.4096", None),
            ("eth0.+1", None),
            ("eth0.", None),
            ("vlan", None),
        ];
        for (name, expected) in table {
            assert_eq!(vlan_in_name(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "([a-z0-9.]{0,8}[ |]{0,3}[0-9]{0,6}[ |]{0,3}\n?){0,4}|.{0,20}") {
            let _ = (parse_vlans(&text), vlan_in_name(&text));
        }
    }
}
