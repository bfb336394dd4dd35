// A real model server process with the real weights, and the few ways in which the tests talk to it.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { compileCache } from "../../fakes/compile-cache.ts";
import { atWorkerEnd } from "../../fakes/worker-end.ts";

const root = join(import.meta.dirname, "../../..");
export const modelFile =
  process.env["STOKER_TEST_MODEL"] ?? join(root, ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");

/** Says loudly what stays unproven where the weights are missing. */
export function hasModel(promise: string): boolean {
  if (existsSync(modelFile)) return true;
  process.stderr.write(`\nNOT PROVEN: ${promise}: no weights at ${modelFile} (set STOKER_TEST_MODEL)\n`);
  return false;
}

export interface RuntimeProcess {
  readonly url: string;
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  log(): string;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string): Promise<Answer>;
  stream(path: string, body: unknown): Promise<Frames>;
  stop(): Promise<void>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: answers are asserted field by field.
  readonly body: any;
}

export interface Frames {
  // biome-ignore lint/suspicious/noExplicitAny: answers are asserted field by field.
  readonly chunks: any[];
  readonly raw: string;
}

export function spawnRuntime(
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
): {
  child: ChildProcess;
  exited: Promise<number | null>;
  log(): string;
} {
  const child = spawn(process.execPath, [join(root, "runtime/main.ts"), ...args], {
    cwd: root,
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: compileCache,
      STOKER_INSTANCE_ID: "instance-1",
      STOKER_MODEL_PATH: modelFile,
      STOKER_SERVED_MODEL_NAME: "HuggingFaceTB/SmolLM2-135M-Instruct",
      STOKER_CPUS: "1",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  atWorkerEnd(() => child.kill("SIGKILL"));
  let log = "";
  for (const out of [child.stdout, child.stderr])
    out?.on("data", (bytes: Buffer) => {
      log += bytes.toString();
    });
  const exited = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  return { child, exited, log: () => log };
}

export async function startRuntime(
  env: Readonly<Record<string, string>> = {},
  args: readonly string[] = [],
): Promise<RuntimeProcess> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-runtime-"));
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  const forget = atWorkerEnd(remove);
  const addressFile = join(folder, "address.json");
  const { child, exited, log } = spawnRuntime(
    // What a killed one kept in files goes with its folder.
    {
      TMPDIR: folder,
      STOKER_ADDRESS_FILE: addressFile,
      STOKER_MAX_BATCH_SIZE: "4",
      STOKER_CONTEXT_LENGTH: "1024",
      ...env,
    },
    args,
  );
  const stop = async () => {
    child.kill("SIGKILL");
    await exited;
    remove();
    forget();
  };
  const isAlive = () => {
    if (child.exitCode !== null) throw new Error(`the model server ended:\n${log()}`);
    return true;
  };
  try {
    await vi.waitUntil(() => isAlive() && existsSync(addressFile), { timeout: 30_000 });
    const url = `http://127.0.0.1:${JSON.parse(readFileSync(addressFile, "utf8")).port}`;
    await vi.waitUntil(async () => isAlive() && (await fetch(`${url}/health`)).ok, { timeout: 60_000, interval: 100 });
    return { url, child, exited, log, stop, ...client(url) };
  } catch (error) {
    await stop();
    throw error;
  }
}

function client(url: string) {
  const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const answer = await fetch(url + path, {
      method,
      headers,
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text.startsWith("{") ? JSON.parse(text) : text };
  };
  return {
    post: (path: string, body: unknown, headers?: Record<string, string>) => call("POST", path, body, headers),
    get: (path: string) => call("GET", path),
    stream: async (path: string, body: unknown) => {
      const answer = await call("POST", path, { ...(body as object), stream: true });
      const raw = String(answer.body);
      const data = raw.split("\n\n").filter((frame) => frame.startsWith("data: {"));
      return { raw, chunks: data.map((frame) => JSON.parse(frame.slice(6))) };
    },
  };
}
