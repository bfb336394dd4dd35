// A second machine joins as its operator would: `stoker node token create` here, `stoker node join` there, all real processes.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { freePort } from "../../fakes/free-port.ts";
import { instancePids, isAlive, type Stack, startStack } from "../../fakes/processes.ts";

const patient = { timeout: 60_000, interval: 100 };
const cli = join(import.meta.dirname, "../../../cli/main.ts");
const model = "admin/tiny";
let stack: Stack;
let control: string;
let joined: ChildProcess[] = [];

beforeAll(async () => {
  stack = await startStack({ agents: 0 });
  const { rpc } = JSON.parse(readFileSync(join(stack.folder, "control-plane.json"), "utf8"));
  control = `127.0.0.1:${rpc}`;
}, 120_000);
afterEach(async () => {
  for (const child of joined) await ended(child, "SIGTERM");
  joined = [];
});
afterAll(() => stack?.stop());

function stoker(args: readonly string[], env: Record<string, string> = {}): ChildProcess {
  const asOperator = { STOKER_HOST: stack.url, STOKER_API_KEY: stack.apiKey };
  return spawn(process.execPath, [cli, ...args], { env: { ...process.env, ...asOperator, ...env } });
}

/** Nobody's credentials: the machine that joins has the token alone. */
function joins(
  token: string,
  data: string,
  name: string,
  advertise?: string,
): { readonly child: ChildProcess; readonly said: () => string } {
  const where = advertise === undefined ? [] : ["--advertise", advertise];
  const child = stoker(["node", "join", token, "--control", control, "--data", data, ...where], {
    STOKER_API_KEY: "",
    STOKER_NODE_NAME: name,
    STOKER_DRIVER: "process",
    STOKER_GPUS: "1",
    // As for a machine that others reach.
    STOKER_INGRESS_TLS: "on",
    STOKER_STOP_INSTANCES: "1",
    STOKER_MODELS_DIR: join(import.meta.dirname, "../../../.cache/models/store"),
    STOKER_RUNTIME_ENTRY: join(import.meta.dirname, "../../fakes/tiny-runtime.ts"),
  });
  joined.push(child);
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (bytes) => {
      said += bytes;
    });
  return { child, said: () => said };
}

function ended(child: ChildProcess, signal?: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  if (signal) child.kill(signal);
  return exited;
}

async function tokenOf(): Promise<string> {
  const child = stoker(["node", "token", "create", "--ttl", "5m"]);
  const out = text(child.stdout as NonNullable<typeof child.stdout>);
  expect(await ended(child)).toBe(0);
  return (await out).trim();
}

const nodes = async (): Promise<{ name: string; state: string; advertise: string }[]> =>
  (await stack.call("GET", "/v1/admin/nodes")).body.nodes;

it("joins by a token, serves, stops in order, and reconnects by its own key when the token is used up", async () => {
  const token = await tokenOf();
  const data = join(stack.folder, "second machine");
  // It listens where it says that it is reached.
  const advertise = `https://127.0.0.1:${await freePort()}`;
  const first = joins(token, data, "second", advertise);
  const ready = { name: "second", state: "ready", advertise };
  await vi.waitFor(async () => expect(await nodes()).toMatchObject([ready]), patient);
  expect(statSync(join(data, "join.token")).mode & 0o077).toBe(0);
  expect(first.said()).not.toContain(token);
  expect(readFileSync(`/proc/${first.child.pid}/cmdline`, "utf8")).not.toContain(token.split(".")[1]);

  const hf = { repo: "HuggingFaceTB/SmolLM2-135M-Instruct" };
  await stack.call("POST", "/deploy/llm", { model_name: model, gpu: "other", max_batch_size: 2, hf });
  await vi.waitFor(async () => {
    const ask = { model, prompt: "hello", max_tokens: 2 };
    expect((await stack.call("POST", "/v1/completions", ask)).status).toBe(200);
  }, patient);
  const servers = instancePids(data).filter(isAlive);
  expect(servers).toHaveLength(1);

  expect(await ended(first.child, "SIGTERM")).toBe(0);
  expect(servers.filter(isAlive)).toEqual([]);

  // The token was for one host, and this is that host: its certificate opens the door.
  const again = joins(token, data, "second");
  await vi.waitFor(() => expect(again.said()).toContain("connected to the control plane"), patient);
  expect(await nodes()).toHaveLength(1);

  const stranger = joins(token, join(stack.folder, "third machine"), "third");
  expect(await ended(stranger.child)).toBe(78);
  expect(stranger.said()).toContain("the join token was used by another host, and each is valid for one");
  expect(existsSync(join(stack.folder, "third machine", "identity", "certificate.json"))).toBe(false);
  expect(await nodes()).toHaveLength(1);
}, 180_000);

it("ends the join at a closed port and names the required port", async () => {
  const child = stoker(["node", "join", "a.b.c", "--control", "127.0.0.1:1", "--data", join(stack.folder, "fourth")]);
  const said = text(child.stderr as NonNullable<typeof child.stderr>);
  expect(await ended(child)).not.toBe(0);
  expect(await said).toMatch(/Could not reach a control plane at 127\.0\.0\.1:1 \(ECONNREFUSED\)\..*ports\.json/);
});

it("ends the join at the port of the API with the same message", async () => {
  const api = `127.0.0.1:${new URL(stack.url).port}`;
  const data = join(stack.folder, "fifth");
  const child = stoker(["node", "join", "a.b.c", "--control", api, "--data", data]);
  const said = text(child.stderr as NonNullable<typeof child.stderr>);
  expect(await ended(child)).not.toBe(0);
  expect(await said).toMatch(/Could not reach a control plane at 127\.0\.0\.1:\d+ \(no TLS\)\..*not of the API/);
  expect(existsSync(data)).toBe(false);
});
