//! Opens pages and graphs in Chromium. The browser must draw them, the search must work, and no name may run as a script.
//! Skipped without a browser.

use std::path::Path;
use std::process::{Command, Stdio};

use evenkeel_profile::fold::{Base, Folded};
use evenkeel_profile::graph::{self, Quantity, Style};
use evenkeel_testkit::browser;

use super::{hostile, small, timeline};

/// The DOM of a page after its script has run.
fn dom(browser: &Path, folder: &Path, page: &str) -> String {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=3000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}/{page}", folder.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn pages_are_drawn_and_searched_and_no_name_is_run() {
    let Some(browser) = browser::program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let small = small::recording();
    let folded = Folded::from_samples(&small.recording, &small.names, Base::Cpu, small.samples().into_iter());
    let style = Style { title: "A recording".into(), quantity: Quantity::CpuTime, ..Style::default() };
    write("small.html", &graph::html(&folded, &style));
    let page = dom(&browser, folder.path(), "small.html#find=update");
    let boxes = page.matches("role=\"treeitem\"").count();
    assert_eq!(boxes, 16, "{page}");
    assert_eq!(page.matches(" match\"").count(), 1, "{page}");
    assert!(page.contains("42.86 % in matching functions and what they call"), "{page}");
    assert!(page.contains("class=\"drawn\""));
    let zoomed = dom(&browser, folder.path(), "small.html#zoom=3");
    assert!(zoomed.contains(" below\"") && zoomed.matches("role=\"treeitem\"").count() < boxes, "{zoomed}");

    let before = Folded::parse("main;a 10\nmain;b 10").unwrap();
    let after = Folded::parse("main;a 30\nmain;c 10").unwrap();
    write("diff.html", &graph::html_differential(&before, &after, &style));
    let page = dom(&browser, folder.path(), "diff.html");
    assert!(page.contains(">▲ a<") && page.contains(">▲ c<") && page.contains("grew"), "{page}");

    let (recording, names) = hostile::recording();
    let folded = Folded::from_samples(&recording, &names, Base::Thread, recording.samples.iter());
    write("hostile.html", &graph::html(&folded, &style));
    write("hostile.svg", &graph::svg(&folded, &style));
    let page = dom(&browser, folder.path(), "hostile.html#find=%3Cimg");
    assert!(page.contains("<title>A recording</title>"), "a name ran: {page}");
    assert!(!page.contains("<img") && page.contains("class=\"drawn\"") && page.contains(" match\""), "{page}");
    let drawn = dom(&browser, folder.path(), "hostile.svg");
    assert!(drawn.contains("id=\"frames\"") && !drawn.contains("parsererror") && !drawn.contains("<img"), "{drawn}");
}

#[test]
fn timelines_are_drawn_with_details_and_no_name_is_run() {
    let Some(browser) = browser::program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("small.html", &timeline::small_page());
    let page = dom(&browser, folder.path(), "small.html");
    assert!(
        page.contains("class=\"drawn\"") && page.contains("0.000 ms to 100.000 ms (100 ms): 4 intervals<"),
        "{page}"
    );
    assert_eq!(page.matches("class=\"lane").count(), 2, "{page}");
    for text in ["game (10)", ">on a CPU<", "preempted<", "a tick, due to done"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let detailed = dom(&browser, folder.path(), "small.html#from=20000000&to=40000000&lane=0&piece=1");
    let detail = "game (10): preempted, 9.00 ms from 22.000 ms, in &lt;u8: 8&gt;::hash 32; CPU 0 taken by net worker 2 (11); \
                  woken by net worker 2 (11), 1.00 ms before it had a CPU.";
    assert!(detailed.contains("20.000 ms to 40.000 ms (20.0 ms)"), "{detailed}");
    assert!(
        detailed.contains(detail) && detailed.contains(">&lt;u8: 8&gt;::hash 32 ← world::update ← game::tick"),
        "{detailed}"
    );

    let (recording, names) = timeline::many(2, 50_000);
    write("many.html", &timeline::page_of(&recording, &names));
    let page = dom(&browser, folder.path(), "many.html");
    assert!(page.contains("100,000 narrower than 2 pixels, drawn together"), "{page}");
    let near = dom(&browser, folder.path(), "many.html#from=1000000&to=1050000");
    assert!(near.contains("10 intervals<"), "{near}");

    write("hostile.html", &timeline::hostile_page());
    let page = dom(&browser, folder.path(), "hostile.html#from=0&to=400&lane=0&piece=1");
    assert!(!page.contains("<title>ours") && !page.contains("<img") && page.contains("class=\"drawn\""), "{page}");
    assert!(page.contains("&lt;img src=x onerror"), "{page}");
}
