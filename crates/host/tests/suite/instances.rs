//! Checks that docs/instances.md agrees with the catalogue.

use evenkeel_host::catalogue;
use expect_test::expect_file;

#[test]
fn the_page_is_fresh() {
    expect_file!["../../../../docs/instances.md"].assert_eq(&catalogue::document());
}
