// Requests to an engine about its adapters. Paths are those of its own server (engines/engine-traits.ts).
import { authorizationFor, type EngineAddress } from "../../proto/bearer-secret.ts";
import { traitsOf } from "../engines/engine-traits.ts";

export interface EngineAdapters {
  /** Throws AdapterFailure. What is loaded under the name already is unloaded first: it may be another commit. */
  load(at: EngineAddress, name: string, path: string, signal: AbortSignal): Promise<void>;
  unload(at: EngineAddress, name: string, signal: AbortSignal): Promise<void>;
  /** Names it serves beside its own model. */
  list(at: EngineAddress, signal: AbortSignal): Promise<readonly string[]>;
  readonly maxRank: number;
}

const loadLimitMs = 300_000;
const askLimitMs = 10_000;
const maxText = 64 * 1024;

/** Undefined for an engine that takes no adapters while it runs. */
export function engineAdapters(engine: string): EngineAdapters | undefined {
  const traits = traitsOf(engine);
  if (!traits || traits.maxLoraRank === 0) return undefined;
  const { loadLora, unloadLora, maxLoraRank: maxRank } = traits;

  async function askToLoad(at: EngineAddress, name: string, path: string, signal: AbortSignal) {
    const answer = await post(at, loadLora, { lora_name: name, lora_path: path }, signal);
    return { answer, text: await textOf(answer) };
  }
  async function unload(at: EngineAddress, name: string, signal: AbortSignal): Promise<void> {
    const answer = await post(at, unloadLora, { lora_name: name }, signal);
    const text = await textOf(answer);
    // It is gone: what was wanted.
    if (answer.ok || answer.status === 404 || /not found|cannot be found|not loaded/i.test(text)) return;
    throw new Error(`the engine did not unload ${name} (${answer.status}): ${text.slice(0, 500)}`);
  }

  return {
    maxRank,
    unload,
    async load(at, name, path, signal) {
      let { answer, text } = await askToLoad(at, name, path, signal);
      if (!answer.ok && /already/i.test(text)) {
        await unload(at, name, signal);
        ({ answer, text } = await askToLoad(at, name, path, signal));
      }
      if (answer.ok) return;
      const isFull = /adapter_no_room/.test(text);
      throw new AdapterFailure(
        isFull ? "adapter_no_room" : "adapter_load_failed",
        `the engine did not take the adapter (${answer.status}): ${text.slice(0, 500)}`,
        { isFinal: answer.status >= 400 && answer.status < 500 && !isFull },
      );
    },
    async list(at, signal) {
      const answer = await fetch(`${at.origin}/v1/models`, {
        headers: authorizationFor(at),
        signal: AbortSignal.any([signal, AbortSignal.timeout(askLimitMs)]),
      });
      if (!answer.ok) throw new Error(`the engine does not list its models (${answer.status})`);
      return namesIn(JSON.parse(await textOf(answer)));
    },
  };
}

const post = (at: EngineAddress, path: string, body: object, signal: AbortSignal) =>
  fetch(`${at.origin}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...authorizationFor(at) },
    body: JSON.stringify(body),
    signal: AbortSignal.any([signal, AbortSignal.timeout(loadLimitMs)]),
  });

/** An engine is not trusted with the agent's memory. */
async function textOf(answer: Response): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of answer.body ?? []) {
    parts.push(Buffer.from(part));
    bytes += part.length;
    if (bytes > maxText) break;
  }
  return Buffer.concat(parts).toString("utf8", 0, maxText);
}

function namesIn(value: unknown): readonly string[] {
  const { data } = (value ?? {}) as { data?: unknown };
  if (!Array.isArray(data)) return [];
  return data.flatMap(({ id, parent }: { id?: unknown; parent?: unknown }) =>
    typeof id === "string" && typeof parent === "string" ? [id] : [],
  );
}

/** Reason for which an adapter is not served here. `message`: what happened, why, and what to do. */
export class AdapterFailure extends Error {
  readonly code: string;
  readonly isFinal: boolean;
  constructor(code: string, message: string, options: { readonly isFinal: boolean; readonly cause?: unknown }) {
    super(message, { cause: options.cause });
    this.name = "AdapterFailure";
    this.code = code;
    this.isFinal = options.isFinal;
  }
}

/** Errors of the weights cache state whether a retry can help. */
export function asFailure(error: unknown): AdapterFailure {
  if (error instanceof AdapterFailure) return error;
  const { code, retryable, message } = error as { code?: unknown; retryable?: unknown; message: string };
  if (typeof code === "string" && typeof retryable === "boolean")
    return new AdapterFailure(code, message, { isFinal: !retryable, cause: error });
  const text = `the adapter could not be loaded: ${message}`;
  return new AdapterFailure("adapter_failed", text, { isFinal: false, cause: error });
}
