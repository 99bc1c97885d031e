//! Values of Lisp, as the companion's own types, and the other way round.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use emacs::{Env, FromLisp, IntoLisp, Result, Value, Vector};

use gemini_companion::diff::Region;
use gemini_companion::ide::{Cursor, File, IdeContext};
use gemini_companion::{
    Agent, Argument, ArgumentKind, ArgumentValue, Contents, Host, ModelTool, Token, WireEnd,
};

pub fn tool_from_lisp(value: Value) -> Result<ModelTool> {
    let slots = Vector::from_lisp(value)?;
    let arguments = slots.get::<Vector>(4)?.into_iter().map(argument_from_lisp);
    Ok(ModelTool {
        name: slots.get(0)?,
        description: slots.get(1)?,
        is_read_only: flag(&slots, 2)?,
        is_listed: flag(&slots, 3)?,
        arguments: arguments.collect::<Result<_>>()?,
        is_for_hosts: flag(&slots, 5)?,
    })
}

/// Whether a slot is non-nil.
fn flag(slots: &Vector, index: usize) -> Result<bool> {
    Ok(slots.get::<Value>(index)?.is_not_nil())
}

fn argument_from_lisp(value: Value) -> Result<Argument> {
    let slots = Vector::from_lisp(value)?;
    let kind: String = slots.get(1)?;
    Ok(Argument {
        name: slots.get(0)?,
        kind: ArgumentKind::named(&kind)
            .with_context(|| format!("{kind:?} is not a type of an argument"))?,
        description: slots.get(2)?,
        is_required: flag(&slots, 3)?,
    })
}

/// A process id, which on `host` is a string, since it says nothing about processes here.
pub fn process_to_lisp<'e>(
    env: &'e Env,
    process: Option<u32>,
    host: Option<&Host>,
) -> Result<Value<'e>> {
    match (process, host) {
        (Some(process), Some(host)) => format!("{}{process}", host.prefix()).into_lisp(env),
        _ => process.map(i64::from).into_lisp(env),
    }
}

pub fn argument_to_lisp(env: &Env, value: Option<ArgumentValue>) -> Result<Value<'_>> {
    match value {
        Some(ArgumentValue::Text(text)) => text.into_lisp(env),
        Some(ArgumentValue::Integer(number)) => number.into_lisp(env),
        Some(ArgumentValue::Flag(flag)) => flag.into_lisp(env),
        None => ().into_lisp(env),
    }
}

pub fn agent_from_lisp(value: Value) -> Result<Agent> {
    let slots = Vector::from_lisp(value)?;
    let directories = strings(slots.get(2)?)?;
    let aliases = slots.get::<Vector>(5)?.into_iter();
    let aliases = aliases.map(|id| Ok(u32::try_from(id.into_rust::<i64>()?)?));
    Ok(Agent {
        name: slots.get(0)?,
        title: slots.get(1)?,
        directories: directories.into_iter().map(PathBuf::from).collect(),
        file: slots.get(3)?,
        file_has_pid: flag(&slots, 4)?,
        alias_pids: aliases.collect::<Result<_>>()?,
        token: Token::generate()?,
        host: None,
        allowance: Default::default(),
    })
}

pub fn context(files: Vector, trusted: Value) -> Result<IdeContext> {
    let files = files.into_iter().map(file_from_lisp).collect::<Result<Vec<_>>>()?;
    let context = IdeContext::new(files);
    Ok(if trusted.is_not_nil() { context.trusted() } else { context })
}

fn file_from_lisp(value: Value) -> Result<File> {
    let slots = Vector::from_lisp(value)?;
    let mut file = File { path: slots.get(0)?, timestamp: slots.get::<i64>(1)?, ..File::default() };
    if flag(&slots, 2)? {
        file.is_active = Some(true);
        file.cursor = Some(Cursor { line: slots.get(3)?, character: slots.get(4)? });
        file.selected_text = slots.get::<Option<Text>>(5)?.map(String::from);
    }
    Ok(file)
}

/// The variables of a process. The first entry for a name counts; without a value, it has none.
pub fn environment_from_lisp(entries: Vector) -> Result<HashMap<OsString, OsString>> {
    let mut variables = HashMap::new();
    for entry in entries {
        let mut name: Vec<u8> = entry.into_rust()?;
        let equals = name.iter().position(|byte| *byte == b'=');
        let value = equals.map(|at| file_name(name.split_off(at)[1..].to_vec()).into());
        variables.entry(file_name(name).into()).or_insert(value);
    }
    Ok(variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// A file name of the operating system.
#[cfg(unix)]
pub fn file_name(bytes: Vec<u8>) -> PathBuf {
    <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into()
}

#[cfg(not(unix))]
pub fn file_name(bytes: Vec<u8>) -> PathBuf {
    String::from(Text(bytes)).into()
}

/// Why a wire has ended.
pub fn end_to_lisp(env: &Env, end: WireEnd) -> Result<Value<'_>> {
    match end {
        WireEnd::NotStarted(reason) => reason.into_lisp(env),
        WireEnd::Exited(status) => status.map(i64::from).into_lisp(env),
        WireEnd::Flooded => env.intern("flood"),
        WireEnd::Broken => env.intern("broken"),
        WireEnd::Silent => env.intern("silent"),
    }
}

/// Bytes become a unibyte string.
pub fn contents_to_lisp(env: &Env, contents: Contents) -> Result<Value<'_>> {
    match contents {
        Contents::Missing => ().into_lisp(env),
        Contents::Unreadable => env.intern("unreadable"),
        Contents::Bytes(bytes) => bytes.into_lisp(env),
    }
}

/// A vector of these values.
pub fn to_vector<'e>(env: &'e Env, values: Vec<impl IntoLisp<'e>>) -> Result<Value<'e>> {
    vector(env, values.into_iter().map(|value| value.into_lisp(env)))
}

pub fn vector<'e>(
    env: &'e Env,
    items: impl ExactSizeIterator<Item = Result<Value<'e>>>,
) -> Result<Value<'e>> {
    let vector = env.make_vector(items.len(), ())?;
    for (index, item) in items.enumerate() {
        vector.set(index, item?)?;
    }
    vector.into_lisp(env)
}

pub fn strings(vector: Vector) -> Result<Vec<String>> {
    vector.into_iter().map(String::from_lisp).collect()
}

pub fn region_to_lisp<'e, const TEXTS: usize>(
    env: &'e Env,
    region: &Region<TEXTS>,
    odd: Option<usize>,
) -> Result<Value<'e>> {
    let mut slots = [None; 7];
    for (pair, lines) in slots.chunks_exact_mut(2).zip(region) {
        pair.copy_from_slice(&[Some(lines.start as i64), Some(lines.end as i64)]);
    }
    slots[6] = odd.map(|text| text as i64);
    vector(env, slots.iter().map(|slot| slot.into_lisp(env)))
}

/// A string of Lisp, which may contain bytes and other characters that are not Unicode.
///
/// The encoding is UTF-8, as Emacs extends it for these: nothing is lost on the way and back.
pub struct Text(pub Vec<u8>);

const TEXT_ENCODING: &str = "utf-8-emacs-unix";

impl FromLisp<'_> for Text {
    fn from_lisp(value: Value<'_>) -> Result<Self> {
        let env = value.env;
        // Emacs passes Unicode three times as fast as it encodes. It looks at each character even to say
        // how long a text is, so the room is taken that Unicode has in Emacs.
        let mut bytes = vec![0; env.call("string-bytes", (value,))?.into_rust::<usize>()? + 1];
        if let Ok(length) = value.copy_string_contents(&mut bytes).map(<[_]>::len) {
            bytes.truncate(length);
            return Ok(Self(bytes));
        }
        let encoded =
            env.call("encode-coding-string", (value, env.intern(TEXT_ENCODING)?, true))?;
        Ok(Self(encoded.into_rust()?))
    }
}

impl IntoLisp<'_> for Text {
    fn into_lisp(self, env: &Env) -> Result<Value<'_>> {
        match String::from_utf8(self.0) {
            Ok(text) => text.into_lisp(env),
            Err(error) => {
                let bytes = error.into_bytes();
                env.call("decode-coding-string", (bytes, env.intern(TEXT_ENCODING)?, true))
            }
        }
    }
}

impl From<Text> for String {
    /// What is not Unicode becomes U+FFFD.
    fn from(text: Text) -> Self {
        Self::from_utf8(text.0)
            .unwrap_or_else(|error| Self::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}
