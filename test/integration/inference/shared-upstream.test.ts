// The gateway's end of a shared connection against peers that misbehave.
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterEach, expect, it, vi } from "vitest";
import type { UpstreamListener } from "../../../control-plane/inference/upstream-call.ts";
import { createUpstreams } from "../../../control-plane/inference/upstreams.ts";
import { frameKind, sharedProtocol, withFields } from "../../../proto/frames.ts";
import type { HostId } from "../../../proto/ids.ts";
import { plainDial } from "../../fakes/peers.ts";

const ends: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Accepts the upgrade and then leaves the socket to `then`. */
async function startPeer(then: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${sharedProtocol}\r\n\r\n`);
      then(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function listen() {
  const errors: { readonly wasSent: boolean; readonly message: string }[] = [];
  const seen = { starts: 0, heads: [] as number[] };
  const listener: UpstreamListener = {
    onRequestStart: () => void seen.starts++,
    onResponseStart: (_, status) => void seen.heads.push(status),
    onResponseData() {},
    onResponseEnd() {},
    onResponseError: (call, error) => void errors.push({ wasSent: call !== undefined, message: error.message }),
  };
  return { errors, seen, listener };
}

function upstreams() {
  const all = createUpstreams(plainDial);
  ends.push(() => all.close());
  return all;
}

const to = (origin: string) => ({ origin, hostId: "host-1" as HostId });
const request = (body: Buffer) => ({ path: "/i/one/v1/completions", ticket: "ticket", body });

function frame(kind: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUInt32BE(payload.length, 0);
  head.writeUInt32BE(stream, 4);
  head[8] = kind;
  return Buffer.concat([head, payload]);
}

it("ends the one connection, and nothing else, for an answer without a status", async () => {
  const origin = await startPeer((socket) => {
    socket.once("data", () => socket.write(frame(frameKind.whole, 1, withFields(["2x0"], Buffer.from("{}")))));
  });
  const { errors, seen, listener } = listen();
  upstreams().send(to(origin), request(Buffer.from("{}")), listener);
  await vi.waitFor(() => expect(errors).toHaveLength(1), { timeout: 10_000 });
  expect(errors[0]).toEqual({ wasSent: true, message: "a response without a status" });
  expect(seen.heads).toEqual([]);
});

it("holds no more for an agent that does not read than its bound, and says so to the rest", async () => {
  const origin = await startPeer((socket) => socket.pause());
  const all = upstreams();
  const { errors, seen, listener } = listen();
  const body = Buffer.alloc(10 * 1024 * 1024, 32);
  all.send(to(origin), request(Buffer.from("{}")), listener);
  await vi.waitFor(() => expect(seen.starts).toBe(1), { timeout: 10_000 });
  for (let i = 0; i < 40; i++) all.send(to(origin), request(body), listener);
  expect(errors.length).toBeGreaterThanOrEqual(12);
  expect(errors.every((error) => !error.wasSent && error.message.includes("too much is waiting"))).toBe(true);
});
