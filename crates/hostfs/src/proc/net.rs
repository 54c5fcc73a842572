//! Tables of /proc/net.
//! snmp and netstat have a line of names, and then a line of numbers. softnet_stat has columns of hexadecimal numbers.

/// The number under a name in /proc/net/snmp or netstat. If `group` is given (such as `Udp`), only lines of that group count.
pub fn under_name<'a>(text: &'a str, group: Option<&str>, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut lines = lines.filter(|(found, _)| group.is_none_or(|group| group == *found));
    while let (Some((_, names)), Some((_, numbers))) = (lines.next(), lines.next()) {
        if let Some(at) = names.split_ascii_whitespace().position(|found| found == name) {
            return numbers.split_ascii_whitespace().nth(at);
        }
    }
    None
}

/// The sum of a column of hexadecimal numbers. Columns are counted from 0. `None` if the text has no lines, or if a line lacks the column.
pub fn hex_column(text: &str, column: usize) -> Option<u64> {
    let of_line = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(column)?, 16).ok();
    text.lines().map(of_line).reduce(|sum, number| Some(sum?.saturating_add(number?)))?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernels_tables_are_read_by_name() {
        let snmp = "Ip: a b\nIp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 10 0 3 9 7\n\
                    UdpLite: InDatagrams\nUdpLite: 0\n";
        assert_eq!(under_name(snmp, Some("Udp"), "RcvbufErrors"), Some("7"));
        assert_eq!(under_name(snmp, Some("Udp"), "MemErrors"), None, "an older kernel");
        assert_eq!(under_name(snmp, None, "InErrors"), Some("3"));
        assert_eq!(under_name("Udp: InDatagrams\n", Some("Udp"), "InDatagrams"), None);
        assert_eq!(under_name("Udp: a b\nUdp: 1\n", Some("Udp"), "b"), None);
        let softnet = "03ea 00000002 0 0 0 0 0 0 0 00ff\n0001 00000001 0 0 0 0 0 0 0 00000001\n";
        assert_eq!([0, 1, 2, 9, 40].map(|at| hex_column(softnet, at)), [Some(1003), Some(3), Some(0), Some(256), None]);
        assert_eq!((hex_column("zz\n", 0), hex_column("", 0)), (None, None));
        assert_eq!(hex_column("ffffffffffffffff\n1\n", 0), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "((Udp:|a|b|[0-9a-f]{1,18})[ \n]{1,2}){0,12}|.{0,30}") {
            let _ = (under_name(&text, Some("Udp"), "a"), under_name(&text, None, "a"), hex_column(&text, 1));
        }
    }
}
