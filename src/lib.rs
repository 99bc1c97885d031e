//! The Emacs surface of the native module: what Lisp can call, one short function each.
//!
//! The companion itself is the library in `companion/`, which does not know Emacs. Plain values and
//! vectors cross the border, text as UTF-8; JSON is left to the library.
//! `gemini-companion-bridge.el` is the only caller, and explains the values, except that `-native.el`
//! asks for the version, `-change.el` compares and decodes texts, and `-write.el` decodes them.

mod convert;
#[cfg(unix)]
mod wake_pipe;

use std::process::Command;

use anyhow::Context;
use emacs::{Env, FromLisp, IntoLisp, Result, Value, Vector, defun};

use convert::{
    Text, agent_from_lisp, argument_to_lisp, contents_to_lisp, context, end_to_lisp,
    environment_from_lisp, file_name, process_to_lisp, region_to_lisp, strings, to_vector,
    tool_from_lisp, vector,
};
use gemini_companion::diff::{self, Comparison, Overlap, ThreeWay};
use gemini_companion::ide::{Outcome, ReviewId};
use gemini_companion::{
    Answer, CallId, Companion, Direction, Event, Limits, Place, WireId, ignore, panics,
};

emacs::plugin_is_GPL_compatible!();

#[emacs::module(
    name = "gemini-companion-module",
    defun_prefix = "gemini-companion",
    separator = "--mod-",
    mod_in_name = false
)]
fn init(env: &Env) -> Result<()> {
    panics::install_hook();
    #[cfg(unix)]
    wake_pipe::register(env)?;
    #[cfg(not(unix))]
    let _ = env;
    Ok(())
}

/// Lisp searches the file for it, to know the version before loading the module.
const MARKER: &str = concat!("gemini-companion-module:version=", env!("CARGO_PKG_VERSION"), ":end");

/// Return the programs that run on hosts, [BOOTSTRAP KEEPER RELAY EDITOR]: for the shell, and
/// JavaScript. The last one runs here, too.
#[defun]
fn host_programs(env: &Env) -> Result<Value<'_>> {
    env.vector((
        include_str!("bootstrap.sh"),
        include_str!("keeper.mjs"),
        include_str!("relay.mjs"),
        include_str!("editor.mjs"),
    ))
}

/// Return the program that lets a CLI use the tools of Emacs, as JavaScript.
#[defun]
fn tools_adapter() -> Result<&'static str> {
    Ok(include_str!("tools_adapter.mjs"))
}

/// Return the version of this module, as in the package's Version header.
#[defun]
fn version() -> Result<String> {
    let marker = std::hint::black_box(MARKER); // keeps it in the file in one piece
    let version = marker.split(['=', ':']).nth(2).unwrap_or_default();
    Ok(version.to_owned())
}

/// Start a companion: see `gemini-companion-bridge-start'.
///
/// AGENTS is a vector of [NAME TITLE DIRECTORIES FILE FILE-HAS-PID ALIAS-PIDS], ROOTS a vector of
/// absolute names without trailing slashes.  If PORT is in use, listens on a free one: see
/// `gemini-companion--mod-port-fault'.  A discovery file that cannot be written is no error: see
/// `gemini-companion--mod-discovery-fault'.  Signals an error if there is no port at all.
#[defun(user_ptr)]
fn start(agents: Vector, port: u16, roots: Vector, max_message: usize) -> Result<Companion> {
    let agents = agents.into_iter().map(agent_from_lisp).collect::<Result<Vec<_>>>()?;
    let roots = strings(roots)?;
    Companion::start(agents, port, &roots, Limits::for_messages(max_message))
}

/// Stop COMPANION: reject open reviews, end the streams, delete the discovery file.
///
/// Takes at most a few hundred milliseconds.  Stopping twice is harmless.
#[defun]
fn stop(companion: &Companion) -> Result<()> {
    companion.stop();
    Ok(())
}

/// Restart the server of COMPANION, on the same port.  Signals an error if that fails.
#[defun]
fn restart(companion: &Companion) -> Result<()> {
    companion.restart()
}

/// Return the TCP port on which COMPANION listens.
#[defun]
fn port(companion: &Companion) -> Result<u16> {
    Ok(companion.port())
}

/// Return the bearer token for clients of COMPANION that are of AGENT, a name.
#[defun]
fn token(companion: &Companion, agent: String) -> Result<Option<String>> {
    Ok(companion.token(&agent))
}

/// Serve clients of COMPANION on the host whose files begin with PREFIX in Emacs, too.
///
/// The host has directories of this machine: each is called there as the vector THERE says, and here
/// as the vector HERE does, without a trailing slash.  If SANDBOX is non-nil, no other file there is
/// served.  Return a vector of [AGENT TOKEN]; these are the same until the host is closed.
#[defun]
fn open_host<'e>(
    env: &'e Env,
    companion: &Companion,
    prefix: String,
    there: Vector,
    here: Vector,
    sandbox: Value,
) -> Result<Value<'e>> {
    let mounts = strings(there)?.into_iter().zip(strings(here)?).collect();
    let agents = companion.open_host(&prefix)?;
    let host = companion.host(&prefix).context("there is no such host")?;
    host.set_mounts(mounts, sandbox.is_not_nil());
    vector(env, agents.iter().map(|agent| env.vector((&agent.name, agent.token.reveal()))))
}

/// Stop serving clients of COMPANION on the host with PREFIX: their sessions and reviews end.
#[defun]
fn close_host(companion: &Companion, prefix: String) -> Result<()> {
    companion.close_host(&prefix);
    Ok(())
}

/// Open a wire of COMPANION to the host with PREFIX, which is open, and return its number.
///
/// A wire is the standard input and output of a program, which is run with ARGUMENTS, a vector.
/// ENVIRONMENT is a vector of unibyte strings, otherwise as `process-environment'.  SCRIPT is what a
/// shell at the other end reads: it starts the keeper.
#[defun]
fn open_wire(
    companion: &Companion,
    prefix: String,
    arguments: Vector,
    environment: Vector,
    script: String,
) -> Result<i64> {
    let arguments = strings(arguments)?;
    let (program, arguments) = arguments.split_first().context("there is no program")?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/").env_clear();
    command.envs(environment_from_lisp(environment)?);
    Ok(companion.open_wire(&prefix, command, script)?.0)
}

/// Send MESSAGE, a JSON object, to the keeper at the end of WIRE; nil if the wire has ended.
#[defun]
fn write_wire(companion: &Companion, wire: i64, message: String) -> Result<bool> {
    Ok(companion.write_wire(WireId(wire), message))
}

/// End WIRE, a number, of COMPANION; no event follows.
#[defun]
fn close_wire(companion: &Companion, wire: i64) -> Result<()> {
    companion.close_wire(WireId(wire));
    Ok(())
}

/// Record whether clients of COMPANION on the host with PREFIX can reach it now.
///
/// The sessions of those who could, but do not return, end after a minute; those of others after an
/// hour.
#[defun]
fn set_host_reachable(companion: &Companion, prefix: String, reachable: Value) -> Result<()> {
    companion.set_host_reachable(&prefix, reachable.is_not_nil());
    Ok(())
}

/// Return whether the .geminiignore in ROOT names the file NAME, on the host of COMPANION with PREFIX.
///
/// See `gemini-companion-bridge-host-ignored'.
#[defun]
fn host_ignored_p<'e>(
    env: &'e Env,
    companion: &Companion,
    prefix: String,
    root: String,
    name: String,
) -> Result<Value<'e>> {
    let host = companion.host(&prefix).context("there is no such host")?;
    verdict(env, host.ignores(&root, &name))
}

/// Return why COMPANION does not listen on the requested port, or nil if it does.
#[defun]
fn port_fault(companion: &Companion) -> Result<Option<String>> {
    Ok(companion.port_fault())
}

/// Return why clients cannot find COMPANION, a line for each directory without a discovery file, or nil.
#[defun]
fn discovery_fault(companion: &Companion) -> Result<Option<String>> {
    Ok(companion.announcement().and_then(|announcement| announcement.fault()))
}

/// Return the names of the discovery files of COMPANION, a vector of strings.
#[defun]
fn discovery_files<'e>(env: &'e Env, companion: &Companion) -> Result<Value<'e>> {
    let files = companion.announcement().map(|announcement| announcement.files());
    to_vector(env, files.unwrap_or_default())
}

/// Return the names of those discovery files of COMPANION that are missing or were changed, a vector.
#[defun]
fn damaged_files<'e>(env: &'e Env, companion: &Companion) -> Result<Value<'e>> {
    let files = companion.announcement().map(|announcement| announcement.damaged_files());
    to_vector(env, files.unwrap_or_default())
}

/// Tell clients that the workspace roots of COMPANION are ROOTS, a vector of directory names.
#[defun]
fn set_roots(companion: &Companion, roots: Vector) -> Result<()> {
    let roots = strings(roots)?;
    if let Some(announcement) = companion.announcement() {
        announcement.set_roots(&roots);
    }
    Ok(())
}

/// Return the next event of COMPANION as a vector, or nil if there is none.
///
/// [open-review REVIEW AGENT CLIENT PATH CONTENT NAME VERSION PROCESS]: a client proposes CONTENT
/// for the file PATH, which begins with the prefix of its host, if it is on one; AGENT is the symbol
/// of its program, CLIENT describes it for the user, NAME and VERSION are what it reports itself, and
/// PROCESS is its process id, on a host a string that begins with the prefix of that, or nil if that
/// is not known or shared by several clients.
/// [host-file PATH BYTES STAMP MODIFIED]: a client on a host tells what the file PATH, with the
/// prefix of the host, contains: BYTES is a unibyte string, nil if there is no file, or `unreadable';
/// STAMP, a string or nil, changes when the file is written, the last time MODIFIED, in seconds since
/// 1970 or nil.  It comes before `open-review', and when the file has been written.
/// [close-review REVIEW CALL]: the review is over; CALL, unless nil, waits for its text.
/// [clients COUNT]: COUNT sessions are connected now.
/// [pong CLIENT SECONDS]: CLIENT answered a ping so many seconds (a float) after it was asked.
/// [client-message CLIENT TEXT]: CLIENT has a message for the user.
/// [decide-review REVIEW ACCEPT CALL DIRECTORY]: accept the review, else reject it; CALL waits for
/// an answer, and DIRECTORY is where the client works, or nil if that is not known.
/// [tools-wanted]: a client wants the tools for the model: see `gemini-companion--mod-set-tools'.
/// [call-tool CALL AGENT TOOL ARGUMENTS DIRECTORY]: a model of AGENT, a symbol, asks for TOOL, a
/// name; CALL waits for an answer.  ARGUMENTS is a vector in the order in which they were declared,
/// with nil for those that are missing or false, and DIRECTORY is as above.
/// [cancel-call CALL]: nobody waits for the answer to CALL, one of `call-tool', any more.
/// [trace DIRECTION SESSION TEXT]: a message for the log, DIRECTION `from-client' or `to-client'.
/// [wire-line WIRE LINE]: the program of a wire, or the shell at its end, has written LINE.
/// [wire-message WIRE MESSAGE]: the keeper at the end of a wire has sent MESSAGE, a JSON object.
/// [wire-ended WIRE REASON]: a wire has ended because its program has ended, with the exit status
/// REASON, or nil if that is not known, or could not be started, for the REASON, a string; or it was
/// ended since the host has sent too much text, what is not understood, or nothing any more, and
/// REASON is `flood', `broken' or `silent'.
/// [server-died]: the server's thread has died, see `gemini-companion--mod-restart'.
/// [warning TEXT]: something went wrong that the user may want to know.
#[defun]
fn next_event<'e>(env: &'e Env, companion: &Companion) -> Result<Option<Value<'e>>> {
    let Some(event) = companion.bridge().next_event() else { return Ok(None) };
    macro_rules! event {
        ($type:literal $(, $argument:expr)*) => { env.vector((env.intern($type)?, $($argument,)*))? }
    }
    Ok(Some(match event {
        Event::OpenReview { review, agent, client, info, process, path, content, host, .. } => {
            let (agent, (name, version)) = (env.intern(&agent)?, info);
            let process = process_to_lisp(env, process, host.as_deref())?;
            let path = host.map_or_else(|| path.clone(), |host| host.name_of(&path));
            event!("open-review", review.0, agent, client, path, content, name, version, process)
        }
        Event::HostFile(file) => {
            let contents = contents_to_lisp(env, file.contents)?;
            event!("host-file", file.host.name_of(&file.path), contents, file.stamp, file.modified)
        }
        Event::CloseReview { review, call } => {
            event!("close-review", review.0, call.map(|call| call.0))
        }
        Event::ClientsChanged => event!("clients", companion.sessions().count() as i64),
        Event::Pong { client, after } => event!("pong", client, after.as_secs_f64()),
        Event::Message { client, text } => event!("client-message", client, text),
        Event::DecideReview { review, accept, call, directory, .. } => {
            event!("decide-review", review.0, accept, call.0, directory)
        }
        Event::ToolsWanted => event!("tools-wanted"),
        Event::CallTool { call, agent, tool, arguments, directory, .. } => {
            let arguments = arguments.into_iter().map(|value| argument_to_lisp(env, value));
            event!(
                "call-tool",
                call.0,
                env.intern(&agent)?,
                tool,
                vector(env, arguments)?,
                directory
            )
        }
        Event::CancelCall { call } => event!("cancel-call", call.0),
        Event::Trace { direction, session, text } => {
            let direction = match direction {
                Direction::FromClient => env.intern("from-client")?,
                Direction::ToClient => env.intern("to-client")?,
            };
            event!("trace", direction, session, text)
        }
        Event::WireLine { wire, line } => event!("wire-line", wire.0, line),
        Event::WireMessage { wire, message } => event!("wire-message", wire.0, message),
        Event::WireEnded { wire, end } => event!("wire-ended", wire.0, end_to_lisp(env, end)?),
        Event::ServerDied => event!("server-died"),
        Event::Warning(text) => event!("warning", text),
    }))
}

/// Publish what the user looks at to the clients of COMPANION.
///
/// CONTEXTS is a vector of [DIRECTORY FILES TRUSTED]: see `gemini-companion-bridge-publish-contexts'.
/// TIMESTAMP of a file is in milliseconds since 1970, LINE and CHARACTER count from 1, the latter in
/// UTF-16 code units, and SELECTION is a string or nil.
#[defun]
fn publish_contexts(companion: &Companion, contexts: Vector) -> Result<()> {
    let contexts = contexts.into_iter().map(|value| {
        let slots = Vector::from_lisp(value)?;
        let directory: Option<String> = slots.get(0)?;
        Ok((directory.as_deref().into(), context(slots.get(1)?, slots.get(2)?)?))
    });
    companion.sessions().publish_contexts(contexts.collect::<Result<Vec<_>>>()?);
    Ok(())
}

/// Return where the clients of COMPANION work, a vector without duplicates, with nil for unknown.
#[defun]
fn places<'e>(env: &'e Env, companion: &Companion) -> Result<Value<'e>> {
    let places = companion.sessions().places();
    to_vector(env, places.iter().map(Place::directory).collect())
}

/// Return as JSON what `gemini-companion--mod-publish-contexts' would send for FILES and TRUSTED.
#[defun]
fn context_json(files: Vector, trusted: Value) -> Result<String> {
    Ok(context(files, trusted)?.to_json())
}

/// Return whether IGNORE-FILE, a .geminiignore, names the file PATH below it; both are in UTF-8.
///
/// See `gemini-companion-bridge-ignored'.
#[defun]
fn ignored_p<'e>(env: &'e Env, ignore_file: Vec<u8>, path: Vec<u8>) -> Result<Value<'e>> {
    verdict(env, ignore::names(&file_name(ignore_file), &file_name(path)))
}

/// Whether an ignore file names a file, or as a string why that is not known.
fn verdict(env: &Env, named: Result<bool>) -> Result<Value<'_>> {
    match named {
        Ok(named) => named.into_lisp(env),
        Err(reason) => format!("{reason:#}").into_lisp(env),
    }
}

/// Return how the text AFTER differs from BEFORE, as [ADDED REMOVED TOTAL HUNKS].
///
/// ADDED and REMOVED are numbers of lines, TOTAL is the number of lines of BEFORE.  HUNKS are those
/// of a unified diff, with CONTEXT lines around each; nil if CONTEXT is nil.
#[defun]
fn diff<'e>(env: &'e Env, before: Text, after: Text, context: Option<usize>) -> Result<Value<'e>> {
    let comparison = Comparison::new(&before.0, &after.0, diff::TIMEOUT);
    let hunks = context.map(|lines| Text(comparison.unified(lines)));
    let [added, removed, total] =
        [comparison.added(), comparison.removed(), comparison.total()].map(|count| count as i64);
    env.vector((added, removed, total, hunks))
}

/// Return where the text B differs from A, or, unless C is nil, where the three texts differ.
///
/// The value is a vector of [A-START A-END B-START B-END C-START C-END ODD], in the order of the
/// texts: lines counted from 0, the end exclusive, nil for a text that is nil.  ODD is the number,
/// from 0, of the one text that differs from the other two there, else nil.  There are at most MOST
/// elements: if there are more differences, neighbors are joined.
#[defun]
fn regions<'e>(env: &'e Env, a: Text, b: Text, c: Option<Text>, most: usize) -> Result<Value<'e>> {
    let Some(c) = c else {
        let regions = Comparison::new(&a.0, &b.0, diff::TIMEOUT).regions(most);
        return vector(env, regions.iter().map(|region| region_to_lisp(env, region, None)));
    };
    let texts = ThreeWay::new(&c.0, &a.0, &b.0, diff::TIMEOUT);
    let regions = texts.regions(most);
    vector(env, regions.iter().map(|it| region_to_lisp(env, it, texts.odd_one(it))))
}

/// Return the text BASE with the changes of both OURS and THEIRS.
///
/// If changes overlap, return the line of THEIRS, from 1, of the first one that does.
#[defun]
fn merge(env: &Env, base: Text, ours: Text, theirs: Text) -> Result<Value<'_>> {
    match diff::merge(&base.0, &ours.0, &theirs.0, diff::TIMEOUT) {
        Ok(text) => Text(text).into_lisp(env),
        Err(Overlap { line }) => (line as i64).into_lisp(env),
    }
}

/// Return BYTES, the contents of a file, as text, or nil if they are not UTF-8.
///
/// There is no byte order mark in the text.  If UNIX is non-nil, its line ends are LF.
#[defun]
fn decode<'e>(env: &'e Env, bytes: Vec<u8>, unix: Value) -> Result<Option<Value<'e>>> {
    let Ok(text) = str::from_utf8(&bytes) else { return Ok(None) };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if unix.is_not_nil() && text.contains("\r\n") {
        return Ok(Some(text.replace("\r\n", "\n").into_lisp(env)?));
    }
    Ok(Some(text.into_lisp(env)?))
}

/// Offer TOOLS, a vector, to the models of the clients of COMPANION, and no others.
///
/// For these see `gemini-companion-bridge-set-tools'.  READ-ONLY is non-nil if a tool changes nothing,
/// LISTED nil if it is for programs and not for the model.  Signals an error for another TYPE.
#[defun]
fn set_tools(companion: &Companion, tools: Vector) -> Result<()> {
    let tools = tools.into_iter().map(tool_from_lisp).collect::<Result<_>>()?;
    companion.model_tools().register(tools);
    Ok(())
}

/// Queue the messages of the clients of COMPANION as `trace' events if ON is non-nil.
#[defun]
fn set_tracing(companion: &Companion, on: Value) -> Result<()> {
    companion.bridge().set_tracing(on.is_not_nil());
    Ok(())
}

/// Ping the clients of COMPANION that have an open stream, and return how many these are.
#[defun]
fn ping(companion: &Companion) -> Result<i64> {
    Ok(companion.sessions().ping() as i64)
}

/// Return the sessions of COMPANION as a vector: see `gemini-companion-bridge-sessions'.
#[defun]
fn sessions<'e>(env: &'e Env, companion: &Companion) -> Result<Value<'e>> {
    let sessions = companion.sessions().describe();
    let described = sessions.into_iter().map(|session| {
        let stream = match session.listens {
            None => "never",
            Some(true) => "open",
            Some(false) => "lost",
        };
        env.vector((
            session.key,
            session.client,
            process_to_lisp(env, session.process, session.host.as_deref())?,
            session.age.as_secs_f64(),
            env.intern(stream)?,
            session.reviews.len() as i64,
            session.undelivered as i64,
            session.place.directory().into_lisp(env)?,
            session.has_own_front,
            env.intern(&session.agent)?,
            session.knows_tools,
        ))
    });
    vector(env, described)
}

/// End the session of COMPANION with KEY, and its reviews; return nil if there is none.
#[defun]
fn disconnect(companion: &Companion, key: String) -> Result<bool> {
    Ok(companion.sessions().disconnect(&key))
}

/// Return t if the tool call CALL of COMPANION still waits for its answer.
#[defun]
fn awaited_p(companion: &Companion, call: i64) -> Result<bool> {
    Ok(companion.bridge().is_awaited(CallId(call)))
}

/// Answer the tool call CALL of COMPANION with TEXT, see `gemini-companion--mod-accept-review'.
///
/// Return non-nil if the call still waited.
#[defun]
fn answer_call(companion: &Companion, call: i64, text: Text, may_omit: Value) -> Result<bool> {
    let answered = Answer { text: String::from(text).into(), may_omit: may_omit.is_not_nil() };
    Ok(companion.bridge().answer(CallId(call), Ok(answered)))
}

/// Answer the tool call CALL of COMPANION with the error REASON; nil if it no longer waited.
#[defun]
fn fail_call(companion: &Companion, call: i64, reason: Text) -> Result<bool> {
    Ok(companion.bridge().answer(CallId(call), Err::<String, String>(reason.into())))
}

/// Report that the user accepted REVIEW with TEXT, to the client that asked.
///
/// If MAY-OMIT is non-nil, TEXT is what the client proposed, and the session that proposed it gets
/// an empty text instead, which it takes for that.  Return nil if the review was no longer open.
#[defun]
fn accept_review(companion: &Companion, review: i64, text: Text, may_omit: Value) -> Result<bool> {
    let outcome =
        Outcome::Accepted { content: String::from(text).into(), may_omit: may_omit.is_not_nil() };
    Ok(companion.sessions().decide(ReviewId(review), outcome))
}

/// Report that the user rejected REVIEW, to the client that asked; nil if it was no longer open.
#[defun]
fn reject_review(companion: &Companion, review: i64) -> Result<bool> {
    Ok(companion.sessions().decide(ReviewId(review), Outcome::Rejected))
}
