//! The hub, played by a server on this machine.

use crate::support::assert_says;
use decoder::hub::Hub;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::tempdir;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What the server has and does; requests are noted.
#[derive(Default)]
struct Content {
    files: HashMap<&'static str, Vec<u8>>,
    token: Option<&'static str>,
    /// Ends the answer with this file early.
    cut: Option<&'static str>,
    requests: Mutex<Vec<String>>,
}

/// Serves `content` until the test process ends; returns the address.
fn serve(content: Arc<Content>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let own = address.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(&content, &own, stream);
        }
    });
    address
}

fn answer(content: &Content, own: &str, mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let headers: HashMap<String, String> = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())))
        .collect();
    content.requests.lock().unwrap().push(path.clone());
    let mut send = |status: &str, headers: &str, body: &[u8]| {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
        let _ = stream.write_all(head.as_bytes());
        let cut = content.cut.is_some_and(|file| path.ends_with(file) && length > 1);
        let _ = stream.write_all(if cut { &body[..length / 2] } else { body });
    };
    let authorised = content.token.is_none_or(|token| headers.get("authorization") == Some(&format!("Bearer {token}")));
    // As on the real hub, large files are on another server, which must not see the token.
    let elsewhere = path.strip_prefix("/elsewhere/");
    if elsewhere.is_none() && !authorised {
        return send("401 Unauthorized", "", b"");
    }
    if path.starts_with("/api/models/owner/name/revision/") {
        let names: Vec<_> = content.files.keys().map(|name| serde_json::json!({ "rfilename": name })).collect();
        let body = serde_json::json!({ "sha": COMMIT, "siblings": names }).to_string();
        return send("200 OK", "Content-Type: application/json\r\n", body.as_bytes());
    }
    let name = elsewhere.or_else(|| path.strip_prefix(&format!("/owner/name/resolve/{COMMIT}/")));
    let Some((name, body)) = name.and_then(|name| Some((name, content.files.get(name)?))) else {
        return send("404 Not Found", "", b"");
    };
    let known = format!("X-Repo-Commit: {COMMIT}\r\nETag: \"etag-{name}\"\r\n");
    if elsewhere.is_none() && name.ends_with(".safetensors") {
        return send(
            "302 Found",
            &format!("{known}X-Linked-Etag: \"etag-{name}\"\r\nLocation: {own}/elsewhere/{name}\r\n"),
            b"",
        );
    }
    let range = headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let (from, to) = range.unwrap_or(("0", ""));
    let from: usize = from.parse().unwrap();
    let to = to.parse().map_or(body.len(), |to: usize| (to + 1).min(body.len()));
    let range = format!("Content-Range: bytes {from}-{}/{}\r\n", to.saturating_sub(1), body.len());
    send("206 Partial Content", &(known + &range), &body[from.min(to)..to]);
}

fn content(files: &[(&'static str, &[u8])]) -> Content {
    Content { files: files.iter().map(|(name, body)| (*name, body.to_vec())).collect(), ..Content::default() }
}

fn hub(endpoint: String, cache: &Path) -> Hub {
    Hub { endpoint, token: None, cache: cache.to_owned(), offline: false, progress: false }
}

#[test]
fn a_model_is_downloaded_once_and_found_again_without_the_network() {
    let weights: Vec<u8> = (0..100_000u32).map(|index| (index * 7) as u8).collect();
    let content = Arc::new(content(&[
        ("config.json", b"{}"),
        ("tokenizer.json", b"{\"t\": 1}"),
        ("README.md", b"not needed"),
        ("model.safetensors", &weights),
    ]));
    let cache = tempdir().unwrap();
    let online = hub(serve(Arc::clone(&content)), cache.path());
    let offline = Hub { offline: true, ..online.clone() };
    assert_says(offline.fetch("owner/name", None), &["owner/name", "HF_HUB_OFFLINE", "pass a folder"]);
    assert!(content.requests.lock().unwrap().is_empty(), "offline asks nobody");

    // Four threads at once: one downloads, the others find it.
    let folders: Vec<_> = std::thread::scope(|scope| {
        let fetches: Vec<_> = (0..4).map(|_| scope.spawn(|| online.fetch("owner/name", None).unwrap())).collect();
        fetches.into_iter().map(|fetch| fetch.join().unwrap()).collect()
    });
    let folder = &folders[0];
    assert!(folders.iter().all(|other| other == folder));
    assert_eq!(std::fs::read(folder.join("model.safetensors")).unwrap(), weights);
    assert_eq!(std::fs::read(folder.join("tokenizer.json")).unwrap(), b"{\"t\": 1}");
    assert!(!folder.join("README.md").exists(), "only what is needed");
    let requests = content.requests.lock().unwrap().len();

    // The missing generation_config.json is remembered, so nothing is asked again.
    assert_eq!(&online.fetch("owner/name", Some("main")).unwrap(), folder);
    assert_eq!(&offline.fetch("owner/name", None).unwrap(), folder);
    assert_eq!(&offline.fetch("owner/name", Some(COMMIT)).unwrap(), folder);
    assert_eq!(content.requests.lock().unwrap().len(), requests, "{:?}", content.requests.lock().unwrap());
    assert_says(offline.fetch("owner/name", Some("other")), &["revision other"]);
}

#[test]
fn shards_are_downloaded_by_their_index() {
    let index =
        br#"{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}"#;
    let mut complete = content(&[
        ("config.json", b"{}"),
        ("generation_config.json", b"{}"),
        ("tokenizer.json", b"{}"),
        ("model.safetensors.index.json", index),
        ("model-00001-of-00002.safetensors", b"first"),
        ("model-00002-of-00002.safetensors", b"second"),
    ]);
    let cache = tempdir().unwrap();
    let second = complete.files.remove("model-00002-of-00002.safetensors").unwrap();
    let partial =
        Arc::new(content(&complete.files.iter().map(|(name, body)| (*name, body.as_slice())).collect::<Vec<_>>()));
    assert_says(
        hub(serve(partial), cache.path()).fetch("owner/name", None),
        &["model-00002-of-00002", "does not have"],
    );
    complete.files.insert("model-00002-of-00002.safetensors", second);
    let folder = hub(serve(Arc::new(complete)), cache.path()).fetch("owner/name", Some("refs/pr/1")).unwrap();
    assert_eq!(std::fs::read(folder.join("model-00002-of-00002.safetensors")).unwrap(), b"second");
}

#[test]
fn a_download_that_breaks_off_leaves_nothing_that_looks_complete() {
    let weights = vec![9; 50_000];
    let files: [(&str, &[u8]); 3] =
        [("config.json", b"{}"), ("tokenizer.json", b"{}"), ("model.safetensors", &weights)];
    let cache = tempdir().unwrap();
    let broken = Content { cut: Some("model.safetensors"), ..content(&files) };
    let broken = hub(serve(Arc::new(broken)), cache.path());
    assert_says(broken.fetch("owner/name", None), &["cannot download model.safetensors"]);
    assert_says(Hub { offline: true, ..broken }.fetch("owner/name", None), &["HF_HUB_OFFLINE"]);
    let folder = hub(serve(Arc::new(content(&files))), cache.path()).fetch("owner/name", None).unwrap();
    assert_eq!(std::fs::read(folder.join("model.safetensors")).unwrap(), weights, "the rest is fetched");
}

#[test]
fn refusals_say_what_to_do() {
    let cache = tempdir().unwrap();
    let gated = content(&[("config.json", b"{}"), ("pytorch_model.bin", b"")]);
    let endpoint = serve(Arc::new(Content { token: Some("hf_right"), ..gated }));
    let with = |token: Option<&str>| Hub { token: token.map(Into::into), ..hub(endpoint.clone(), cache.path()) };
    assert_says(with(None).fetch("owner/name", None), &["HF_TOKEN", "accept the model's terms"]);
    assert_says(with(Some("hf_wrong")).fetch("owner/name", None), &["refuses", "HF_TOKEN"]);
    assert_says(with(Some("hf_right")).fetch("owner/name", None), &["pytorch_model.bin", "convert"]);
    assert_says(with(Some("hf_right")).fetch("owner/nothing", None), &["owner/nothing", "does not exist"]);
    assert!(!format!("{:?}", with(Some("hf_right"))).contains("hf_right"), "the token is not printed");

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = hub(format!("http://{nobody}"), cache.path());
    assert_says(unreachable.fetch("owner/name", None), &["cannot download", "pass a folder"]);
    for id in ["name", "a/b/c", "owner/../x", "/etc", "owner/", "owner/na me"] {
        assert_says(unreachable.fetch(id, None), &["owner/name"]);
    }
    for revision in ["", "..", "../../x", "a b", "/main"] {
        assert_says(unreachable.fetch("owner/name", Some(revision)), &["is not a revision"]);
    }
}

#[test]
fn the_environment_is_read_and_checked() {
    let home = tempdir().unwrap();
    let path = home.path().to_str().unwrap();
    let from = |variables: &[(&str, &str)]| {
        let variables: HashMap<String, String> = variables
            .iter()
            .chain(&[("HF_HOME", path)])
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        Hub::from_variables(|name| variables.get(name).cloned())
    };
    let plain = from(&[]).unwrap();
    assert_eq!((plain.endpoint.as_str(), plain.token, plain.offline), ("https://huggingface.co", None, false));
    assert_eq!(plain.cache, home.path().join("hub"));
    std::fs::write(home.path().join("token"), "hf_stored\n").unwrap();
    assert_eq!(from(&[]).unwrap().token.as_deref(), Some("hf_stored"));
    let set = [("HF_TOKEN", " hf_given \n"), ("HF_ENDPOINT", "https://mirror.example/"), ("HF_HUB_OFFLINE", "YES")];
    let set = from(&set).unwrap();
    assert_eq!(
        (set.endpoint.as_str(), set.token.as_deref(), set.offline),
        ("https://mirror.example", Some("hf_given"), true)
    );
    assert_says(from(&[("HF_ENDPOINT", "mirror.example")]), &["HF_ENDPOINT = mirror.example", "https://"]);
    assert_says(from(&[("HF_HUB_OFFLINE", "perhaps")]), &["HF_HUB_OFFLINE = perhaps"]);
    assert_says(from(&[("HF_TOKEN", "two words")]), &["HF_TOKEN", "one word"]);
}
