// A stand-in for vLLM or SGLang as a process: it reads the argv that a plan gives the real one with a record of its parser
// (engine-parser.ts), and speaks its paths and its metrics. Generates scripted tokens.
//   node test/fakes/foreign-engine-process.ts --record FILE --listen 0 -- vllm serve /weights --served-model-name ...
// Prints `listening on http://127.0.0.1:PORT`. SIGTERM aborts what runs.
import { existsSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { parseAsEngine, readRecord } from "./engine-parser.ts";

const [own, command] = [process.argv.slice(2, 6), process.argv.slice(7)];
const isVllm = command[0] === "vllm";
if (!["vllm serve", "python3 -m sglang.launch_server"].some((known) => command.join(" ").startsWith(`${known} `)))
  refuse(`no such command: ${command.join(" ")}`);
const values = parse(command.slice(isVllm ? 2 : 3));
const valueFor = (name: string) => values.get(name)?.[0];
const model = valueFor(isVllm ? "" : "--model-path") ?? "";
if (!existsSync(model) || !statSync(model).isDirectory()) refuse(`${model} is not a local folder`);
const served = valueFor("--served-model-name") ?? model;
const maxRunning = Number(valueFor("--max-num-seqs") ?? valueFor("--max-running-requests"));
const loras = new Map<string, string>();
const running = new Set<ServerResponse>();
const tokenMs = 20;
let generated = 0;

function refuse(why: string): never {
  process.stderr.write(`error: ${why}\n`);
  process.exit(2);
}

function parse(args: readonly string[]): ReadonlyMap<string, readonly string[]> {
  try {
    return parseAsEngine(readRecord(own[1] as string), args);
  } catch (error) {
    return refuse((error as Error).message);
  }
}

const json = (res: ServerResponse, status: number, value: unknown) =>
  res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));

async function bodyOf(req: IncomingMessage): Promise<Record<string, unknown>> {
  const parts: Buffer[] = [];
  for await (const part of req) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString() || "{}");
}

async function complete(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const body = await bodyOf(req);
  if (body["model"] !== served && !loras.has(String(body["model"])))
    return void json(res, 404, { error: { message: `The model ${body["model"]} does not exist.` } });
  running.add(res);
  res.once("close", () => running.delete(res));
  const tokens = Number(body["max_tokens"] ?? 16);
  const usage = { prompt_tokens: 3, completion_tokens: tokens, total_tokens: 3 + tokens };
  const text = loras.get(String(body["model"])) ?? " tok";
  if (body["stream"] === true) res.writeHead(200, { "content-type": "text/event-stream" });
  for (let i = 0; i < tokens && !res.destroyed; i++) {
    await new Promise((next) => setTimeout(next, tokenMs));
    generated += 1;
    if (body["stream"] === true)
      res.write(`data: ${JSON.stringify({ choices: [{ index: 0, text, delta: { content: text } }] })}\n\n`);
  }
  if (res.destroyed) return;
  if (body["stream"] === true) res.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
  else
    json(res, 200, {
      choices: [{ index: 0, text: text.repeat(tokens), message: { content: text.repeat(tokens) } }],
      usage,
    });
}

function metrics(): string {
  return isVllm
    ? `# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="${served}"} ${running.size}\n# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name="${served}"} ${generated}\n`
    : `# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{model_name="${served}"} ${running.size}\n# TYPE sglang:generation_tokens_total counter\nsglang:generation_tokens_total{model_name="${served}"} ${generated}\n`;
}

async function lora(req: IncomingMessage, res: ServerResponse, isLoad: boolean): Promise<void> {
  if (isVllm && (!values.has("--enable-lora") || process.env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] !== "True"))
    return void json(res, 404, { detail: "Not Found" });
  const body = await bodyOf(req);
  const name = String(body["lora_name"]);
  if (isLoad) loras.set(name, ` ${name}`);
  else if (!loras.delete(name))
    return void json(res, 404, { error: { message: `The lora adapter ${name} cannot be found.` } });
  json(res, 200, `Success: LoRA adapter '${name}' ${isLoad ? "added" : "removed"} successfully.`);
}

const server = createServer((req, res) => {
  const path = (req.url ?? "").split("?")[0];
  const loraPaths = isVllm
    ? ["/v1/load_lora_adapter", "/v1/unload_lora_adapter"]
    : ["/load_lora_adapter", "/unload_lora_adapter"];
  if (req.method === "POST" && loraPaths.includes(path ?? "")) return void lora(req, res, path === loraPaths[0]);
  if (req.method === "POST" && /^\/v1\/(chat\/)?completions$/.test(path ?? "")) return void complete(req, res);
  // vLLM answers with nothing; SGLang too.
  if (path === "/health" || (!isVllm && path === "/health_generate")) return void res.writeHead(200).end();
  if (path === "/v1/models") {
    const data = [served, ...loras.keys()].map((id) => ({ id, object: "model" }));
    return void json(res, 200, { object: "list", data });
  }
  if (path === "/metrics" && (isVllm || values.has("--enable-metrics")))
    return void res.writeHead(200, { "content-type": "text/plain; version=0.0.4" }).end(metrics());
  json(res, 404, { detail: "Not Found" });
});
if (!(maxRunning >= 1)) refuse("no bound of the batch was given");
server.listen(Number(own[3]), "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});

process.on("SIGTERM", () => {
  for (const res of running) res.destroy();
  process.exit(0);
});
