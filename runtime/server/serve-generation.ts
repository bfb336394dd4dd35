// One inference POST from its bytes to its log line: phase, body, run, usage made final, figures.

import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { audioBoundHeader, cacheScopeHeader, tenantHeader } from "../../proto/engine-headers.ts";
import { asTenant, noTenant } from "../batch/tenant.ts";
import type { Exchange } from "./deliver.ts";
import type { Engine, Operation, TaskCall } from "./engine.ts";
import type { Body } from "./fields.ts";
import type { RuntimeMetrics } from "./metrics.ts";
import { readBody } from "./read-body.ts";
import { renderError } from "./render-error.ts";
import { RequestError, unusable } from "./request-error.ts";
import type { RuntimeState } from "./runtime-state.ts";
import { type ServedModel, servedModel } from "./served-model.ts";
import { isTextEngine, type TextEngine } from "./text-engine.ts";
import type { UsageLog } from "./usage-log.ts";
import { writeJson } from "./write-json.ts";

export type Run = (engine: TextEngine, model: ServedModel, body: Body, exchange: Exchange) => Promise<void>;

export interface GenerationDeps {
  readonly state: RuntimeState;
  readonly usageLog: UsageLog;
  readonly metrics: RuntimeMetrics;
  readonly log: Logger;
}

/** Names the request for GET /usage/{id}. */
const requestIdHeader = "x-stoker-request-id";

export async function serveGeneration(
  deps: GenerationDeps,
  operation: Operation,
  route: string,
  run: Run,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  return serveRequest(deps, route, operation, request, response, async (engine, call) => {
    if (!isTextEngine(engine)) throw notServed(engine, route);
    const body = await readBody(request);
    const { model: bare, formerAdapters: former } = call;
    const model = servedModel(body["model"], { model: bare, adapters: engine.adapters, former });
    await run(engine, model, body, call);
  });
}

/** Every other task: whatever the engine has under that path. */
export async function serveTask(
  deps: GenerationDeps,
  route: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const operation = deps.state.engine?.tasks?.get(route)?.operation ?? "inference";
  return serveRequest(deps, route, operation, request, response, async (engine, call) => {
    const task = engine.tasks?.get(route);
    if (!task) throw notServed(engine, route);
    await task.run(call);
  });
}

async function serveRequest(
  deps: GenerationDeps,
  route: string,
  operation: Operation,
  request: IncomingMessage,
  response: ServerResponse,
  work: (engine: Engine, call: TaskCall) => Promise<void>,
): Promise<void> {
  const { state, metrics, log } = deps;
  const startedAt = performance.now();
  const header = request.headers[requestIdHeader];
  const requestId = typeof header === "string" && /^[\x21-\x7e]{1,200}$/.test(header) ? header : randomUUID();
  const usage = deps.usageLog.open(requestId);
  const gone = new AbortController();
  let firstTokenMs: number | undefined;
  const onFirstToken = () => {
    firstTokenMs ??= performance.now() - startedAt;
  };
  response.on("close", () => {
    if (!response.writableFinished) gone.abort(new Error("the client disconnected"));
  });
  response.setHeader(requestIdHeader, requestId);
  state.begin();
  let failure: RequestError | undefined;
  try {
    const engine = readyEngine(state);
    const { model, formerAdapters } = state;
    const { tenant, ...origin } = originOf(request.headers);
    const call = { request, response, signal: gone.signal, usage, model, formerAdapters, onFirstToken, ...origin };
    await asTenant(tenant, () => work(engine, call));
  } catch (error) {
    // Reading the body fails too when the client disconnects.
    if (!gone.signal.aborted) {
      failure = renderError(error);
      writeJson(response, failure.status, failure.body, failure.headers);
    }
  } finally {
    usage.isAborted = gone.signal.aborted;
    usage.isFinished = true;
    state.end();
  }
  const ms = performance.now() - startedAt;
  // 499 as in access logs: the client closed the connection.
  const status = usage.isAborted ? 499 : (failure?.status ?? 200);
  const { inputTokens, cachedInputTokens, outputTokens } = usage;
  const fields = {
    requestId,
    route,
    status,
    ms: Math.round(ms),
    firstTokenMs: rounded(firstTokenMs),
    inputTokens,
    cachedInputTokens,
    outputTokens,
  };
  if (failure && failure.status >= 500 && failure.cause) log.error({ ...fields, err: failure.cause }, "request");
  else log.info(failure ? { ...fields, param: failure.param, code: failure.code } : fields, "request");
  metrics.request({
    operation,
    seconds: ms / 1000,
    firstTokenSeconds: firstTokenMs === undefined ? undefined : firstTokenMs / 1000,
    inputTokens,
    cachedInputTokens,
    outputTokens,
    audioMs: usage.units?.audioMs,
    errorType: status === 200 ? undefined : String(status),
  });
}

function notServed(engine: Engine, route: string): RequestError {
  const paths = [
    ...(isTextEngine(engine) ? ["/v1/chat/completions", "/v1/completions"] : []),
    ...(engine.tasks?.keys() ?? []),
  ];
  const words = `this model does not serve ${route}; send the request to ${paths.join(" or ")}, or use a model that does`;
  return unusable("model", words, "unsupported_task");
}

/** Throws RequestError 503. */
export function readyEngine(state: RuntimeState): Engine {
  const { phase } = state;
  if (phase.status === "ready") return phase.engine;
  const [message, refusal] =
    phase.status === "loading"
      ? ["the model is still loading; try again soon", "not_ready"]
      : phase.status === "asleep"
        ? ["the model is unloaded while it is not used; try again soon", "not_ready"]
        : ["this instance is about to stop; send the request to another one", "draining"];
  throw new RequestError(503, message, { headers: { "x-stoker-refusal": refusal, "retry-after": "1" } });
}

const rounded = (ms: number | undefined) => (ms === undefined ? undefined : Math.round(ms));

const idForm = /^[\w-]{1,64}$/;

/** `tenant`: digest of the account: queues take turns by it. */
function originOf(headers: IncomingHttpHeaders) {
  const tenant = idOf(headers[tenantHeader]) ?? noTenant;
  const maxAudioMs = Number(headers[audioBoundHeader] ?? Number.NaN);
  return {
    tenant,
    cacheScope: idOf(headers[cacheScopeHeader]) ?? tenant,
    maxAudioMs: Number.isSafeInteger(maxAudioMs) && maxAudioMs >= 0 ? maxAudioMs : undefined,
  };
}

const idOf = (header: string | string[] | undefined): string | undefined =>
  typeof header === "string" && idForm.test(header) ? header : undefined;
