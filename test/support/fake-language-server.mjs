// A language server on stdio for the tests.
//
//   node fake-language-server.mjs DIRECTORY
//
// It reports a line with "bad" as an error, one with "doubtful" as a warning.  Files in DIRECTORY are
// orders: while `hold-METHOD` exists, what belongs to METHOD is not sent (`hold-publish`: the
// diagnostics); with `versions`, diagnostics name the version of the text; with `die` it ends at the
// next request; `locations.json` has more locations for definitions and references.  It writes the
// method of each message to the file `log`.

import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const directory = process.argv[2];
const file = (name) => join(directory, name);
const texts = new Map();

function send(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }));
    process.stdout.write(`Content-Length: ${body.length}\r\n\r\n`);
    process.stdout.write(body);
}

const held = new Map();

// Calls ACTION, after those before it, once what belongs to NAME is not held any more.
function whenReleased(name, action) {
    if (held.has(name)) {
        held.get(name).push(action);
    } else if (existsSync(file(`hold-${name}`))) {
        held.set(name, [action]);
        const poll = setInterval(() => {
            if (existsSync(file(`hold-${name}`))) return;
            clearInterval(poll);
            const actions = held.get(name);
            held.delete(name);
            actions.forEach((act) => act());
        }, 10);
    } else {
        action();
    }
}

function publish(uri) {
    const { text, version } = texts.get(uri);
    const diagnostics = [];
    text.split('\n').forEach((line, number) => {
        for (const [word, severity] of [['bad', 1], ['doubtful', 2]]) {
            const character = line.indexOf(word);
            if (character < 0) continue;
            diagnostics.push({
                range: {
                    start: { line: number, character },
                    end: { line: number, character: character + word.length },
                },
                severity,
                source: 'fake',
                message: `${word} line:\n${line}`,
            });
        }
    });
    const named = existsSync(file('versions')) ? { version } : {};
    whenReleased('publish', () => send({
        method: 'textDocument/publishDiagnostics', params: { uri, diagnostics, ...named },
    }));
}

function wordAt({ textDocument, position }) {
    const line = texts.get(textDocument.uri).text.split('\n')[position.line] ?? '';
    const before = line.slice(0, position.character).match(/\w*$/)[0];
    return before + line.slice(position.character).match(/^\w*/)[0];
}

function places(params, pattern) {
    const found = [];
    for (const [uri, { text }] of texts) {
        text.split('\n').forEach((line, number) => {
            const character = line.search(pattern(wordAt(params)));
            if (character < 0) return;
            found.push({ uri, range: {
                start: { line: number, character }, end: { line: number, character: character + 1 },
            } });
        });
    }
    const more = file('locations.json');
    return existsSync(more) ? found.concat(JSON.parse(readFileSync(more, 'utf8'))) : found;
}

const requests = {
    initialize: () => ({ capabilities: {
        textDocumentSync: 1, definitionProvider: true, referencesProvider: true, hoverProvider: true,
    } }),
    shutdown: () => null,
    'textDocument/definition': (params) => places(params, (word) => new RegExp(`def ${word}\\b`)),
    'textDocument/references': (params) => places(params, (word) => new RegExp(`\\b${word}\\b`)),
    'textDocument/hover': (params) => {
        const word = wordAt(params);
        return word ? { contents: { kind: 'markdown', value: `**${word}**: a word` } } : null;
    },
};

function handle({ id, method, params }) {
    appendFileSync(file('log'), `${method}\n`);
    if (id !== undefined && existsSync(file('die'))) process.exit(1);
    if (method === 'exit') process.exit(0);
    if (method === 'textDocument/didOpen') {
        const { uri, text, version } = params.textDocument;
        texts.set(uri, { text, version });
        publish(uri);
    } else if (method === 'textDocument/didChange') {
        const { uri, version } = params.textDocument;
        texts.set(uri, { text: params.contentChanges[0].text, version });
        publish(uri);
    } else if (id !== undefined) {
        const answer = requests[method];
        const name = method.split('/').pop();
        if (!answer) send({ id, error: { code: -32601, message: `no method ${method}` } });
        else whenReleased(name, () => send({ id, result: answer(params) }));
    }
}

let input = Buffer.alloc(0);
process.stdin.on('data', (bytes) => {
    input = Buffer.concat([input, bytes]);
    for (;;) {
        const end = input.indexOf('\r\n\r\n');
        if (end < 0) return;
        const length = Number(/Content-Length: (\d+)/i.exec(input.toString('latin1', 0, end))[1]);
        if (input.length < end + 4 + length) return;
        const body = input.toString('utf8', end + 4, end + 4 + length);
        input = input.subarray(end + 4 + length);
        handle(JSON.parse(body));
    }
});
process.stdin.on('end', () => process.exit(0));
