// What a backup froze and the engine did not wake, at an engine of which only the answers that matter are there.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createFreezer } from "../../../agent/docker/freeze.ts";

const patient = { timeout: 20_000, interval: 20 };
const long = () => AbortSignal.timeout(60_000);

let folder: string;
let engine: Server;
let socketPath: string;
let states: Map<string, string>;
/** How it takes what it is asked to wake. */
let waking: "well" | "refuses" | "hangs" | "is gone";
let listing: "well" | "refuses";
let asked: string[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-engine-"));
  socketPath = join(folder, "engine.sock");
  states = new Map([
    ["c1", "running"],
    ["c2", "running"],
  ]);
  waking = "well";
  listing = "well";
  asked = [];
  engine = createServer((req, res) => {
    const url = new URL(req.url ?? "", "http://engine");
    const path = url.pathname.replace(/^\/v[\d.]+/, "");
    const refuse = (status: number, message: string) => res.writeHead(status).end(JSON.stringify({ message }));
    res.setHeader("content-type", "application/json");
    if (path === "/version") return void res.end('{"ApiVersion":"1.41"}');
    if (path === "/containers/json") {
      if (listing === "refuses") return void refuse(500, "the engine is busy");
      const { status } = JSON.parse(url.searchParams.get("filters") ?? "{}");
      const found = [...states].filter(([, state]) => status.includes(state)).map(([Id]) => ({ Id }));
      return void res.end(JSON.stringify(found));
    }
    const [, , id = "", verb = ""] = path.split("/");
    asked.push(`${verb} ${id}`);
    if (verb === "unpause" && waking === "hangs") return;
    if (verb === "unpause" && waking === "refuses") return void refuse(500, "cannot unpause: the engine is busy");
    if (verb === "unpause" && waking === "is gone") return void refuse(404, "No such container");
    states.set(id, verb === "pause" ? "paused" : "running");
    res.writeHead(204).end();
  });
  engine.listen(socketPath);
  await once(engine, "listening");
});

afterEach(() => {
  engine.closeAllConnections();
  engine.close();
  rmSync(folder, { recursive: true, force: true });
});

const freezer = (thawLimitMs = 30_000) =>
  createFreezer({ nodeName: "node", log: pino({ level: "silent" }), socketPath, thawLimitMs });

it("a container that was not woken after the copy is tried again until it is; the copy is done all the same", async () => {
  const made = freezer();
  waking = "refuses";
  await expect(made.frozen("d", async () => "copied", long())).resolves.toBe("copied");
  expect([...states.values()]).toEqual(["paused", "paused"]);
  await made.wakeLeft();
  expect([...states.values()]).toEqual(["paused", "paused"]);
  waking = "well";
  await made.wakeLeft();
  expect([...states.values()]).toEqual(["running", "running"]);
  const before = asked.length;
  await made.wakeLeft();
  expect(asked).toHaveLength(before);
});

it("an engine that does not answer costs a try its bound, and the next one wakes it", async () => {
  const made = freezer(300);
  waking = "hangs";
  await made.frozen("d", async () => {}, long());
  waking = "well";
  await made.wakeLeft();
  expect([...states.values()]).toEqual(["running", "running"]);
});

it("one that was removed is not asked for again", async () => {
  const made = freezer();
  waking = "refuses";
  await made.frozen("d", async () => {}, long());
  waking = "is gone";
  await made.wakeLeft();
  const before = asked.length;
  await made.wakeLeft();
  expect(asked).toHaveLength(before);
});

it("one that still stands still is not woken while another copy of it is made, and is afterwards", async () => {
  const made = freezer();
  waking = "refuses";
  await made.frozen("d", async () => {}, long());
  waking = "well";
  const held = Promise.withResolvers<void>();
  let isCopying = false;
  const second = made.frozen(
    "d",
    async () => {
      isCopying = true;
      await held.promise;
    },
    long(),
  );
  await vi.waitFor(() => expect(isCopying).toBe(true), patient);
  await made.wakeLeft();
  expect([...states.values()]).toEqual(["paused", "paused"]);
  held.resolve();
  await second;
  expect([...states.values()]).toEqual(["running", "running"]);
});

it("what an earlier life left asleep is woken later where the engine could not be asked at the start", async () => {
  const made = freezer();
  states.set("c1", "paused");
  listing = "refuses";
  await expect(made.thawAll(long())).rejects.toThrow("busy");
  await made.wakeLeft();
  expect(states.get("c1")).toBe("paused");
  listing = "well";
  await made.wakeLeft();
  expect(states.get("c1")).toBe("running");
});
