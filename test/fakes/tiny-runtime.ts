// The smallest thing a driver can run as a model server: the environment contract of runtime/main.ts, none of its weight.
// What it does besides is scripted by the file TINY_RUNTIME_SCRIPT names, by `<model path>.script.json`, or by what follows
// the first line of the model itself (a container is given no other file):
//   {"exitCode": 1, "exitAfterMs": 100, "lines": ["..."], "holdBytes": 1e9, "loadMs": 300, "ignoreTerm": true, "crashOnce": "file"}
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { readBearerSecret } from "../../proto/bearer-secret.ts";

interface Script {
  readonly lines?: readonly string[];
  readonly exitCode?: number;
  readonly exitAfterMs?: number;
  readonly holdBytes?: number;
  readonly loadMs?: number;
  /** Time of a wake. Its paths of sleep are those that vLLM documents. */
  readonly wakeMs?: number;
  /** Time of a sleep. */
  readonly sleepMs?: number;
  /** It sleeps, but its reply to that is an error, once. */
  readonly losesSleep?: boolean;
  /** It does not sleep, with an error. */
  readonly refusesSleep?: boolean;
  /** Time of loading or unloading an adapter. */
  readonly adapterMs?: number;
  readonly ignoreTerm?: boolean;
  /** A child of its own that ignores every signal it can and says its pid as `/child`. */
  readonly hasChild?: boolean;
  /** Once this file exists it makes no token any more, and goes on answering /health. */
  readonly freezeFile?: string;
  /** A request that contains this text ends the process. */
  readonly dieOn?: string;
  /** A request that contains this text is never answered, nor is any after it. */
  readonly stallOn?: string;
  /** Where it exists: receives a line `ID TOKENS` for each complete reply before it leaves, ID as in `x-stoker-request-id`. */
  readonly bookFile?: string;
}

const env = process.env;
const file = env["TINY_RUNTIME_SCRIPT"] ?? `${env["STOKER_MODEL_PATH"]}.script.json`;
const script: Script = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Script) : scriptInModel();
const say = (level: number, msg: string) =>
  process.stdout.write(`${JSON.stringify({ level, time: Date.now(), pid: process.pid, msg })}\n`);

say(30, "tiny runtime starts");
for (const line of script.lines ?? []) process.stdout.write(`${line}\n`);

const stubborn = 'process.on("SIGTERM", () => {}); process.on("SIGHUP", () => {}); setInterval(() => {}, 1000);';
const child = script.hasChild ? spawn(process.execPath, ["-e", stubborn], { stdio: "ignore" }) : undefined;
let isStalled = false;
const isFrozen = () => isStalled || (script.freezeFile !== undefined && existsSync(script.freezeFile));

const secretFile = env["STOKER_SECRET_FILE"];
const secret = secretFile === undefined ? undefined : readBearerSecret(secretFile);

const readyAtMs = performance.now() + (script.loadMs ?? 0);
let isDraining = false;
let isAsleep = false;
/** Names of the loaded adapters. */
const adapters = new Set<string>();
/** The change that is running. */
let changing = "";
/** Changes run one after the other, as in vLLM, also those whose caller is gone. */
let lastChange: Promise<void> = Promise.resolve();
let sleeps = 0;
const change = (what: "sleep" | "wake" | "load" | "unload", ms: number, end: () => void) => {
  lastChange = lastChange.then(async () => {
    changing = what;
    await pause(ms);
    changing = "";
    end();
  });
};
let tokens = 0;
const held: Buffer[] = [];
if (script.holdBytes) {
  for (let left = script.holdBytes; left > 0; left -= 16e6) held.push(Buffer.alloc(Math.min(left, 16e6), 1));
}

/** A token every 200 ms. */
function stream(res: ServerResponse, wanted: number): void {
  res.writeHead(200, { "content-type": "text/event-stream" });
  let sent = 0;
  const timer = setInterval(() => {
    tokens += 1;
    sent += 1;
    const isLast = sent >= wanted;
    const usage = { prompt_tokens: 3, completion_tokens: sent, total_tokens: 3 + sent };
    const choice = { index: 0, text: " tiny", finish_reason: isLast ? "length" : null };
    res.write(`data: ${JSON.stringify({ choices: [choice], ...(isLast ? { usage } : {}) })}\n\n`);
    if (isLast) res.end("data: [DONE]\n\n");
  }, 200);
  res.on("close", () => clearInterval(timer));
}

const server = createServer((req, res) => {
  const send = (status: number, body: unknown) => {
    res.writeHead(status, { "content-type": "application/json" });
    res.end(JSON.stringify(body));
  };
  if (secret && !secret.matches(req.headers.authorization)) return send(401, { error: { message: "no secret" } });
  const isReady = performance.now() >= readyAtMs;
  if (req.url === "/health") {
    if (isDraining) return send(503, { status: "draining", instance_id: env["STOKER_INSTANCE_ID"] });
    if (!isReady) return send(503, { status: "loading", progress: 0.5, instance_id: env["STOKER_INSTANCE_ID"] });
    return send(200, {
      status: "ready",
      instance_id: env["STOKER_INSTANCE_ID"],
      context_length: 2048,
      num_running: 0,
      num_waiting: 0,
      tokens_generated_total: tokens,
    });
  }
  if (req.url === "/is_sleeping") return send(200, { is_sleeping: isAsleep, changing });
  if (req.method === "POST" && req.url?.startsWith("/sleep")) {
    return change("sleep", script.sleepMs ?? 0, () => {
      isAsleep = !script.refusesSleep;
      sleeps += 1;
      send((script.losesSleep && sleeps === 1) || script.refusesSleep ? 500 : 200, {});
    });
  }
  if (req.method === "POST" && req.url === "/wake_up") {
    return change("wake", script.wakeMs ?? 0, () => {
      isAsleep = false;
      send(200, {});
    });
  }
  const base = env["STOKER_SERVED_MODEL_NAME"];
  if (req.url === "/v1/models")
    return send(200, { data: [{ id: base }, ...[...adapters].map((id) => ({ id, parent: base }))] });
  if (req.method === "POST") {
    let text = "";
    req.setEncoding("latin1").on("data", (part: string) => {
      text += part;
    });
    return req.once("end", () => {
      if (script.dieOn !== undefined && text.includes(script.dieOn)) process.exit(1);
      if (script.stallOn !== undefined && text.includes(script.stallOn)) isStalled = true;
      if (isFrozen()) return;
      const lora = /^\/v1\/(load|unload)_lora_adapter$/.exec(req.url ?? "")?.[1] as "load" | "unload" | undefined;
      if (lora !== undefined) {
        const { lora_name: name } = JSON.parse(text) as { lora_name: string };
        return change(lora, script.adapterMs ?? 0, () => {
          if (lora === "load") adapters.add(name);
          else adapters.delete(name);
          send(200, {});
        });
      }
      const adapter = [...adapters].find((name) => text.includes(`"model":"${name}"`));
      if (text.includes('"stream":true')) return stream(res, Number(/"max_tokens":(\d+)/.exec(text)?.[1] ?? 2));
      tokens += 2;
      if (script.bookFile && existsSync(script.bookFile))
        appendFileSync(script.bookFile, `${req.headers["x-stoker-request-id"]} 2\n`);
      const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
      send(200, { object: "text_completion", pid: process.pid, choices: [{ text: adapter ?? "tiny words" }], usage });
    });
  }
  if (req.url === "/metrics")
    return void res.end(
      `# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1\n# TYPE stoker_runtime_num_requests_running gauge\nstoker_runtime_num_requests_running 0\n# TYPE stoker_runtime_tokens_total counter\nstoker_runtime_tokens_total{kind="generated"} ${tokens}\n`,
    );
  if (req.url === "/child") return send(200, { pid: child?.pid });
  if (req.url === "/environment") return send(200, env);
  send(404, {});
});
server.listen(Number(env["STOKER_PORT"] ?? 0), env["STOKER_HOST"] ?? "127.0.0.1", () => {
  const { address, port } = server.address() as AddressInfo;
  const addressFile = env["STOKER_ADDRESS_FILE"];
  if (!addressFile) return;
  const note = { host: address, port, pid: process.pid, instance_id: env["STOKER_INSTANCE_ID"] };
  writeFileSync(`${addressFile}.new`, JSON.stringify(note));
  renameSync(`${addressFile}.new`, addressFile);
});

const end = (code: number) => {
  say(30, "tiny runtime ends");
  process.exit(code);
};
// The context length that no memory holds: what a deployment may ask for and no start of it survives.
if (env["STOKER_CONTEXT_LENGTH"] === "666") end(1);
if (script.exitCode !== undefined) setTimeout(() => end(script.exitCode ?? 0), script.exitAfterMs ?? 0);
process.on("SIGTERM", () => {
  if (script.ignoreTerm) return;
  // The stalled connections would hold it until it is killed.
  if (isStalled) end(0);
  isDraining = true;
  server.close(() => end(0));
  server.closeIdleConnections();
});

function scriptInModel(): Script {
  const model = env["STOKER_MODEL_PATH"];
  const text = model !== undefined && existsSync(model) ? readFileSync(model, "utf8") : "";
  return text.startsWith("GGUF tiny\n{") ? (JSON.parse(text.slice(text.indexOf("\n"))) as Script) : {};
}
