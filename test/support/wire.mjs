// A wire to another machine, which can be cut, mended, broken and made slow.
//
//   node wire.mjs HOST PORT
//
// Listens on 127.0.0.1, forwards connections to HOST and PORT, and says where it listens in its first
// line on stdout ({"event": "listening", "port": N}).  One command per line on stdin, each answered by a
// line on stdout that has the name of the command as its "event":
//
//   {"command": "cut"}             nothing arrives any more on either side, and nobody is told
//   {"command": "mend"}            things arrive again, first those that were sent meanwhile
//   {"command": "delay", "ms": N}  a round trip takes N ms from now on
//   {"command": "break"}           all connections are closed

import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';

const [host, port] = process.argv.slice(2);
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

// What one direction of a connection may hold; as with a real wire, the sender then waits.
const WINDOW = 1024 * 1024;

let isCut = false;
let roundTrip = 0;
const ways = new Set();
const sockets = new Set();

// What travels in one direction, and arrives in order.
class Way {
  #queue = [];
  #timer;

  constructor() {
    ways.add(this);
  }

  send(action, trips = 0.5) {
    this.#queue.push({ due: Date.now() + roundTrip * trips, action });
    this.arrive();
  }

  arrive() {
    clearTimeout(this.#timer);
    while (!isCut && this.#queue.length > 0) {
      const wait = this.#queue[0].due - Date.now();
      if (wait > 0) {
        this.#timer = setTimeout(() => this.arrive(), wait);
        return;
      }
      this.#queue.shift().action();
    }
  }
}

function carry(from, to, way) {
  let held = 0;
  const release = (size) => {
    held -= size;
    if (held < WINDOW) from.resume();
  };
  from.on('data', (chunk) => {
    held += chunk.length;
    if (held >= WINDOW) from.pause();
    way.send(() => to.write(chunk, () => release(chunk.length)));
  });
  from.on('end', () => way.send(() => to.end()));
  from.on('close', () => way.send(() => {
    to.destroy();
    ways.delete(way);
  }));
  sockets.add(from);
  from.on('close', () => sockets.delete(from));
}

const server = createServer({ allowHalfOpen: true }, (near) => {
  const there = new Way();
  near.pause();
  near.setNoDelay(true);
  near.on('error', () => {}); // it is closed then
  // A connection takes a round trip to be made.
  there.send(() => {
    if (near.destroyed) return;
    const far = connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true });
    far.on('error', () => {});
    carry(near, far, there);
    carry(far, near, new Way());
    near.resume();
  }, 1);
});

const commands = {
  cut() {
    isCut = true;
  },
  mend() {
    isCut = false;
    for (const way of ways) way.arrive();
  },
  delay({ ms }) {
    roundTrip = ms;
  },
  break() {
    for (const socket of sockets) socket.destroy();
  },
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const order = JSON.parse(line);
  commands[order.command](order);
  say({ event: order.command });
}).on('close', () => process.exit());

server.listen(0, '127.0.0.1', () => say({ event: 'listening', port: server.address().port }));
