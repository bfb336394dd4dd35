// Searches the model hub by the words of its own search. https://huggingface.co/docs/hub/api
import type { AccountId } from "../../proto/ids.ts";
import { isJsonObject } from "../../proto/json-object.ts";
import { keepNewest } from "../../proto/keep-newest.ts";
import { neverConnected } from "../../proto/never-connected.ts";
import { isHubRepo } from "../../proto/weights-address.ts";
import { createAccountSlots } from "../account-slots.ts";
import { rateLimited, unavailable } from "../service-error.ts";
import { hubJson, type WeightsFormat } from "./hub-look.ts";

export interface HubModel {
  /** Repository, `owner/name`. */
  readonly name: string;
  /** Undefined: the hub knows none. */
  readonly task: string | undefined;
  /** In the last 30 days. */
  readonly downloads: number;
  readonly likes: number;
  readonly isGated: boolean;
  /** Weight formats by its tags. */
  readonly formats: readonly WeightsFormat[];
}

export interface HubQuery {
  readonly search: string;
  /** The hub's names; empty: all. */
  readonly tasks: readonly string[];
  readonly limit: number;
}

export interface HubSearch {
  /** Most downloaded first. Throws hubUnavailable, hubBusy, hubTooOften. */
  search(account: AccountId, query: HubQuery): Promise<readonly HubModel[]>;
}

export const hubUnavailable = (cause?: unknown) =>
  unavailable(
    "hub_unavailable",
    "The model hub cannot be reached from this server. Give the repository by name, or try again later.",
    { cause },
  );
const hubDisabled = () =>
  unavailable("hub_unavailable", "The operator disabled the model hub on this server (HF_HUB_OFFLINE).");
const hubBusy = () =>
  rateLimited("too_many_searches", "Too many concurrent searches. Try again in a few seconds.", {
    retryAfterSeconds: 3,
  });

const hubTooOften = (retryAfterSeconds: number) =>
  rateLimited("too_many_searches", `At most ${maxPerMinute} searches a minute. Try again later, or search for less.`, {
    retryAfterSeconds,
  });

/** Searches of an account that ask the hub: a fifth of what the hub allows an address without a token (500 in 5 minutes). */
const maxPerMinute = 20;
const keptMs = 60_000;
/** After a failure, the same search fails at once for this time; all do if the hub cannot be connected to, instead of each waiting for it. */
const failedMs = 10_000;
/** After the hub refused this server's address: its own period is five minutes. */
const refusedMs = 60_000;
const maxKept = 500;
/** The hub's tasks are short; a longer text would be kept with the result. */
const maxTaskLength = 64;
const formatNames: readonly WeightsFormat[] = ["gguf", "safetensors", "onnx"];
const shownFields = ["downloads", "likes", "gated", "pipeline_tag", "tags"];

interface Failure {
  readonly untilMs: number;
  readonly failure: unknown;
}

type Kept = { readonly untilMs: number; readonly models: readonly HubModel[] } | Failure;

/** `endpoint`: HF_ENDPOINT; undefined: the hub is disabled. Results are kept for a minute, for all accounts. */
export function createHubSearch(endpoint: string | undefined, nowMs = () => performance.now()): HubSearch {
  const base = endpoint?.replace(/\/+$/, "");
  const slots = createAccountSlots({
    total: 16,
    perAccount: 2,
    waitMs: 5_000,
    busy: hubBusy,
    perMinute: { max: maxPerMinute, exceeded: hubTooOften },
    nowMs,
  });
  const kept = new Map<string, Kept>();
  /** While the hub cannot be connected to. */
  let unreachable: Failure | undefined;
  /** While the hub refuses this server's address. */
  let refused: Failure | undefined;

  async function ask(url: string): Promise<readonly HubModel[]> {
    const { status, value } = await hubJson(url, {}).catch((failure: unknown) => {
      // A slow, long or invalid response may be due to this search alone.
      if (neverConnected(failure)) unreachable = { untilMs: nowMs() + failedMs, failure };
      throw failure;
    });
    unreachable = undefined;
    if (value !== undefined) return readModels(value);
    const failure = new Error(`the hub answered ${status}`);
    if (status === 429 || status === 503)
      refused = { untilMs: nowMs() + (status === 429 ? refusedMs : failedMs), failure };
    throw failure;
  }

  async function askAll(urls: readonly string[]): Promise<Kept> {
    const answers = urls.map(ask);
    // The slot is held until the last request has ended.
    await Promise.allSettled(answers);
    return Promise.all(answers).then(
      (found) => ({ untilMs: nowMs() + keptMs, models: found.flat().sort((a, b) => b.downloads - a.downloads) }),
      (failure: unknown) => ({ untilMs: nowMs() + failedMs, failure }),
    );
  }

  return {
    async search(account, { search, tasks, limit }) {
      if (base === undefined) throw hubDisabled();
      // The hub filters by one task.
      const urls = (tasks.length > 0 ? tasks : [undefined]).map((task) => {
        const query = new URLSearchParams({ search, sort: "downloads", direction: "-1", limit: `${limit}` });
        if (task !== undefined) query.set("pipeline_tag", task);
        for (const field of shownFields) query.append("expand[]", field);
        return `${base}/api/models?${query}`;
      });
      const key = urls.join(" ");
      let known = kept.get(key);
      if (!known || nowMs() >= known.untilMs) {
        for (const down of [unreachable, refused])
          if (down && nowMs() < down.untilMs) throw hubUnavailable(down.failure);
        known = keepNewest(kept, key, await slots.run(account, () => askAll(urls)), maxKept);
      }
      if ("failure" in known) throw hubUnavailable(known.failure);
      return known.models.slice(0, limit);
    },
  };
}

/** Parses the hub's response; leaves out what is no repository. Throws if it is no list. */
export function readModels(value: unknown): readonly HubModel[] {
  if (!Array.isArray(value)) throw new Error("the hub's response is no list");
  return value.flatMap((one) => {
    const { id, pipeline_tag: task, downloads, likes, gated, tags } = isJsonObject(one) ? one : {};
    if (typeof id !== "string" || !isHubRepo(id)) return [];
    const labels = Array.isArray(tags) ? tags : [];
    return {
      name: id,
      task: typeof task === "string" && task.length <= maxTaskLength ? task : undefined,
      downloads: countOf(downloads),
      likes: countOf(likes),
      isGated: gated !== undefined && gated !== null && gated !== false,
      formats: formatNames.filter((format) => labels.includes(format)),
    };
  });
}

const countOf = (value: unknown): number => (Number.isSafeInteger(value) ? Math.max(0, Number(value)) : 0);
