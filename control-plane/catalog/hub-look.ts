// Reads a hub repository's metadata before any download: its task and weight formats.

import { Agent, type Dispatcher, fetch, type Response } from "undici";
import { detectTask } from "../../proto/model-task.ts";
import { guardedLookup, type Reach, reachOf, refuseBeyond } from "../../proto/redirect-reach.ts";
import { isHubRepo } from "../../proto/weights-address.ts";

export type WeightsFormat = "gguf" | "safetensors" | "onnx";

export type RepoLook =
  | {
      readonly kind: "found";
      readonly formats: ReadonlySet<WeightsFormat>;
      /** From the hub, otherwise from the model's configuration; undefined: neither has one. */
      readonly task: string | undefined;
      /** Base model of an adapter; undefined: none given. */
      readonly baseModel: string | undefined;
      readonly files: readonly string[];
      /** Current commit of the revision. */
      readonly commit?: string;
    }
  /** Not found, or not readable with this token. */
  | { readonly kind: "missing" }
  | { readonly kind: "unreachable" };

/** Never throws. The token is not stored. */
export type LookAtRepo = (repo: string, revision: string, token: string | undefined) => Promise<RepoLook>;

const maxBytes = 8 * 1024 * 1024;

/** `endpoint`: HF_ENDPOINT; undefined: the hub is disabled. https://huggingface.co/docs/hub/api */
export function createHubLook(endpoint: string | undefined): LookAtRepo {
  return async (repo, revision, token) => {
    if (endpoint === undefined || !isHubRepo(repo)) return { kind: "unreachable" };
    const base = endpoint.replace(/\/+$/, "");
    const at = encodeURIComponent(revision);
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    try {
      const { status, value } = await hubJson(`${base}/api/models/${repo}/revision/${at}`, headers);
      if ([401, 403, 404].includes(status)) return { kind: "missing" };
      if (value === undefined) return { kind: "unreachable" };
      const found = readLook(value);
      if (found.kind !== "found" || found.task !== undefined) return found;
      return {
        ...found,
        task: await configuredTask(`${base}/${repo}/resolve/${at}/config.json`, headers, found.files),
      };
    } catch {
      return { kind: "unreachable" };
    }
  };
}

/** Derives the task of a repository without metadata from its files. Undefined when they do not determine it. */
async function configuredTask(
  url: string,
  headers: Readonly<Record<string, string>>,
  files: readonly string[],
): Promise<string | undefined> {
  if (!files.includes("config.json")) return taskOfConfig({}, files);
  try {
    const { value } = await hubJson(url, headers);
    return value === undefined ? undefined : taskOfConfig(asObject(value), files);
  } catch {
    return undefined;
  }
}

function taskOfConfig(config: Readonly<Record<string, unknown>>, files: readonly string[]): string | undefined {
  const list = Array.isArray(config["architectures"]) ? config["architectures"] : [];
  const writes = list.some((name) => typeof name === "string" && /ForCausalLM$/.test(name));
  return detectTask(config, new Set(files)) ?? (writes ? "text-generation" : undefined);
}

/** Parses the hub's response. Pure. */
export function readLook(value: unknown): RepoLook {
  const facts = asObject(value);
  const siblings = Array.isArray(facts["siblings"]) ? facts["siblings"] : [];
  const files = siblings.map((one) => asObject(one)["rfilename"]).filter((name) => typeof name === "string");
  const formats = new Set<WeightsFormat>();
  for (const file of files) {
    const format = /\.(gguf|safetensors|onnx)$/i.exec(file)?.[1]?.toLowerCase();
    if (format !== undefined) formats.add(format as WeightsFormat);
  }
  const baseModel = asObject(facts["cardData"])["base_model"];
  return {
    kind: "found",
    formats,
    files,
    ...(typeof facts["sha"] === "string" && /^[0-9a-f]{40}$/.test(facts["sha"]) ? { commit: facts["sha"] } : {}),
    task: typeof facts["pipeline_tag"] === "string" ? facts["pipeline_tag"] : undefined,
    baseModel: typeof baseModel === "string" ? baseModel : undefined,
  };
}

/**
 * Parsed body of a hub's successful response; undefined for other statuses. Rejects as hubFetch does, and for a body that is longer than
 * 8 MiB or no JSON.
 */
export async function hubJson(
  address: string,
  headers: Readonly<Record<string, string>>,
): Promise<{ readonly status: number; readonly value: unknown }> {
  const answer = await hubFetch(address, headers);
  const { status } = answer;
  if (answer.ok) return { status, value: JSON.parse(await boundedText(answer)) };
  await answer.body?.cancel();
  return { status, value: undefined };
}

async function boundedText(answer: Response): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of answer.body ?? []) {
    bytes += part.length;
    if (bytes > maxBytes) throw new Error("the hub's response is too long");
    parts.push(Buffer.from(part));
  }
  return Buffer.concat(parts).toString();
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

// GET requests to the operator's hub. Each redirect is checked before it is followed, and gets the token only on the hub's own
// origin.
const limitMs = 5_000;
/** Below `limitMs`, so that a hub without a connection is told from a slow one. */
const connectLimitMs = 3_000;
const maxRedirects = 5;

const direct = new Agent({ connect: { timeout: connectLimitMs } });
const through: Readonly<Record<Reach, Dispatcher>> = {
  outside: new Agent({ connect: { timeout: connectLimitMs, lookup: guardedLookup("outside") } }),
  notHere: new Agent({ connect: { timeout: connectLimitMs, lookup: guardedLookup("notHere") } }),
};

/** Rejects after 5 s, for a redirect to an address that is not allowed, and with fetch's own errors. Any status resolves. */
export async function hubFetch(address: string, headers: Readonly<Record<string, string>>): Promise<Response> {
  const first = new URL(address);
  const signal = AbortSignal.timeout(limitMs);
  const { authorization, ...others } = headers;
  let url = first;
  for (let hops = 0; hops <= maxRedirects; hops++) {
    const reach = hops === 0 ? undefined : await reachOf(first, url);
    if (reach) refuseBeyond(reach, url);
    const token = authorization !== undefined && url.origin === first.origin ? { authorization } : {};
    const answer = await fetch(url, {
      headers: { ...others, ...token },
      redirect: "manual",
      signal,
      dispatcher: reach ? through[reach] : direct,
    });
    const location = answer.status >= 300 && answer.status < 400 ? answer.headers.get("location") : null;
    if (location === null) return answer;
    await answer.body?.cancel();
    const next = new URL(location, url);
    if (!/^https?:$/.test(next.protocol) || (url.protocol === "https:" && next.protocol === "http:"))
      throw new Error(`${url.host} redirects to ${next.protocol}, which is not followed`);
    url = next;
  }
  throw new Error(`${first.host} redirects more than ${maxRedirects} times`);
}
