//! What tests say of production types, shorter than these are made otherwise.

use std::path::PathBuf;

use crate::agent::Agent;
use crate::ide::IdeContext;
use crate::mcp::sessions::Sessions;
use crate::token::Token;

impl Agent {
    /// Gemini CLI, announced in `directories`.
    pub fn gemini(directories: Vec<PathBuf>) -> Agent {
        Agent {
            name: "gemini".to_owned(),
            title: "Gemini CLI".to_owned(),
            directories,
            file: "gemini-ide-server-PID-PORT.json".to_owned(),
            taken_for_ours: Vec::new(),
            tells_process: false,
            token: Token::generate().unwrap(),
        }
    }

    /// Qwen Code, announced in `directories`.
    pub fn qwen(directories: Vec<PathBuf>) -> Agent {
        Agent {
            name: "qwen".to_owned(),
            title: "Qwen Code".to_owned(),
            file: "PORT.lock".to_owned(),
            tells_process: true,
            ..Agent::gemini(directories)
        }
    }

    /// LLxprt Code, announced in `directories`, which may take `taken_for_ours` for us.
    pub fn llxprt(directories: Vec<PathBuf>, taken_for_ours: Vec<u32>) -> Agent {
        Agent {
            name: "llxprt".to_owned(),
            title: "LLxprt Code".to_owned(),
            file: "llxprt-ide-server-PID-PORT.json".to_owned(),
            taken_for_ours,
            tells_process: true,
            ..Agent::gemini(directories)
        }
    }
}

impl Sessions {
    /// Tells all clients the same.
    pub fn publish_context(&self, snapshot: IdeContext) {
        let places = self.places().into_iter();
        self.publish_contexts(places.map(|place| (place, snapshot.clone())).collect());
    }
}
