//! A run can be killed and a disk can lie at any moment: what is loaded is always what was saved.
#![allow(clippy::unwrap_used)]

use super::*;
use candle_core::{DType, Tensor};
use decoder::random::Rng;
use serde_json::json;
use std::cell::Cell;
use std::fs;
use std::rc::Rc;
use std::sync::Arc;

fn config() -> serde_json::Value {
    json!({"model": {"hidden": 16}, "optimiser": {"beta2": 0.95, "learning_rate": 1e-3}, "batch": 8})
}

fn snapshot(seed: u64) -> Snapshot {
    let mut random = Rng::new(seed);
    let mut tensor = |shape: &[usize], dtype: DType| {
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| random.normal()).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
    };
    let weights = [
        ("embed", tensor(&[7, 3], DType::F32)),
        ("half", tensor(&[5], DType::BF16)),
        ("norm", tensor(&[3], DType::F64)),
        ("none", tensor(&[0, 4], DType::F32)),
        ("scale", tensor(&[], DType::F16)),
        // A view, as a rank's slice may be.
        ("view", tensor(&[4, 6], DType::F32).t().unwrap().narrow(0, 1, 3).unwrap()),
    ];
    let state = [("embed.exp_avg", tensor(&[7, 3], DType::F32)), ("embed.exp_avg_sq", tensor(&[7, 3], DType::F32))];
    let named = |(name, tensor): (&str, Tensor)| (Arc::from(name), tensor);
    Snapshot {
        step: seed,
        seed: random.bits(),
        data_position: random.bits(),
        weights: weights.into_iter().map(named).collect(),
        optimiser: OptimiserState { steps: random.bits(), tensors: state.into_iter().map(named).collect() },
    }
}

/// Name, type and shape, and every bit of the elements.
type Bits = (Arc<str>, DType, Vec<usize>, Vec<u64>);

fn bits(tensors: &Named) -> Vec<Bits> {
    let bits = |tensor: &Tensor| {
        let wide: Vec<f64> = tensor.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap();
        wide.into_iter().map(f64::to_bits).collect()
    };
    tensors.iter().map(|(name, tensor)| (name.clone(), tensor.dtype(), tensor.dims().to_vec(), bits(tensor))).collect()
}

#[track_caller]
fn assert_same(found: &Snapshot, expected: &Snapshot) {
    let numbers = |one: &Snapshot| (one.step, one.seed, one.data_position, one.optimiser.steps);
    assert_eq!(numbers(found), numbers(expected));
    assert_eq!(bits(&found.weights), bits(&expected.weights));
    assert_eq!(bits(&found.optimiser.tensors), bits(&expected.optimiser.tensors));
}

fn load_latest(root: &Path) -> Latest {
    latest(root, &config(), &Device::Cpu).unwrap().unwrap()
}

fn listing(root: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_newest_is_loaded_to_the_last_bit_and_the_one_before_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("new/checkpoints");
    assert!(latest(&root, &config(), &Device::Cpu).unwrap().is_none(), "there has never been one");
    for step in [5, 20, 100] {
        let saved = snapshot(step);
        let path = save(&root, &saved, &config()).unwrap();
        let found = load_latest(&root);
        assert_same(&found.snapshot, &saved);
        assert_eq!((found.path, found.skipped), (path, vec![]));
    }
    assert_eq!(listing(&root), ["step-00000020", "step-00000100"]);
    // Saving a step again replaces it, and still keeps the one before.
    let again = Snapshot { step: 100, ..snapshot(7) };
    save(&root, &again, &config()).unwrap();
    assert_same(&load_latest(&root).snapshot, &again);
    assert_eq!(listing(&root), ["step-00000020", "step-00000100"]);
}

#[test]
fn other_software_reads_the_weights() {
    let folder = tempfile::tempdir().unwrap();
    let saved = snapshot(1);
    let path = save(folder.path(), &saved, &config()).unwrap();
    let bytes = fs::read(path.join(MODEL)).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.len(), saved.weights.len());
    for (name, tensor) in &saved.weights {
        let view = file.tensor(name).unwrap();
        let width = tensor.dtype().size_in_bytes();
        assert_eq!((view.data().as_ptr() as usize - bytes.as_ptr() as usize) % width, 0, "{name} is aligned");
        assert_eq!(view.shape(), tensor.dims());
    }
    let checked =
        std::process::Command::new("sha256sum").args(["-c", "--quiet", sums::FILE]).current_dir(&path).status();
    assert!(checked.map_or(true, |status| status.success()), "sha256sum, where there is one, agrees");
}

#[test]
fn any_flipped_bit_or_cut_is_found_and_the_previous_one_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let previous = snapshot(1);
    save(root, &previous, &config()).unwrap();
    let newest = save(root, &snapshot(2), &config()).unwrap();
    let mut random = Rng::new(99);
    for name in [MANIFEST, MODEL, OPTIMISER, sums::FILE] {
        let path = newest.join(name);
        let good = fs::read(&path).unwrap();
        for round in 0..100 {
            let mut bad = good.clone();
            let at = random.below(bad.len());
            match round % 4 {
                0 => bad.truncate(at),
                1 => bad.insert(at, random.bits() as u8),
                _ => bad[at] ^= 1 << random.below(8),
            }
            fs::write(&path, &bad).unwrap();
            let found = load_latest(root);
            assert_same(&found.snapshot, &previous);
            assert_eq!(found.skipped.len(), 1, "{name}, byte {at}, round {round}");
            assert_eq!(found.skipped[0].path, newest);
        }
        fs::remove_file(&path).unwrap();
        let found = load_latest(root);
        assert!(found.skipped[0].reason.contains(&format!("no {name}")), "{:?}", found.skipped);
        fs::write(&path, &good).unwrap();
    }
    assert_same(&load_latest(root).snapshot, &snapshot(2));
    // All three sums are there, and something else.
    let mut more = fs::read(newest.join(sums::FILE)).unwrap();
    more.push(b'\n');
    fs::write(newest.join(sums::FILE), more).unwrap();
    assert_same(&load_latest(root).snapshot, &previous);
}

#[test]
fn when_none_is_usable_the_run_does_not_start_again_silently() {
    let folder = tempfile::tempdir().unwrap();
    let path = save(folder.path(), &snapshot(3), &config()).unwrap();
    fs::write(path.join(MODEL), b"").unwrap();
    let message = latest(folder.path(), &config(), &Device::Cpu).unwrap_err().to_string();
    assert!(message.contains("none is usable") && message.contains(MODEL), "{message}");
}

#[test]
fn a_run_killed_while_saving_resumes_from_the_checkpoint_before() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let previous = snapshot(1);
    save(root, &previous, &config()).unwrap();
    // After every possible number of files, the last one in part.
    let whole = tempfile::tempdir().unwrap();
    let source = save(whole.path(), &snapshot(2), &config()).unwrap();
    for files in 0..=4 {
        let partial = root.join(".partial-step-00000002");
        fs::create_dir(&partial).unwrap();
        for (at, name) in [MANIFEST, MODEL, OPTIMISER, sums::FILE].into_iter().take(files).enumerate() {
            let bytes = fs::read(source.join(name)).unwrap();
            let end = if at + 1 == files { bytes.len() / 2 } else { bytes.len() };
            fs::write(partial.join(name), &bytes[..end]).unwrap();
        }
        let found = load_latest(root);
        assert_same(&found.snapshot, &previous);
        assert!(found.skipped[0].reason.contains("half-written"), "{:?}", found.skipped);
        fs::remove_dir_all(&partial).unwrap();
    }
    // Killed between the two renames of a step that is saved again.
    fs::rename(root.join("step-00000001"), root.join("step-00000001.replaced")).unwrap();
    fs::create_dir(root.join(".partial-step-00000001")).unwrap();
    assert_same(&load_latest(root).snapshot, &previous);
    // The next save clears up.
    save(root, &snapshot(2), &config()).unwrap();
    save(root, &snapshot(3), &config()).unwrap();
    assert_eq!(listing(root), ["step-00000002", "step-00000003"]);
}

/// A file on a disk that has `left` bytes left.
struct Full {
    file: fs::File,
    left: Rc<Cell<usize>>,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.left.get());
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.left.set(self.left.get() - count);
        self.file.write(&bytes[..count])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for Full {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

#[test]
fn a_full_disk_is_an_error_and_the_checkpoint_before_is_intact() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let previous = snapshot(1);
    let path = save(root, &previous, &config()).unwrap();
    let size: usize = listing(&path).iter().map(|name| fs::metadata(path.join(name)).unwrap().len() as usize).sum();
    for space in (0..size - 64).step_by(37) {
        let left = Rc::new(Cell::new(space));
        let create =
            |path: &Path| Ok(Box::new(Full { file: fs::File::create(path)?, left: left.clone() }) as Box<dyn Sink>);
        let error = save_through(root, &snapshot(2), &config(), &create).unwrap_err();
        assert!(matches!(error, Error::File { action: "write", .. }), "{space} bytes: {error}");
        assert_eq!(listing(root), ["step-00000001"], "{space} bytes: the space is given back");
        assert_same(&load_latest(root).snapshot, &previous);
    }
}

/// A disk that confirms a write and keeps something else.
struct Lying(fs::File);

impl Write for Lying {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut other = bytes.to_vec();
        other[0] ^= 1;
        self.0.write(&other)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Sink for Lying {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

#[test]
fn a_disk_that_does_not_give_back_what_was_written_costs_no_older_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    for step in [1, 2] {
        save(folder.path(), &snapshot(step), &config()).unwrap();
    }
    for bad in [MANIFEST, MODEL, OPTIMISER, sums::FILE] {
        let create = |path: &Path| {
            let file = fs::File::create(path)?;
            let lies = path.file_name().is_some_and(|name| name == bad);
            Ok(if lies { Box::new(Lying(file)) as Box<dyn Sink> } else { Box::new(file) })
        };
        let error = save_through(folder.path(), &snapshot(3), &config(), &create).unwrap_err();
        assert!(matches!(error, Error::Checkpoint { .. }), "{bad}: {error}");
        assert_eq!(listing(folder.path()), ["step-00000001", "step-00000002"], "{bad}");
    }
}

#[test]
fn a_checkpoint_of_another_run_says_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), &snapshot(1), &config()).unwrap();
    let other =
        json!({"model": {"hidden": 32}, "optimiser": {"beta2": 0.95, "learning_rate": 1e-3, "warm_up": 5}, "batch": 8});
    let message = latest(folder.path(), &other, &Device::Cpu).unwrap_err().to_string();
    assert!(message.contains("model.hidden: checkpoint 16, this run 32"), "{message}");
    assert!(message.contains("optimiser.warm_up: checkpoint \"(absent)\", this run 5"), "{message}");
    assert!(!message.contains("batch") && !message.contains("beta2"), "{message}");
    // Numbers that take many digits are equal to themselves.
    let mut random = Rng::new(4);
    for step in 2..50 {
        let config = json!({"rate": random.normal() * 10f64.powi(random.below(600) as i32 - 300)});
        save(folder.path(), &Snapshot { step, ..snapshot(1) }, &config).unwrap();
        latest(folder.path(), &config, &Device::Cpu).unwrap();
    }
}

#[test]
fn a_later_checkpoint_is_not_overtaken_unless_it_is_unusable() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for step in [40, 50] {
        save(root, &snapshot(step), &config()).unwrap();
    }
    let message = save(root, &snapshot(10), &config()).unwrap_err().to_string();
    assert!(message.contains("later step"), "{message}");
    assert_eq!(listing(root), ["step-00000040", "step-00000050"]);
    // The disk changed the newest: the run goes on from 40 and saves 45.
    fs::write(root.join("step-00000050").join(MODEL), b"").unwrap();
    assert_eq!(load_latest(root).snapshot.step, 40);
    save(root, &snapshot(45), &config()).unwrap();
    assert_eq!(listing(root), ["step-00000040", "step-00000045"]);
}

#[test]
fn weights_go_into_the_models_parameters_in_place() {
    let loaded = snapshot(1);
    let parameters: Named = loaded
        .weights
        .iter()
        .map(|(name, w)| (name.clone(), Tensor::zeros(w.shape(), w.dtype(), w.device()).unwrap()))
        .collect();
    let of_model = parameters.clone();
    loaded.copy_weights_into(&parameters).unwrap();
    assert_eq!(bits(&of_model), bits(&loaded.weights));
    for change in [
        |p: &mut Named| drop(p.remove("norm")),
        |p: &mut Named| drop(p.insert("norm".into(), Tensor::zeros(4, DType::F64, &Device::Cpu).unwrap())),
        |p: &mut Named| drop(p.insert("more".into(), Tensor::zeros(4, DType::F64, &Device::Cpu).unwrap())),
    ] {
        let mut parameters = parameters.clone();
        change(&mut parameters);
        assert!(matches!(loaded.copy_weights_into(&parameters), Err(Error::Mismatch { .. })));
    }
}
