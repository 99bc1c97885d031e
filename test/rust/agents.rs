//! Agents as Lisp describes them.

use std::path::PathBuf;

use gemini_companion::{Agent, Token};

/// Gemini CLI, announced in `directories`.
pub fn gemini(directories: Vec<PathBuf>) -> Agent {
    Agent {
        name: "gemini".to_owned(),
        title: "Gemini CLI".to_owned(),
        directories,
        file: "gemini-ide-server-PID-PORT.json".to_owned(),
        alias_pids: Vec::new(),
        file_has_pid: false,
        token: Token::generate().unwrap(),
        host: None,
        allowance: Default::default(),
    }
}

/// Qwen Code, announced in `directories`.
pub fn qwen(directories: Vec<PathBuf>) -> Agent {
    Agent {
        name: "qwen".to_owned(),
        title: "Qwen Code".to_owned(),
        file: "PORT.lock".to_owned(),
        file_has_pid: true,
        ..gemini(directories)
    }
}

/// LLxprt Code, announced in `directories`, which may look for one of `alias_pids` instead of us.
pub fn llxprt(directories: Vec<PathBuf>, alias_pids: Vec<u32>) -> Agent {
    Agent {
        name: "llxprt".to_owned(),
        title: "LLxprt Code".to_owned(),
        file: "llxprt-ide-server-PID-PORT.json".to_owned(),
        alias_pids,
        file_has_pid: true,
        ..gemini(directories)
    }
}
