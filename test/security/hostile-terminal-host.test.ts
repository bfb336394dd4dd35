// A compromised host at the end of a terminal: what it sends costs the control plane no more than a window, whatever the client does.
import { once } from "node:events";
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { joinTerminal } from "../../control-plane/http/terminals/join-terminal.ts";
import { dataFrames, maxTerminalBytes, terminalWindow } from "../../proto/terminal-tunnel.ts";

const waiting = { timeout: 30_000, interval: 20 };
const portOf = (server: Server | WebSocketServer) => (server.address() as AddressInfo).port;

let hosts: Server;
let edge: WebSocketServer;
/** Ends of one terminal: the host's connection, the control plane's two, and the client's. */
let host: Socket;
let tunnel: Socket;
let served: WebSocket;
let client: WebSocket;
let received: number[];
let lost: unknown[];

beforeEach(async () => {
  received = [];
  // Connections of the test before may still be closing.
  const reports: unknown[] = [];
  lost = reports;
  hosts = createServer().listen(0, "127.0.0.1");
  edge = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
  await Promise.all([once(hosts, "listening"), once(edge, "listening")]);
  client = new WebSocket(`ws://127.0.0.1:${portOf(edge)}`, { perMessageDeflate: false });
  client.on("message", (data: Buffer) => received.push(data.length));
  const opened = once(client, "open");
  [served] = await once(edge, "connection");
  await opened;
  const reached = once(hosts, "connection");
  tunnel = dial(portOf(hosts), "127.0.0.1");
  [host] = await reached;
  host.on("error", () => {});
  joinTerminal(served, tunnel, {
    active() {},
    exited() {},
    lost: (error) => void reports.push(error),
    invalid: () => void reports.push(new Error("invalid message")),
  });
});

afterEach(() => {
  client.terminate();
  served.terminate();
  for (const socket of [host, tunnel]) socket.destroy();
  hosts.close();
  edge.close();
});

/** Sends the piece without end, as fast as the connection takes it. */
function flood(piece: Buffer): void {
  const send = () => {
    while (!host.destroyed && host.write(piece));
  };
  host.on("drain", send);
  send();
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);

it("loses its terminal when it sends frames without bytes", async () => {
  flood(Buffer.alloc(60_000));
  await vi.waitFor(() => expect(lost).toHaveLength(1), waiting);
  expect(String(lost[0])).toContain("invalid frame");
  expect(tunnel.destroyed).toBe(true);
});

it("is held back when it sends frames of one byte that the client does not confirm", async () => {
  flood(Buffer.concat(Array(16_000).fill(dataFrames(Buffer.from("x")))));
  await vi.waitFor(() => expect(tunnel.isPaused()).toBe(true), waiting);
  const asked = once(client, "pong");
  client.ping();
  await asked;
  // Each chunk of the connection is one message, and few chunks fill the window.
  expect(received.length).toBeLessThan(8);
  expect(sum(received)).toBeLessThan(128 * 1024);
  client.send(JSON.stringify({ type: "read", bytes: sum(received) }));
  const before = sum(received);
  await vi.waitFor(() => expect(sum(received)).toBeGreaterThan(before), waiting);
  expect(lost).toEqual([]);
});

it("is held back while the client confirms output without reading it", async () => {
  const frame = dataFrames(Buffer.alloc(maxTerminalBytes, "x"));
  const maxFrames = 2_000;
  let frames = 0;
  client.pause();
  const confirmed = () => new Promise<void>((resolve) => served.once("message", () => resolve()));
  for (; frames < maxFrames && !tunnel.isPaused(); frames += 1) {
    const processed = new Promise<void>((resolve) => {
      let left = frame.length;
      const count = (chunk: Buffer) => {
        left -= chunk.length;
        if (left > 0) return;
        tunnel.off("data", count);
        resolve();
      };
      tunnel.on("data", count);
    });
    host.write(frame);
    await processed;
    const known = confirmed();
    client.send(JSON.stringify({ type: "read", bytes: maxTerminalBytes }));
    await known;
  }
  expect(frames).toBeLessThan(maxFrames);
  expect(served.bufferedAmount).toBeLessThan(terminalWindow + 2 * maxTerminalBytes);
  client.resume();
  await vi.waitFor(() => expect(sum(received)).toBe(frames * maxTerminalBytes), waiting);
  expect(tunnel.isPaused()).toBe(false);
  expect(lost).toEqual([]);
});
