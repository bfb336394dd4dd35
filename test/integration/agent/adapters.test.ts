// LoRA adapters at one host: real files, and an engine that speaks the paths of its own server.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createAdapterFiles } from "../../../agent/adapters/adapter-files.ts";
import { Adapters } from "../../../agent/adapters/adapters.ts";
import { completeDesired } from "../../../agent/session/wire.ts";
import type { InstanceId } from "../../../proto/ids.ts";
import { imageAdapter } from "../../fakes/image-adapter.ts";
import { instanceSpec } from "../../fakes/instance-spec.ts";

const wait = { timeout: 20_000, interval: 20 };
const { deployId } = instanceSpec();
const instance = instanceSpec().instanceId as InstanceId;
let folder: string;
let server: Server;
let held: Map<string, string>;
let calls: string[];
/** Of the next loads. */
let refusal: { status: number; text: string } | undefined;
let commits: Map<string, string>;
/** What the next loads wait for before the engine holds anything. */
let gate: Promise<void>;
let unloadsToRefuse: number;
let lists: number;
let adapters: Adapters;
let ending: AbortController;
let running: Promise<void>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-adapters-"));
  [held, calls, refusal, commits] = [new Map(), [], undefined, new Map()];
  [gate, unloadsToRefuse, lists] = [Promise.resolve(), 0, 0];
  server = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    if (request.url === "/v1/models") {
      lists += 1;
      const data = [{ id: "owner/model" }, ...[...held.keys()].map((id) => ({ id, parent: "owner/model" }))];
      return void response.end(JSON.stringify({ data }));
    }
    const { lora_name: name, lora_path: path } = JSON.parse(text);
    calls.push(`${request.url} ${name}`);
    if (refusal && request.url === "/v1/load_lora_adapter")
      return void response.writeHead(refusal.status).end(refusal.text);
    if (request.url === "/v1/load_lora_adapter") {
      await gate;
      if (held.has(name)) return void response.writeHead(400).end(`${name} has already been loaded`);
      held.set(name, readdirSync(path).sort().join());
    } else if (unloadsToRefuse > 0) {
      unloadsToRefuse -= 1;
      return void response.writeHead(500).end("not now");
    } else held.delete(name);
    response.end("Success");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  begin();
});
afterEach(async () => {
  await end();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

function begin(): void {
  ending = new AbortController();
  adapters = new Adapters({
    ensure: async ({ repo = "", url = "" }) => ({
      modelPath: url === "" ? fetched(repo) : imageFile(url),
      commit: commits.get(repo) ?? "",
    }),
    files: createAdapterFiles(join(folder, "shown"), false),
    onNews: () => {},
    clock: () => performance.now(),
    leaveMs: 0,
    retryMs: 50,
    log: pino({ level: "silent" }),
  });
  running = adapters.run(ending.signal);
}

async function end(): Promise<void> {
  ending.abort();
  await running;
}

/** The repository's name says what lies in it. */
function fetched(repo: string): string {
  if (repo === "ada/nothing")
    throw Object.assign(new Error("there is none"), { code: "hub_missing", retryable: false });
  const path = join(folder, repo.replace("/", "--"));
  mkdirSync(path, { recursive: true });
  const r = repo === "ada/large" ? 512 : 8;
  writeFileSync(join(path, "adapter_config.json"), JSON.stringify({ peft_type: "LORA", r }));
  for (const name of ["adapter_model.safetensors", "more.json"]) writeFileSync(join(path, name), "{}");
  return path;
}

/** As the cache has an adapter from a URL; its path is what lies there. */
function imageFile(url: string): string {
  const { pathname } = new URL(url);
  const own = join(folder, "urls", pathname);
  mkdirSync(own, { recursive: true });
  const path = join(own, "adapter_model.safetensors");
  writeFileSync(path, pathname === "/lora" ? imageAdapter("kohya") : "<!doctype html>");
  return path;
}

function want(ids: readonly string[], over: Parameters<typeof instanceSpec>[0] = {}, revision = "main"): void {
  const list = ids.map((id) => ({ id, weights: { repo: `ada/${id}`, revision, format: "lora" } }));
  adapters.setDesired(completeDesired({ instances: [{ ...instanceSpec(over), adapters: list }] }));
}

function serve(identity = "100@boot:1", ready = true): void {
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const target = { instanceId: instance, deployId: deployId as never, origin, identity, maxBatchSize: 4, ready };
  adapters.setTargets([{ ...target, draining: false }]);
}
const phases = () => Object.fromEntries(adapters.report(instance).map(({ id, phase }) => [id, phase]));

it("are loaded once the engine is ready, with their two files and no other, and told as ready then", async () => {
  want(["ink", "tale"]);
  serve("100@boot:1", false);
  expect(phases()).toEqual({});
  serve();
  await vi.waitFor(() => expect(phases()).toEqual({ ink: "ready", tale: "ready" }), wait);
  expect(held.get("ink")).toBe("adapter_config.json,adapter_model.safetensors");
});

it("are not told any more before they are unloaded, and their files go", async () => {
  want(["ink", "tale"]);
  serve();
  await vi.waitFor(() => expect(phases()).toEqual({ ink: "ready", tale: "ready" }), wait);
  want(["tale"]);
  await vi.waitFor(() => expect([...held.keys()]).toEqual(["tale"]), wait);
  expect(phases()).toEqual({ tale: "ready" });
  await vi.waitFor(() => expect(readdirSync(join(folder, "shown", instance))).toEqual(["tale"]), wait);
});

it("are loaded again into an engine that was restarted", async () => {
  want(["ink"]);
  serve();
  await vi.waitFor(() => expect(phases()).toEqual({ ink: "ready" }), wait);
  held.clear();
  serve("200@boot:1");
  await vi.waitFor(() => expect(calls).toHaveLength(2), wait);
  await vi.waitFor(() => expect(phases()).toEqual({ ink: "ready" }), wait);
});

it("are found where an agent before this one loaded them, and those that nobody wants any more go", async () => {
  want(["ink", "tale"]);
  serve();
  await vi.waitFor(() => expect(phases()).toEqual({ ink: "ready", tale: "ready" }), wait);
  await end();
  begin();
  want(["ink"]);
  serve();
  await vi.waitFor(() => expect([...held.keys()]).toEqual(["ink"]), wait);
  await vi.waitFor(() => expect(phases()).toEqual({ ink: "ready" }), wait);
  expect(calls.filter((call) => call === "/v1/load_lora_adapter ink")).toHaveLength(1);
});

it("keep their commit for the agent after this one, unless their engine is another by then", async () => {
  const [first, second] = ["a".repeat(40), "b".repeat(40)];
  commits.set("ada/ink", first);
  want(["ink"]);
  serve();
  const told = (commit: string) => expect(adapters.report(instance)).toEqual([{ id: "ink", phase: "ready", commit }]);
  await vi.waitFor(() => told(first), wait);
  await end();
  begin();
  // As the set of all instances has it meanwhile: what is held is that, so nothing is loaded again.
  want(["ink"], {}, first);
  serve();
  await vi.waitFor(() => told(first), wait);
  expect(calls).toEqual(["/v1/load_lora_adapter ink"]);
  await end();
  begin();
  commits.set("ada/ink", second);
  want(["ink"], {}, second);
  serve();
  await vi.waitFor(() => told(second), wait);
  await end();
  begin();
  want(["ink"]);
  serve("another engine of this name");
  await vi.waitFor(() => told(""), wait);
});

it("are refused for good with the reason: a rank too high, no repository, an engine that says no or takes none", async () => {
  refusal = { status: 400, text: "this adapter cannot be loaded: wrong shapes" };
  want(["large", "nothing", "ink"]);
  serve();
  const failed = (id: string, failCode: string, text: RegExp) =>
    expect.objectContaining({ id, phase: "failed", failCode, failMessage: expect.stringMatching(text), isFinal: true });
  await vi.waitFor(
    () =>
      expect([...adapters.report(instance)].sort((a, b) => ((a.id ?? "") < (b.id ?? "") ? -1 : 1))).toEqual([
        failed("ink", "adapter_load_failed", /wrong shapes/),
        failed("large", "adapter_refused", /rank 512/),
        failed("nothing", "hub_missing", /there is none/),
      ]),
    wait,
  );
  want(["ink"], { engine: "sglang" });
  serve("300@boot:1");
  await vi.waitFor(
    () => expect(adapters.report(instance)).toEqual([failed("ink", "adapter_unsupported", /takes no adapters/)]),
    wait,
  );
});

it("are tried again where the engine has no room for them yet", async () => {
  refusal = { status: 503, text: JSON.stringify({ error: { code: "adapter_no_room" } }) };
  want(["ink"]);
  serve();
  const told = () => adapters.report(instance)[0];
  await vi.waitFor(() => expect(told()).toMatchObject({ failCode: "adapter_no_room", isFinal: false }), wait);
  refusal = undefined;
  await vi.waitFor(() => expect(phases()).toEqual({ ink: "ready" }), wait);
});

it("are loaded anew where all instances are to hold another commit than the one that came, and then left alone", async () => {
  const [first, second] = ["a".repeat(40), "b".repeat(40)];
  commits.set("ada/ink", first);
  want(["ink"]);
  serve();
  const held = (commit: string) => expect(adapters.report(instance)).toEqual([{ id: "ink", phase: "ready", commit }]);
  await vi.waitFor(() => held(first), wait);
  want(["ink"], {}, first);
  commits.set("ada/ink", second);
  want(["ink"], {}, second);
  await vi.waitFor(() => held(second), wait);
  const loads = ["load", "unload", "load"].map((verb) => `/v1/${verb}_lora_adapter ink`);
  expect(calls).toEqual(loads);
});

it("dropped while the engine loads them leave it once it has", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  gate = promise;
  want(["ink"]);
  serve();
  await vi.waitFor(() => expect(calls).toEqual(["/v1/load_lora_adapter ink"]), wait);
  want(["tale"]);
  // By the look that drops the other.
  await vi.waitFor(() => expect(phases()).toHaveProperty("tale"), wait);
  resolve();
  await vi.waitFor(() => expect([...held.keys()]).toEqual(["tale"]), wait);
  // The engine holds it a moment before its answer is heard.
  await vi.waitFor(() => expect(phases()).toEqual({ tale: "ready" }), wait);
  expect(calls).toContain("/v1/unload_lora_adapter ink");
});

it("are loaded anew as the commit that is wanted also where the engine failed to unload the other, or held it already", async () => {
  const [first, second] = ["a".repeat(40), "b".repeat(40)];
  commits.set("ada/ink", first);
  want([]);
  serve();
  await vi.waitFor(() => expect(lists).toBe(1), wait);
  held.set("ink", "of whichever commit");
  want(["ink"], {}, first);
  const told = (commit: string) => expect(adapters.report(instance)).toEqual([{ id: "ink", phase: "ready", commit }]);
  await vi.waitFor(() => told(first), wait);
  expect(held.get("ink")).toBe("adapter_config.json,adapter_model.safetensors");
  unloadsToRefuse = 1;
  commits.set("ada/ink", second);
  want(["ink"], {}, second);
  await vi.waitFor(() => told(second), wait);
  const verbs = ["load", "unload", "load", "unload", "unload", "load"];
  expect(calls).toEqual(verbs.map((verb) => `/v1/${verb}_lora_adapter ink`));
});

it("of a picture model are one file, which must be a LoRA before the engine reads it", async () => {
  const from = (id: string) => ({
    id,
    weights: { url: `https://good.example/${id}?key=secret`, format: "image_lora" },
  });
  const spec = { ...instanceSpec({ task: "text-to-image" }), adapters: [from("lora"), from("page")] };
  adapters.setDesired(completeDesired({ instances: [spec] }));
  serve();
  await vi.waitFor(() => expect(phases()).toEqual({ lora: "ready", page: "failed" }), wait);
  expect(held.get("lora")).toBe("adapter_model.safetensors");
  const why = adapters.report(instance).find(({ id }) => id === "page")?.failMessage ?? "";
  expect(why).toMatch(/the adapter from good\.example is refused: it is no safetensors file/);
  expect(why).not.toMatch(/secret/);
});
