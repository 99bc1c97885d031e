//! What clients are told of what the user looks at.

use gemini_companion::ide::{File, IdeContext};
use serde_json::{Value, json};

fn told(files: Vec<File>) -> Vec<Value> {
    let context: Value = serde_json::from_str(&IdeContext::new(files).to_json()).unwrap();
    context["workspaceState"]["openFiles"].as_array().unwrap().clone()
}

fn file(path: &str, timestamp: i64) -> File {
    File { path: path.to_owned(), timestamp, ..File::default() }
}

#[test]
fn optional_members_are_left_out_and_never_null() {
    assert_eq!(told(vec![file("/a", 7)]), [json!({ "path": "/a", "timestamp": 7 })]);
}

#[test]
fn timestamps_are_distinct_and_fall_in_list_order() {
    let files = told(vec![file("/a", 5), file("/b", 5), file("/c", 9)]);
    let stamps: Vec<i64> = files.iter().map(|it| it["timestamp"].as_i64().unwrap()).collect();
    assert_eq!(stamps, [5, 4, 3]);
}

#[test]
fn at_most_ten_files_are_listed() {
    assert_eq!(told((0..20).map(|n| file(&format!("/{n}"), 100 - n)).collect()).len(), 10);
}

#[test]
fn a_selection_is_cut_on_a_character_boundary() {
    for (start, kept) in [(16_382, 16_384), (16_383, 16_383)] {
        let text = format!("{}😀é", "x".repeat(start));
        let selected = told(vec![File { selected_text: Some(text), ..file("/a", 1) }]);
        let text = selected[0]["selectedText"].as_str().unwrap();
        assert_eq!(text.encode_utf16().count(), kept);
    }
}
