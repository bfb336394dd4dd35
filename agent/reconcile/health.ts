// Probes the engine: ready, still loading, or gone. Ready = /health reports it and /v1/models lists the name; watch-progress.ts
// checks that it generates tokens.

import { connect } from "node:net";
import { type FormatSkill, formatPaths, isMessagesApi } from "../../proto/api-formats.ts";
import { authorizationFor, type EngineAddress } from "../../proto/bearer-secret.ts";
import { boundedText } from "../../proto/bounded-text.ts";
import { isAtLeast, readVersion } from "../../proto/engine-version.ts";
import type { ContainerPlan } from "./driver.ts";
import type { Life } from "./facts.ts";

interface ProbeTarget extends EngineAddress {
  readonly instanceId: string;
  readonly servedModelName: string | undefined;
  readonly isExternal: boolean;
  /** Path that reports whether it sleeps; undefined: it never does. */
  readonly sleepPath?: string | undefined;
  /** Known of a server that is ready; undefined: the probe asks. */
  readonly formats?: readonly FormatSkill[] | undefined;
}

export type Health =
  | {
      readonly kind: "ready";
      readonly contextLength: number;
      /** Formats besides chat that it speaks. */
      readonly formats?: readonly FormatSkill[] | undefined;
      /** Requests that an external server takes at once, if it reports them. */
      readonly batchSize?: number | undefined;
      /** Running requests and generated tokens, if the engine reports them. */
      readonly work?: { readonly running: number; readonly tokens: number };
    }
  /** `progress` changes while the start goes on. */
  | { readonly kind: "loading"; readonly progress: string }
  | { readonly kind: "draining" }
  /** Its model is unloaded until it is woken. */
  | { readonly kind: "asleep" }
  /** `isFrozen`: it replies, but generates no tokens. */
  | { readonly kind: "bad"; readonly why: string; readonly isFrozen?: boolean };

export type Probe = (target: ProbeTarget, signal: AbortSignal) => Promise<Health>;

const limitMs = 5_000;
const bodyBytes = 1024 * 1024;
const whileStartingMs = 500;
const whileReadyMs = 10_000;
/** Short, because the canary that timed out has already taken time. */
const whileFrozenMs = 1_000;
const failuresToRestart = 3;
const startBudgetMs = 30 * 60_000;
/** For an external server, which should already run. */
const externalBudgetMs = 5 * 60_000;
/** Time until its SSH server replies; the image is already present. */
const rentalBudgetMs = 2 * 60_000;

export function createProbe(): Probe {
  return async (target, signal) => {
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
    try {
      if (target.origin.startsWith("ssh:")) return await askSsh(target.origin, bounded);
      return target.isExternal ? await askModels(target, 0, bounded) : await askHealth(target, bounded);
    } catch (error) {
      signal.throwIfAborted();
      return { kind: "bad", why: whyOf(error) };
    }
  };
}

export function afterProbe(life: Life, health: Health, nowMs: number): Life {
  switch (health.kind) {
    case "ready":
      return {
        ...life,
        isReady: true,
        isAsleep: false,
        isSleepConfirmed: false,
        readySinceMs: life.isReady ? life.readySinceMs : nowMs,
        wakes: wakesOf(life),
        contextLength: health.contextLength,
        formats: health.formats,
        serverBatchSize: health.batchSize ?? life.serverBatchSize,
        failures: 0,
        trouble: "",
        isFrozen: false,
        nextProbeMs: nowMs + whileReadyMs,
      };
    case "loading": {
      const isProgress = health.progress !== life.progress;
      const progressAtMs = isProgress ? nowMs : life.progressAtMs;
      const next = { progress: health.progress, progressAtMs, nextProbeMs: nowMs + whileStartingMs };
      const wakes = wakesOf(life);
      const rest = { isAsleep: false, isSleepConfirmed: false };
      return { ...life, ...next, ...rest, wakes, isReady: false, failures: 0, trouble: "still loading" };
    }
    case "asleep": {
      const next = { progressAtMs: nowMs, nextProbeMs: nowMs + whileReadyMs };
      // One that never confirms its sleep is restarted.
      const failures = life.isSleepConfirmed ? 0 : life.failures;
      return { ...life, ...next, isReady: false, isAsleep: true, isFrozen: false, failures, trouble: "" };
    }
    case "draining":
      return { ...life, isReady: false, trouble: "it is shutting down", nextProbeMs: nowMs + whileStartingMs };
    case "bad": {
      const failures = life.isReady || life.isAsleep || life.failures > 0 ? life.failures + 1 : 0;
      const isFrozen = health.isFrozen === true;
      const pauseMs = isFrozen ? whileFrozenMs : failures > 0 ? whileReadyMs : whileStartingMs;
      return {
        ...life,
        failures,
        isFrozen,
        nextProbeMs: nowMs + pauseMs,
        trouble: health.why,
        isReady: life.isReady && !isDead(failures),
      };
    }
  }
}

/** Also counts a wake whose reply was lost. */
const wakesOf = ({ wakes, isAsleep }: Life) => wakes + (isAsleep ? 1 : 0);

export const confirmedAsleep = (life: Life, nowMs: number): Life =>
  afterProbe({ ...life, isSleepConfirmed: true }, { kind: "asleep" }, nowMs);

/** After a sleep that failed: probed at once, and restarted if it does not reply or fails again and again. */
export const unknownAfterSleep = (life: Life, nowMs: number): Life => ({
  ...life,
  isReady: false,
  isSleepConfirmed: false,
  failures: life.failures + 1,
  progressAtMs: nowMs,
  nextProbeMs: nowMs,
  trouble: "it did not confirm its sleep",
});

/** Undefined while it is healthy or may still become so. A foreign server is never restarted for its health. */
export function troubleOf(
  life: Life,
  kind: ContainerPlan["kind"],
  nowMs: number,
): "health" | "start_timeout" | undefined {
  const isExternal = kind === "external";
  if (isDead(life.failures)) return isExternal ? undefined : "health";
  const isStarting = !life.isReady && !life.isAsleep && life.failures === 0;
  const budgetMs = isExternal ? externalBudgetMs : kind === "rental" ? rentalBudgetMs : startBudgetMs;
  return isStarting && nowMs - life.progressAtMs > budgetMs ? "start_timeout" : undefined;
}

const isDead = (failures: number) => failures >= failuresToRestart;

async function askHealth(target: ProbeTarget, signal: AbortSignal): Promise<Health> {
  const { status, body } = await get(target, `${target.origin}/health`, signal);
  const facts = asObject(body);
  const id = facts["instance_id"];
  // Pids and ports are reused: check that the reply comes from the process that was started.
  if (typeof id === "string" && id !== target.instanceId) return { kind: "bad", why: "another instance answers there" };
  if (facts["status"] === "loading") return { kind: "loading", progress: JSON.stringify(facts["progress"] ?? "") };
  if (facts["status"] === "draining") return { kind: "draining" };
  if (status !== 200) return { kind: "bad", why: `/health answered ${status}` };
  if (target.sleepPath !== undefined && (await isAsleep(target, target.sleepPath, signal))) return { kind: "asleep" };
  const found = await askModels(target, contextLengthOf(Number(facts["context_length"])), signal);
  return found.kind === "ready" ? { ...found, ...workIn(facts) } : found;
}

async function isAsleep(target: ProbeTarget, path: string, signal: AbortSignal): Promise<boolean> {
  const { status, body } = await get(target, target.origin + path, signal);
  return status === 200 && asObject(body)["is_sleeping"] === true;
}

async function askModels(target: ProbeTarget, contextLength: number, signal: AbortSignal): Promise<Health> {
  const base = target.isExternal ? target.origin.replace(/\/v1$/, "") : target.origin;
  if (isMessagesApi(target.api)) return await askAnthropic(target, base, signal);
  if (target.api === "tei") return await askTei(target, base, signal);
  const { status, body } = await get(target, `${base}/v1/models`, signal);
  if (status !== 200) return { kind: "bad", why: `/v1/models answered ${status}` };
  const { data } = asObject(body);
  const models = Array.isArray(data) ? data.map(asObject) : [];
  const name = target.servedModelName;
  const model = models.find(({ id }) => name === undefined || id === name);
  if (model || name === undefined) {
    const owner = String(model?.["owned_by"]);
    const formats = target.formats ?? (await askFormats(target, base, owner, signal));
    const batchSize = target.isExternal && owner === "llamacpp" ? await askSlots(target, base, signal) : undefined;
    return { kind: "ready", contextLength: contextLength || slotContextOf(model), formats, batchSize };
  }
  return { kind: "bad", why: `/v1/models does not list ${JSON.stringify(name.slice(0, 120))}` };
}

/** Context of one request as llama.cpp's server or vLLM lists it; 0: the server lists none. */
function slotContextOf(model: Record<string, unknown> | undefined): number {
  return contextLengthOf(asObject(model?.["meta"])["n_ctx"] ?? model?.["max_model_len"]);
}

/** 0 where it is unknown. Larger values do not fit where the control plane stores them. */
export const contextLengthOf = (reported: unknown): number =>
  Number.isSafeInteger(reported) ? Math.min(Math.max(0, reported as number), 2 ** 31 - 1) : 0;

const maxServerBatch = 1024;

/** Undefined where a server reports none that makes sense. */
const batchSizeOf = (reported: unknown): number | undefined =>
  Number.isSafeInteger(reported) && (reported as number) > 0 ? Math.min(reported as number, maxServerBatch) : undefined;

/** Slots of llama.cpp's server. vLLM does not report how many sequences it batches. */
async function askSlots(target: ProbeTarget, base: string, signal: AbortSignal): Promise<number | undefined> {
  const answer = await get(target, `${base}/props`, signal).catch(() => undefined);
  return answer?.status === 200 ? batchSizeOf(asObject(answer.body)["total_slots"]) : undefined;
}

/** text-embeddings-inference serves one model, whatever the name in a request, and describes it once it is loaded. */
async function askTei(target: ProbeTarget, base: string, signal: AbortSignal): Promise<Health> {
  const { status, body } = await get(target, `${base}/info`, signal);
  if (status !== 200) return { kind: "bad", why: `/info answered ${status}` };
  const { model_id: model, max_input_length: length, max_concurrent_requests: requests } = asObject(body);
  if (typeof model !== "string") return { kind: "bad", why: "/info names no model_id" };
  return { kind: "ready", contextLength: contextLengthOf(length), formats: [], batchSize: batchSizeOf(requests) };
}

/** It lists models in pages, and serves more names than it lists. */
async function askAnthropic(target: ProbeTarget, base: string, signal: AbortSignal): Promise<Health> {
  const path = "/v1/models";
  const list = await get(target, `${base}${path}?limit=1000`, signal);
  if (list.status === 401 || list.status === 403) return { kind: "bad", why: `it refuses the key (${list.status})` };
  if (list.status !== 200) return { kind: "bad", why: `${path} answered ${list.status}` };
  const ready: Health = { kind: "ready", contextLength: 0, formats: [] };
  const { data } = asObject(list.body);
  const name = target.servedModelName;
  if (name === undefined || (Array.isArray(data) && data.some((model) => asObject(model)["id"] === name))) return ready;
  const one = await get(target, `${base}${path}/${encodeURIComponent(name)}`, signal);
  return one.status === 200
    ? ready
    : { kind: "bad", why: `${path} does not list ${JSON.stringify(name.slice(0, 120))}` };
}

/**
 * Tasks that each kind of server accepts besides chat, by the `owned_by` of its models. Others receive only chats. llama.cpp's
 * server omits the input tokens of a streamed message whose first token is a part of a character, so these are not passed through.
 */
const skillsByOwner: Readonly<Record<string, readonly FormatSkill[]>> = {
  llamacpp: ["responses", "responses_stream", "responses_tools", "messages", "messages_tools"],
  vllm: ["responses", "responses_stream"],
};

const llamaSkills: readonly FormatSkill[] = ["llama_sampling"];

/** Replies that say nothing about a path: the key, the load or a proxy is the reason. */
const isPassing = (status: number) => [401, 408, 425, 429].includes(status) || (status > 501 && status < 600);

/**
 * Sends a body that every server refuses before it generates; an older version has no such path. Undefined: the next probe
 * asks again.
 */
async function askFormats(
  target: ProbeTarget,
  base: string,
  owner: string,
  signal: AbortSignal,
): Promise<readonly FormatSkill[] | undefined> {
  const known = Object.hasOwn(skillsByOwner, owner) ? (skillsByOwner[owner] ?? []) : [];
  const statusOf = async (path: string): Promise<number> => {
    const headers = { ...authorizationFor(target), "content-type": "application/json" };
    const answer = await fetch(base + path, { method: "POST", headers, body: "{}", signal, redirect: "error" });
    await answer.body?.cancel();
    return answer.status;
  };
  try {
    const fields = owner === "vllm" ? await vllmSkills(target, base, signal) : owner === "llamacpp" ? llamaSkills : [];
    if (fields === undefined) return undefined;
    // Salting the prefix cache of vLLM was verified for chats only; a foreign server gets no salt.
    if (known.length === 0 || (owner === "vllm" && !target.isExternal)) return fields;
    const spoken: string[] = [];
    for (const [format, path] of Object.entries(formatPaths)) {
      const status = await statusOf(path);
      if (isPassing(status)) return undefined;
      if (status === 400 || status === 422 || status === 500) spoken.push(format);
    }
    return [...known.filter((skill) => spoken.some((format) => skill.startsWith(format))), ...fields];
  } catch {
    return undefined;
  }
}

/** Versions before 0.11.2 ignore `structured_outputs`. Undefined as in `askFormats`. */
async function vllmSkills(
  target: ProbeTarget,
  base: string,
  signal: AbortSignal,
): Promise<readonly FormatSkill[] | undefined> {
  const { status, body } = await get(target, `${base}/version`, signal);
  if (isPassing(status)) return undefined;
  const version = readVersion(String(asObject(body)["version"]));
  if (status !== 200 || !version) return [];
  return isAtLeast(version, 0, 11, 2) ? ["structured_outputs", "continuous_usage"] : ["continuous_usage"];
}

function workIn(facts: Record<string, unknown>) {
  const [running, tokens] = [facts["num_running"], facts["tokens_generated_total"]];
  return typeof running === "number" && typeof tokens === "number" ? { work: { running, tokens } } : {};
}

async function get(
  engine: EngineAddress,
  url: string,
  signal: AbortSignal,
): Promise<{ status: number; body: unknown }> {
  const answer = await fetch(url, { headers: authorizationFor(engine), signal, redirect: "error" });
  const text = await boundedText(answer.body, bodyBytes);
  try {
    return { status: answer.status, body: JSON.parse(text) };
  } catch {
    return { status: answer.status, body: undefined };
  }
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return `it did not answer within ${limitMs / 1000} s`;
  const cause = error.cause as { code?: string; message?: string } | undefined;
  return cause?.code ?? cause?.message ?? error.message;
}

type SshHealth =
  | { readonly kind: "ready"; readonly contextLength: number }
  | { readonly kind: "loading"; readonly progress: string }
  | { readonly kind: "bad"; readonly why: string };

/** Health of an SSH server, which sends its version first. */
function askSsh(origin: string, signal: AbortSignal): Promise<SshHealth> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), signal });
    const end = (health: SshHealth): void => {
      socket.destroy();
      resolve(health);
    };
    socket.once("data", (version) =>
      end(
        version.toString("latin1").startsWith("SSH-")
          ? { kind: "ready", contextLength: 0 }
          : { kind: "bad", why: "the port is not an SSH server" },
      ),
    );
    socket.once("end", () => end({ kind: "loading", progress: "the SSH server is not ready yet" }));
    socket.once("error", reject);
  });
}
