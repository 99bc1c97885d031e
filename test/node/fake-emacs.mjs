// What stands in for the Emacs of a relay: an HTTP server on a unix socket that knows sessions, event
// streams and reviews as the real one does, and whose connections a test can cut.

import http from 'node:http';
import { Changes } from './support.mjs';

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const failure = (reason) => ({ ...text(reason), isError: true });

class Session {
  // What is to be said, with numbers from 1.
  outbox = [];
  said = 0;
  stream = undefined;
  // Open reviews, and how the last of each file has ended.
  reviews = new Map();
  endings = new Map();
}

export class FakeEmacs extends Changes {
  // All requests that were taken, by what they are.
  requests = [];
  // What it was told of files and of ignore files.
  files = new Map();
  rules = [];
  // The proposals of all reviews that were opened since Emacs was started.
  opened = [];
  sessions = new Map();
  // Called with what is about to happen, a string; returns how to cut it, "before", "middle" or
  // "after", or "halt" if nothing more comes from the middle on, or undefined.
  cut = () => undefined;
  // Called with each review that is opened; whether there was one.
  shown = () => {};
  hasShown = false;
  // Whether it answers nothing any more.
  isSilent = false;
  // Whether a cut ends all connections, as that of ssh does, and Emacs, too.
  isWide = true;
  isDeadly = false;
  // Whether there was a cut.
  isCut = false;
  // Whether nothing listens after a cut, until `listen' is called.
  isGone = false;

  #sockets = new Set();
  #count = 0;

  constructor(t, socket) {
    super();
    this.socket = socket;
    this.server = http.createServer((request, response) => this.#serve(request, response));
    this.server.on('connection', (connection) => {
      this.#sockets.add(connection);
      connection.on('error', () => {}).on('close', () => this.#sockets.delete(connection));
    });
    t.after(() => this.close());
  }

  listen() {
    return new Promise((resolve) => { this.server.listen(this.socket, resolve); });
  }

  close() {
    this.server.close();
    this.endConnections();
  }

  endConnections() {
    for (const socket of this.#sockets) socket.destroy();
  }

  // Another Emacs takes the place of this one.
  restart() {
    this.sessions.clear();
    this.opened = [];
  }

  of(what) {
    return this.requests.filter((request) => request.what === what);
  }

  // The session in which FILE is reviewed.
  reviewer(file) {
    return [...this.sessions.values()].find((session) => session.reviews.has(file));
  }

  // ---- What its user does

  accept(file, content) {
    this.#settle(file, 'ide/diffAccepted', { content });
  }

  reject(file) {
    this.#settle(file, 'ide/diffRejected', {});
  }

  #settle(file, method, outcome) {
    const session = this.reviewer(file);
    if (!session) return;
    const { proposal } = session.reviews.get(file);
    session.reviews.delete(file);
    session.endings.set(file, { proposal, ...outcome });
    this.say(session, {
      jsonrpc: '2.0', method, params: { filePath: file, ...outcome, _meta: { proposal } },
    });
  }

  // ---- Event streams

  say(session, message) {
    const id = ++session.said;
    session.outbox.push({ id, message });
    this.#flush(session);
  }

  #flush(session) {
    const { stream } = session;
    if (!stream) return;
    for (const event of session.outbox.filter(({ id }) => id > stream.last)) {
      stream.last = event.id;
      const bytes = `id: ${event.id}\ndata: ${JSON.stringify(event.message)}\n\n`;
      const cut = this.cut('event');
      if (cut === 'before') return this.#end(stream.response.socket);
      const half = cut === 'middle' ? Math.floor(bytes.length / 2) : bytes.length;
      stream.response.write(bytes.slice(0, half), () => {
        if (cut) this.#end(stream.response.socket);
      });
      if (cut) return;
    }
  }

  #openStream(session, request, response) {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', Connection: 'close' });
    response.flushHeaders();
    const last = Number(request.headers['last-event-id'] ?? 0);
    session.outbox = session.outbox.filter(({ id }) => id > last);
    session.stream = { response, last };
    response.on('close', () => {
      if (session.stream?.response === response) session.stream = undefined;
    });
    this.#flush(session);
  }

  // ---- Requests

  #end(socket) {
    if (this.isDeadly) this.restart();
    if (this.isGone) this.server.close();
    if (this.isWide) this.endConnections();
    else socket.destroy();
    this.isCut = true;
    this.changed();
  }

  async #serve(request, response) {
    const chunks = [];
    try {
      for await (const chunk of request) chunks.push(chunk);
    } catch {
      return;
    }
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
    const what = body?.params?.name ?? body?.method ?? request.method;
    if (this.isSilent) return;
    const cut = this.cut(what);
    if (cut === 'before') return this.#end(request.socket);
    this.requests.push({ what, body, headers: request.headers });
    this.#answer(what, body, request, response, cut);
    this.changed();
  }

  #answer(what, body, request, response, cut) {
    const session = this.sessions.get(request.headers['mcp-session-id']);
    if (what !== 'initialize' && !session) {
      return this.#reply(response, cut, 404, undefined, {});
    }
    if (what === 'GET') {
      if (!cut) return this.#openStream(session, request, response);
      return this.#reply(response, cut, 200, undefined, { 'Content-Type': 'text/event-stream' });
    }
    if (what === 'DELETE') {
      this.sessions.delete(request.headers['mcp-session-id']);
      return this.#reply(response, cut, 200, undefined, {});
    }
    if (body.id === undefined) return this.#reply(response, cut, 202, undefined, {});
    const headers = { 'Content-Type': 'application/json' };
    let result;
    if (what === 'initialize') {
      headers['Mcp-Session-Id'] = `s${++this.#count}`;
      this.sessions.set(headers['Mcp-Session-Id'], new Session());
      result = { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: { name: 'emacs' } };
    } else {
      result = this.#call(session, what, body.params?.arguments ?? {});
    }
    this.#reply(response, cut, 200, { jsonrpc: '2.0', id: body.id, result }, headers);
  }

  // In the middle is in the body, or in the headers if there is none.
  #reply(response, cut, status, answer, headers) {
    const { socket } = response;
    const end = () => this.#end(socket);
    if (cut === 'after') return end();
    if (cut && !answer) return socket.write('HTTP/1.1 2', end);
    const bytes = answer ? JSON.stringify(answer) : '';
    response.writeHead(status, { ...headers, 'Content-Length': Buffer.byteLength(bytes) });
    const half = bytes.slice(0, bytes.length / 2);
    if (cut) response.write(half, cut === 'halt' ? undefined : end);
    else response.end(bytes);
  }

  #call(session, tool, args) {
    switch (tool) {
      case 'openDiff': return this.#open(session, args);
      case 'closeDiff': return this.#close(session, args);
      case 'fileWritten':
        this.files.set(args.filePath, args.current);
        return { content: [] };
      case 'ignoreRules':
        this.rules.push(args);
        return { content: [] };
      default: return { content: [] };
    }
  }

  #open(session, { filePath: file, newContent: content, proposal }) {
    const isKnown = [session.reviews, session.endings].some(
      (all) => all.get(file)?.proposal === proposal);
    if (isKnown) return { content: [] };
    session.endings.delete(file);
    session.reviews.set(file, { proposal, content });
    this.opened.push(proposal);
    // The user sees it when the request is answered, at the earliest.
    setImmediate(() => this.shown(file, session.reviews.get(file)));
    return { content: [] };
  }

  #close(session, { filePath: file, suppressNotification: isSilent }) {
    const review = session.reviews.get(file);
    if (review) {
      if (!isSilent) this.reject(file);
      session.reviews.delete(file);
      session.endings.set(file, { ...review });
    }
    const ending = session.endings.get(file);
    if (ending?.content === undefined) return failure('this diff is not open');
    return text(JSON.stringify({ content: ending.content }));
  }
}
