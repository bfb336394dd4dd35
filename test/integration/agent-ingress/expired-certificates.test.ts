// Connections of the data path that are open when a certificate of theirs expires: nothing new goes over them, what runs ends, and
// what does not end is cut. Certificates that last seconds stand for those that last days.
import { once } from "node:events";
import { connect, type TLSSocket } from "node:tls";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Dial } from "../../../control-plane/fleet/dial.ts";
import { createUpstreams } from "../../../control-plane/inference/upstreams.ts";
import { FrameSocket, frameKind, readFields, sharedProtocol, withFields } from "../../../proto/frames.ts";
import type { HostId } from "../../../proto/ids.ts";
import { signTicket } from "../../../proto/ticket.ts";
import { type DataPath, startDataPath, ticketFor, ticketKey } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { gatewayCertificate, hostCertificate, newAuthority } from "../../fakes/peers.ts";
import { ask, type ChangingTls, changingTls, dialWith } from "../../fakes/secure-data-path.ts";
import { startTcpLink, type TcpLink } from "../../fakes/tcp-link.ts";

/** Time enough for a slow machine to open what a test opens. */
const lifeMs = 6_000;
const waiting = { timeout: 60_000, interval: 100 };
const hostId = "host000000000001" as HostId;
const authority = newAuthority();
const gateway = dialWith(gatewayCertificate(authority));

let engine: FakeEngine;
let tls: ChangingTls;
let ends: (() => Promise<unknown> | unknown)[] = [];
/** Answers of the engine are held until it is called. */
let release = () => {};

beforeEach(async () => {
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  engine = await startFakeEngine({ tokens: 5 });
  ends.push(() => engine.close());
  engine.behave({ until: held });
});
afterEach(async () => {
  release();
  for (const end of ends.reverse()) await end();
  ends = [];
});

/** Its certificate is about to expire. */
async function dataPath(limits: Parameters<typeof startDataPath>[1] = {}): Promise<DataPath> {
  tls = changingTls(hostCertificate(authority, hostId, Date.now() + lifeMs));
  const path = await startDataPath(engine.origin, { tls, ...limits });
  ends.push(() => path.close());
  return path;
}

/** As the gateway asks, with the connections that it opens. */
async function asking(port: number, expiredEndMs?: number) {
  const link: TcpLink = await startTcpLink(port);
  const seen = { dials: 0 };
  const dial: Dial = (to) => {
    seen.dials += 1;
    return gateway(to);
  };
  const upstreams = createUpstreams(dial, expiredEndMs);
  ends.push(
    () => link.close(),
    () => upstreams.close(),
  );
  const to = { hostId, origin: `https://127.0.0.1:${link.port}` };
  return { link, seen, ask: () => ask(upstreams, to) };
}

/** A gateway that stays on its connection. */
async function staying(port: number) {
  const { secureContext } = gateway({ hostId, origin: "https://a" });
  const socket: TLSSocket = connect({ host: "127.0.0.1", port, secureContext, rejectUnauthorized: false });
  ends.push(() => socket.destroy());
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  return socket;
}

async function frames(port: number) {
  const socket = await staying(port);
  socket.write(`GET /frames HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: ${sharedProtocol}\r\n\r\n`);
  const [head] = await once(socket, "data");
  expect(String(head)).toMatch(/^HTTP\/1.1 101 /);
  const answers = new Map<number, { status: string; text: string; isWhole: boolean }>();
  const seen = { isClosed: false };
  const all = new FrameSocket(socket, Buffer.alloc(0), {
    frame(kind, stream, payload) {
      const known = answers.get(stream) ?? { status: "", text: "", isWhole: false };
      answers.set(stream, known);
      if (kind === frameKind.head || kind === frameKind.whole) known.status = readFields(payload).fields[0] ?? "";
      known.text += payload;
      known.isWhole ||= kind === frameKind.end || kind === frameKind.whole;
    },
    drained() {},
    closed() {
      seen.isClosed = true;
    },
  });
  const send = (stream: number) => {
    const ticket = ticketFor();
    const body = JSON.stringify({ model: ticket.model, messages: [{ role: "user", content: "one" }], stream: true });
    const path = `/i/${ticket.instanceId}/v1/chat/completions`;
    const fields = [path, "application/json", signTicket(ticket, ticketKey)];
    all.send(frameKind.wholeRequest, stream, withFields(fields, Buffer.from(body)));
  };
  return { answers, seen, send };
}

it("a gateway goes to a new connection with the next request, and the old one ends with what runs on it", async () => {
  const path = await dataPath();
  const { link, seen, ask } = await asking(path.port);
  const running = ask();
  await vi.waitFor(() => expect(engine.running).toBe(1), waiting);
  engine.behave({ until: undefined });
  expect(await ask()).toMatchObject({ status: 200 });
  expect(seen.dials).toBe(1);
  tls.show(hostCertificate(authority, hostId));
  await vi.waitFor(async () => {
    expect(await ask()).toMatchObject({ status: 200 });
    expect(seen.dials).toBe(2);
  }, waiting);
  expect(link.open).toBe(2);
  release();
  const { status, text } = await running;
  expect([status, text.slice(-14)]).toEqual([200, "data: [DONE]\n\n"]);
  await vi.waitFor(() => expect(link.open).toBe(1), waiting);
  expect(await ask()).toMatchObject({ status: 200 });
  expect(seen.dials).toBe(2);
});

it("a gateway cuts what outlives it for too long", async () => {
  const path = await dataPath();
  const { ask } = await asking(path.port, 0);
  await expect(ask()).rejects.toThrow("outlived its certificate");
});

it("an agent refuses what a gateway sends over it then, ends what runs, and closes", async () => {
  const path = await dataPath({ limits: { expiredPatienceMs: 0 } });
  const { answers, seen, send } = await frames(path.port);
  send(1);
  await vi.waitFor(() => expect(engine.running).toBe(1), waiting);
  let stream = 1;
  engine.behave({ until: undefined });
  await vi.waitFor(() => {
    stream += 1;
    send(stream);
    expect([...answers.values()].map(({ status }) => status)).toContain("503");
  }, waiting);
  const refused = [...answers.values()].filter(({ status }) => status === "503");
  expect(refused[0]?.text).toMatch(/x-stoker-refusal\ndraining[\s\S]*a certificate of this connection has expired/);
  expect(seen.isClosed).toBe(false);
  release();
  await vi.waitFor(() => expect(seen.isClosed).toBe(true), waiting);
  expect(answers.get(1)).toMatchObject({ status: "200", isWhole: true });
});

it("an agent cuts what outlives it for too long", async () => {
  const path = await dataPath({ limits: { expiredPatienceMs: 0, expiredEndMs: 0 } });
  const { answers, seen, send } = await frames(path.port);
  send(1);
  await vi.waitFor(() => expect(seen.isClosed).toBe(true), waiting);
  expect(answers.get(1)).toBeUndefined();
  await vi.waitFor(() => expect(engine.log.map(({ end }) => end)).toEqual(["aborted"]), waiting);
});

it("an agent ends a kept connection with the first request that comes too late", async () => {
  const path = await dataPath({ limits: { expiredPatienceMs: 0 } });
  const socket = await staying(path.port);
  let heard = "";
  let isClosed = false;
  socket.on("data", (bytes) => {
    heard += bytes;
  });
  socket.once("close", () => {
    isClosed = true;
  });
  await vi.waitFor(() => {
    if (!isClosed) socket.write("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    expect(isClosed).toBe(true);
  }, waiting);
  expect(heard).toMatch(/^HTTP\/1.1 200 [\s\S]*HTTP\/1.1 503 [\s\S]*connection: close[\s\S]*expired/i);
});
