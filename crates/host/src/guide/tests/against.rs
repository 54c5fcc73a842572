//! Sentences that speak against a setting, and sentences that only contain such a word.

use expect_test::expect;

use super::{Content, check, read};
use crate::guide::GuideFormat;

/// Whether each text asks for a setting. A part that evenkeel does not understand is no setting.
#[track_caller]
fn check_each(texts: &[&str], is_for: bool) {
    let mut wrong = Vec::new();
    for text in texts {
        // A file of sysctls may begin in this way too.
        let is_line = text.starts_with("vm.");
        for format in [None, Some(GuideFormat::Markdown)].into_iter().skip(usize::from(is_line)) {
            let guide = read(text, format);
            let is_clear = |content: &Content| match content {
                Content::Settings(asks) => !asks.iter().any(|ask| ask.to_string().contains("not understood")),
                _ => false,
            };
            let is_understood = guide.lines.iter().all(|line| is_clear(&line.content));
            let is_listed = guide.lines.iter().all(|line| matches!(&line.content, Content::NotUnderstood(_)));
            if is_for && !is_understood || !is_for && !is_listed {
                wrong.push(format!("{text} {:?}: {:?}", guide.format, guide.lines[0].content));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sentences_against_a_setting_are_no_advice() {
    check_each(
        &[
            "Setting kernel.sched_rt_runtime_us to -1 is dangerous.",
            "Stay away from net.ipv4.tcp_autocorking=0.",
            "Some old guides say net.core.optmem_max = 40960; skip it.",
            "People who set net.ipv4.tcp_sack = 0 make loss recovery worse.",
            "A value of net.core.busy_read = 50 hurts throughput.",
            "Please refrain from vm.zone_reclaim_mode = 1.",
            "I tried `net.ipv4.tcp_autocorking=0` and it made things worse",
            "Set vm.swappiness=0, which is risky.",
            "Set vm.swappiness=0 at your own risk.",
            "Never, ever, set vm.swappiness=0.",
            "Don't do this: set vm.swappiness=0",
            "Bad advice: set vm.swappiness=0",
            "Other guides give harmful advice: set vm.swappiness=0",
            "If you set vm.swappiness=0, things break.",
            "It is dangerous if vm.swappiness=0 on a small machine.",
            "Some say vm.swappiness=0. Don't.",
            "Some say vm.swappiness=0. Do not use it.",
            "Some say vm.swappiness=0! This hurts throughput.",
            "vm.swappiness=0 fixes jitter but breaks hibernation",
            "vm.swappiness=0 increases latency",
            "vm.swappiness=0 is something to avoid",
            "vm.swappiness=0 (avoid)",
            "Avoid vm.swappiness=0, vm.dirty_ratio=1 and vm.stat_interval=9",
            "vm.swappiness=0 wastes memory",
            "vm.swappiness=0 is pointless here",
            "vm.swappiness=0 is no longer needed",
            "You should avoid to set vm.swappiness=0",
            "Setting vm.swappiness=0 is a mistake",
            "There is no point in vm.swappiness=0",
            "Beware of vm.swappiness=0",
            "We do not recommend vm.swappiness=0.",
            "On most hosts vm.dirty_ratio=20, the default value",
            "vm.dirty_ratio=20 (default)",
            "Set vm.swappiness=0? It causes problems.",
        ],
        false,
    );
}

#[test]
fn sentences_for_a_setting_may_have_such_words() {
    check_each(
        &[
            "To avoid jitter, set vm.swappiness=1",
            "To avoid jitter set vm.swappiness=1.",
            "the default hurts latency: set vm.swappiness=1",
            "vm.swappiness=1 reduces the risk",
            "swapping is dangerous, so set vm.swappiness=1",
            "Swapping is dangerous so set vm.swappiness=1.",
            "Set vm.swappiness=1 to avoid jitter.",
            "vm.swappiness=1 avoids swapping.",
            "vm.swappiness=1 reduces harmful jitter",
            "Set vm.swappiness=1 because the default hurts latency.",
            "Set vm.swappiness=1, the default is bad for games.",
            "If that is not enough, set vm.swappiness=1.",
            "If you don't want to swap, use vm.swappiness=1.",
            "The default is wrong for servers, so you should use vm.swappiness to 1.",
            "Set vm.swappiness=1. It was added in Linux 2.6.",
            "Set vm.swappiness=1. This avoids jitter.",
            "Set vm.swappiness=1. Do not set it higher.",
            "Set vm.swappiness=1. This is not dangerous.",
            "When latency is worse than before, set vm.swappiness=1",
            "Set vm.swappiness=1 if swapping hurts.",
            "Set vm.swappiness=1 (the default is 60).",
            "Set vm.swappiness=1 (default: 60).",
        ],
        true,
    );
    check(
        "Never set vm.swappiness=0, use vm.dirty_ratio=5.\nUse vm.dirty_ratio=5, don't set vm.swappiness=0.\n",
        expect![[r#"
            Markdown
            1 vm.dirty_ratio=5 + not understood: it names vm.swappiness=0, but has "never", so it may not recommend this value
            2 vm.dirty_ratio=5 + not understood: it names vm.swappiness=0, but has "don't", so it may not recommend this value
        "#]],
    );
}

#[test]
fn other_languages_are_read_the_same_way() {
    check_each(
        &[
            "Niemals net.core.wmem_default = 8388608 setzen!",
            "Setzen Sie nie vm.swappiness=0",
            "vm.swappiness=0 bitte nicht setzen",
            "Auf keinen Fall vm.swappiness = 0 verwenden",
            "不要设置 net.ipv4.tcp_slow_start_after_idle = 0",
            "不建议将vm.swappiness=0写入配置文件",
            "请避免 vm.swappiness=0",
            "切勿使用vm.swappiness=0。",
            "默认 net.core.somaxconn = 128",
            "Не ставьте net.core.rmem_default = 8388608.",
            "Нельзя ставить vm.swappiness=0",
            "No establezca vm.swappiness=0",
            "Nunca use vm.swappiness=0",
            "Evite vm.swappiness=0",
            "Ne mettez pas vm.swappiness=0",
            "N'utilisez jamais vm.swappiness = 0",
            "Évitez vm.swappiness=0",
        ],
        false,
    );
    check_each(
        &[
            "Wenn das nicht reicht, setze vm.swappiness=1",
            "Setze vm.swappiness=1, wenn das nicht reicht.",
            "Setze vm.swappiness=1 falls das nicht reicht.",
            "Если этого не хватает, поставьте vm.swappiness=1",
            "为了避免抖动，设置 vm.swappiness=1",
            "设置 vm.swappiness=1 以避免抖动",
            "如果不能满足，请设置vm.swappiness=1。",
            "Si cela ne suffit pas, mettez vm.swappiness=1",
            "Si no es bastante, use vm.swappiness=1",
            "建议将net.ipv4.tcp_fin_timeout=15写入配置文件",
        ],
        true,
    );
}

#[test]
fn names_end_where_the_script_changes() {
    check(
        "将vm.swappiness值设置为10以下\n建议将net.ipv4.tcp_fin_timeout=15写入配置文件\n`vm.dirty_ratio=5`，然后重启\n设置vm.stat_interval=10秒\n这是说明\nvm.swappiness=10以下\n",
        expect![[r#"
            Markdown
            1 ? it names vm.swappiness without a value to set
            2 net.ipv4.tcp_fin_timeout=15
            3 vm.dirty_ratio=5
            4 ? it names vm.stat_interval=10 秒, and evenkeel does not convert units
            5 (Prose)
            6 ? it names vm.swappiness=10 以下, which is not an exact value
        "#]],
    );
    check(
        "<p>将vm.swappiness值设置为10以下</p>\n",
        expect![[r#"
        Html
        1 ? it names vm.swappiness without a value to set
    "#]],
    );
    check(
        "vm.dirty_ratio=15写入配置文件\n",
        expect![[r#"
        Markdown
        1 vm.dirty_ratio=15
    "#]],
    );
}

#[test]
fn a_comment_of_a_page_is_a_sentence() {
    check(
        "<div class=\"comment\">I tried <code>net.ipv4.tcp_autocorking=0</code> and it made things worse</div>\n\
         <div class=\"comment\">Set <code>net.ipv4.tcp_autocorking=0</code> to avoid jitter</div>\n",
        expect![[r#"
            Html
            1 ? it names net.ipv4.tcp_autocorking=0, but has "worse", so it may not recommend this value
            2 net.ipv4.tcp_autocorking=0
        "#]],
    );
}
