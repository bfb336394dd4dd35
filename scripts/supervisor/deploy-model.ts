// Deploys a model through the API and offers it to all accounts.
import { setTimeout as sleep } from "node:timers/promises";
import { type Answer, type Api, refusal } from "./api.ts";
import { defaultPricing, type FirstModel, type Pricing } from "./first-models.ts";
import type { ExternalServer } from "./options.ts";
import type { Screen, Step } from "./screen.ts";
import { UpError } from "./up-error.ts";

/** Maximum time without progress. Downloaded bytes and status changes reset it. */
const stallLimitMs = 300_000;
/** After a restart, instances of the previous run may be listed before the agents have started them. */
const answerLimitMs = 120_000;
/** Concurrent requests of a language model on a share of processor and memory. */
const cpuBatchSize = 4;

interface Deployment {
  readonly deploy_id: string;
  readonly model_name: string;
  readonly status: string;
  readonly fail_reason: string;
  /** Reasons of each host if it is not placed yet. */
  readonly pending_reasons?: readonly { readonly host: string; readonly why: string }[];
  readonly progress?: {
    readonly phase?: string;
    readonly done_bytes?: number;
    readonly total_bytes?: number;
    readonly trouble?: string;
  } | null;
}

/** Reuses a deployment of that name. Recreates a failed or stopped one. */
export async function deployModel(api: Api, model: FirstModel, step: Step, signal: AbortSignal): Promise<void> {
  const deployId = (await existing(api, model, step)) ?? (await create(api, model));
  await waitUntilDeployed(api, deployId, step, signal);
  await offer(api, model.modelName, {
    deploy_id: deployId,
    description: model.description,
    pricing: model.pricing,
  });
  await waitUntilServing(api, model, deployId, signal);
}

interface Terms {
  readonly deploy_id: string | undefined;
  readonly description: string;
  readonly pricing: Pricing;
}

/** Offers a deployment as a serverless model to all accounts. Keeps a price that the operator has set. */
async function offer(api: Api, name: string, terms: Terms): Promise<void> {
  const pricing = (await currentPrice(api, name)) ?? terms.pricing;
  const answer = await api.call("PUT", `/v1/admin/models/${name}`, { ...terms, pricing });
  if (answer.status >= 300) throw new UpError(`Could not offer the model ${name}: ${refusal(answer)}.`);
}

async function currentPrice(api: Api, name: string): Promise<Pricing | undefined> {
  const answer = await api.call("GET", `/v1/admin/prices?kind=model&subject=${encodeURIComponent(name)}`);
  const prices = (answer.body?.prices ?? []) as { readonly current: boolean; readonly rates: Pricing }[];
  const rates = prices.find((price) => price.current)?.rates;
  if (!rates) return undefined;
  const { input, cached_input, output, characters, audio, image, image_steps } = rates;
  return {
    input,
    cached_input,
    output,
    ...(characters && { characters }),
    ...(audio && { audio }),
    ...(image && { image, image_steps: image_steps ?? 0 }),
  };
}

async function existing(api: Api, model: FirstModel, step: Step): Promise<string | undefined> {
  const answer = await api.call("GET", "/deploy/list");
  const all = Array.isArray(answer.body) ? (answer.body as Deployment[]) : [];
  const found = all.find((one) => one.model_name === model.modelName && one.status !== "deleted");
  if (!found) return undefined;
  if (found.status !== "failed" && found.status !== "stopped") return found.deploy_id;
  if (found.fail_reason) step.note(`the last attempt failed: ${found.fail_reason}; trying again`);
  const removed = await api.call("DELETE", `/deploy/${found.deploy_id}`);
  if (removed.status >= 300) throw new UpError(`Could not delete the old deployment: ${refusal(removed)}.`);
  return undefined;
}

async function create(api: Api, model: FirstModel): Promise<string> {
  const gpu = await gpuType(api);
  const isCpu = gpu === "other";
  const maxBatchSize = model.maxBatchSize ?? (isCpu ? cpuBatchSize : undefined);
  const settings = {
    model_name: model.modelName,
    gpu,
    num_gpus: 1,
    ...(maxBatchSize === undefined ? {} : { max_batch_size: maxBatchSize }),
  };
  const repo = isCpu ? model.cpuRepo : model.repo;
  const answer =
    model.task === "text-generation"
      ? await api.call("POST", "/deploy/llm", {
          ...settings,
          hf: { repo },
          ...(isCpu && model.cpuContext ? { standard_args: { max_context_size: model.cpuContext } } : {}),
        })
      : await api.call("POST", "/deploy/hf/", {
          ...settings,
          task: model.task,
          ...(repo === model.modelName ? {} : { repo }),
        });
  if (answer.status >= 300) throw new UpError(`Could not deploy the model: ${refusal(answer)}.`);
  return (answer.body as Deployment).deploy_id;
}

/** True if a model besides these is deployed or starting. */
export async function servesOthers(api: Api, modelNames: readonly string[]): Promise<boolean> {
  const answer = await api.call("GET", "/deploy/list").catch(() => undefined);
  const all = Array.isArray(answer?.body) ? (answer.body as Deployment[]) : [];
  return all.some(
    (one) => !modelNames.includes(one.model_name) && !["deleted", "failed", "stopped"].includes(one.status),
  );
}

/** Advice for a model that is only available on a hub, with a leading space. Empty for others. `folder`: of demo models. */
export function hubAdvice({ weights, repo }: Pick<FirstModel, "weights" | "repo">, folder: string): string {
  if (weights?.kind === "package" || weights?.assembly) return "";
  const other =
    weights && `, or put them into ${folder}/${weights.name} (or into a folder that STOKER_DEMO_MODELS names)`;
  return ` The weights of ${repo} come from a model hub: set HF_ENDPOINT to one that this machine reaches${other ?? ""}.`;
}

/** GPU type of this machine. `other` without an NVIDIA GPU. */
async function gpuType(api: Api): Promise<string> {
  const answer = await api.call("GET", "/v1/admin/nodes");
  const nodes = (answer.body?.nodes ?? []) as { readonly gpus: readonly { readonly type: string }[] }[];
  const types = nodes.flatMap((node) => node.gpus.map(({ type }) => type));
  return types.includes("other") ? "other" : (types[0] ?? "other");
}

/** The smallest request of a task, by its path and body. Others are not tried. */
const firstRequests: Readonly<Record<string, (model: string, deployId: string) => readonly [string, object]>> = {
  "text-generation": (model) => ["/v1/completions", { model, prompt: "1", max_tokens: 1 }],
  embeddings: (model) => ["/v1/embeddings", { model, input: "1" }],
  "text-to-speech": (_, deployId) => [`/v1/inference/deploy/${deployId}`, { text: "1" }],
};

/** Sends a request, so that the printed call works: to the operator's own deployment, which has no price for requests. */
async function waitUntilServing(api: Api, model: FirstModel, deployId: string, signal: AbortSignal): Promise<void> {
  const first = firstRequests[model.task]?.(`deploy_id:${deployId}`, deployId);
  if (!first) return;
  const [path, body] = first;
  const deadline = performance.now() + answerLimitMs;
  let last: Answer | undefined;
  while (performance.now() < deadline) {
    last = await api.call("POST", path, body).catch(() => undefined);
    if (last !== undefined && ![404, 429, 500, 502, 503, 504].includes(last.status)) return;
    await sleep(500, undefined, { signal });
  }
  throw new UpError(`The model ${model.modelName} does not respond: ${last ? refusal(last) : "timed out"}.`);
}

async function waitUntilDeployed(api: Api, deployId: string, step: Step, signal: AbortSignal): Promise<void> {
  let seen = "";
  let deadline = performance.now() + stallLimitMs;
  while (performance.now() < deadline) {
    signal.throwIfAborted();
    const answer = await api.call("GET", `/deploy/${deployId}`).catch(() => undefined);
    if (answer?.status === 200) {
      const now = answer.body as Deployment;
      if (now.status === "deployed") return;
      if (now.status === "failed") throw new UpError(`The deployment failed: ${now.fail_reason}`);
      const state = `${now.status} ${now.progress?.done_bytes ?? ""}`;
      if (state !== seen) deadline = performance.now() + stallLimitMs;
      seen = state;
      show(now, step);
    }
    await sleep(250, undefined, { signal });
  }
  throw new UpError(
    `The model did not become ready: no progress for ${stallLimitMs / 1000} s. See the logs of the agent.`,
  );
}

function show(now: Deployment, step: Step): void {
  const why = now.status === "initializing" ? now.pending_reasons?.[0]?.why : undefined;
  step.note(why === undefined ? now.progress?.trouble || (now.progress?.phase ?? now.status) : `waiting: ${why}`);
  const { done_bytes: done, total_bytes: total } = now.progress ?? {};
  if (typeof done === "number" && typeof total === "number" && total > 0) step.bytes(done, total);
}

/** Time in which a running server is detected. */
const externalLimitMs = 15_000;

/**
 * Registers a running server as an instance, with keys, gate, metering and billing. Returns true if it is ready,
 * otherwise prints a warning.
 */
export async function serveExternal(
  api: Api,
  server: ExternalServer,
  screen: Pick<Screen, "step" | "warn">,
  limitMs = externalLimitMs,
): Promise<boolean> {
  const step = screen.step(`External server ${server.name}`);
  const answer = await api.call("POST", "/v1/admin/external", {
    name: server.name,
    url: server.url,
    ...(server.maxBatchSize === undefined ? {} : { max_batch_size: server.maxBatchSize }),
    api_key: server.apiKey ?? null,
    ...(server.format === undefined ? {} : { format: server.format }),
    ...(server.task === undefined ? {} : { task: server.task }),
  });
  if (answer.status >= 300) {
    throw new UpError(
      `The server ${server.name} at ${new URL(server.url).host} could not be served: ${refusal(answer)}.`,
    );
  }
  await offer(api, server.name, {
    deploy_id: answer.body?.deploy_id,
    description: "An OpenAI-compatible server beside Stoker",
    pricing: defaultPricing,
  });
  const deadline = performance.now() + limitMs;
  while (performance.now() < deadline) {
    if ((await api.call("GET", `/deploy/${answer.body?.deploy_id}`)).body?.status === "deployed") {
      step.done();
      return true;
    }
    await sleep(200);
  }
  step.done("no answer yet");
  screen.warn(
    `${server.name} is not served yet: ${new URL(server.url).host} does not answer as an OpenAI-compatible server that ` +
      "lists this name under /v1/models. It is served as soon as it does; after five minutes without an answer it is given up " +
      "until `up` is started again.",
  );
  return false;
}
