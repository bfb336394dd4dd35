// The HTTP paths that every engine speaks.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { BearerSecret } from "../../proto/bearer-secret.ts";
import { RequestError } from "./request-error.ts";
import { runChat, runTokenize } from "./run-chat.ts";
import { runCompletion } from "./run-completion.ts";
import type { RuntimeState } from "./runtime-state.ts";
import { serveAdapters } from "./serve-adapters.ts";
import { type GenerationDeps, serveGeneration, serveTask } from "./serve-generation.ts";
import { type Sleeper, serveSleep } from "./serve-sleep.ts";
import { adapterHostOf, isTextEngine } from "./text-engine.ts";
import { usageRecord } from "./usage-log.ts";
import { writeJson } from "./write-json.ts";

/** `secret`: required of every request, on every path; undefined: none. */
export function createRuntimeServer(deps: GenerationDeps & Sleeper, secret?: BearerSecret): Server {
  const server = createServer((request, response) => {
    if (secret && !secret.matches(request.headers.authorization)) return refuseStranger(response);
    deps.state.heard();
    void route(deps, request, response).catch((error: unknown) => {
      deps.log.error({ err: error }, "answer failed");
      response.destroy();
    });
  });
  // Longer than any client keeps an idle connection: the side that may still send must be the one that closes it.
  server.keepAliveTimeout = 75_000;
  return server;
}

/** Does not count as a sign of the agent, and reads nothing of the body. */
function refuseStranger(response: ServerResponse): void {
  const { status, body } = new RequestError(401, "this model server takes requests of its agent only", {
    code: "unauthorized",
  });
  writeJson(response, status, body, { "www-authenticate": "Bearer", connection: "close" });
}

async function route(
  deps: GenerationDeps & Sleeper,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = (request.url ?? "/").split("?", 1)[0] as string;
  switch (`${request.method} ${path}`) {
    case "POST /v1/completions":
      return serveGeneration(deps, "text_completion", path, runCompletion, request, response);
    case "POST /v1/chat/completions":
      return serveGeneration(deps, "chat", path, runChat, request, response);
    // vLLM's path.
    case "POST /tokenize":
      return serveGeneration(deps, "token_count", path, runTokenize, request, response);
    case "POST /v1/embeddings":
    case "POST /v1/rerank":
    case "POST /v1/audio/speech":
    case "POST /v1/audio/transcriptions":
    case "POST /v1/audio/translations":
    case "POST /v1/audio/voices":
    case "POST /v1/images/generations":
    case "POST /v1/images/edits":
    case "POST /v1/images/variations":
    // Every other task, with the fields that the gateway's native endpoint takes.
    case "POST /v1/infer":
      return serveTask(deps, path, request, response);
    case "POST /v1/load_lora_adapter":
      return serveAdapters(deps.state, "load", request, response);
    case "POST /v1/unload_lora_adapter":
      return serveAdapters(deps.state, "unload", request, response);
    case "GET /health": {
      const { status, body } = health(deps.state);
      return writeJson(response, status, body);
    }
    case "POST /sleep":
    case "POST /wake_up":
    case "GET /is_sleeping":
      return serveSleep(deps, path, response);
    case "GET /v1/models":
      return writeJson(response, 200, models(deps.state));
    case "GET /metrics": {
      const { registry } = deps.metrics;
      response.writeHead(200, { "content-type": registry.contentType });
      response.end(await registry.metrics());
      return;
    }
    default:
      return other(deps, request, response, path);
  }
}

function other(deps: GenerationDeps, request: IncomingMessage, response: ServerResponse, path: string): void {
  const id = request.method === "GET" ? /^\/usage\/([^/]+)$/.exec(path)?.[1] : undefined;
  const entry = id === undefined ? undefined : deps.usageLog.find(decodeId(id));
  const what = id === undefined ? "there is no such path here" : "no request of that id is remembered";
  if (entry) writeJson(response, 200, usageRecord(entry));
  else writeJson(response, 404, new RequestError(404, what, { code: "not_found" }).body);
}

function decodeId(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}

/** GET /health. */
function health(state: RuntimeState): { readonly status: number; readonly body: object } {
  const { phase, instanceId: instance_id, model } = state;
  if (phase.status === "asleep") return { status: 200, body: { status: "asleep", instance_id, model } };
  if (phase.status === "loading")
    return { status: 503, body: { status: "loading", instance_id, model, progress: phase.progress } };
  const { engine } = phase;
  const load = engine?.load();
  const body = {
    status: phase.status,
    instance_id,
    model,
    context_length: engine?.contextLength ?? null,
    max_batch_size: engine?.maxBatchSize ?? null,
    num_running: load?.running ?? 0,
    num_waiting: load?.waiting ?? 0,
    tokens_generated_total: load?.tokensGenerated ?? 0,
    provider: engine?.provider ?? null,
    ...(engine?.warnings?.length ? { warnings: engine.warnings } : {}),
  };
  return { status: phase.status === "ready" ? 200 : 503, body };
}

/** GET /v1/models. */
function models({ engine, model, createdSeconds: created }: RuntimeState): object {
  if (!engine) return { object: "list", data: [] };
  const entry = (id: string) => ({ id, object: "model", created, owned_by: "stoker" });
  const own = {
    ...entry(model),
    max_model_len: engine.contextLength,
    max_batch_size: engine.maxBatchSize,
    supports_tools: isTextEngine(engine) && engine.toolFormat !== undefined,
  };
  const adapters = adapterHostOf(engine)?.adapters ?? [];
  return { object: "list", data: [own, ...adapters.map((id) => ({ ...entry(id), root: model, parent: model }))] };
}
