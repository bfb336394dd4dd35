// Prefetches weights that the operator listed for this host: one after the other, with retries while they can help.
import type { Logger } from "pino";
import type { Prefetch__Output } from "../../proto/gen/stoker/fleet/v1/Prefetch.ts";
import { pause } from "../../proto/pause.ts";
import type { WeightsStore } from "./fetch-weights.ts";
import { WeightsError } from "./weights-error.ts";

export interface PrefetchState {
  readonly id: string;
  readonly key: string | undefined;
  readonly repo: string;
  readonly revision: string;
  readonly pinned: boolean;
  readonly done: number;
  readonly total: number;
  /** Both empty without a failure. */
  readonly failCode: string;
  readonly failMessage: string;
}

const firstDelayMs = 15_000;
const longestDelayMs = 600_000;

export function createPrefetcher(deps: {
  readonly store: Pick<WeightsStore, "ensure" | "keyOf">;
  readonly failed: (code: string) => void;
  readonly log: Logger;
}) {
  const running = new Map<string, { readonly wanted: string; readonly stop: AbortController }>();
  const states = new Map<string, PrefetchState>();
  const ended = new Set<Promise<void>>();
  let turn: Promise<void> = Promise.resolve();

  /** One download at a time: starting instances have the rest of the network. */
  function inTurn(work: () => Promise<unknown>): Promise<void> {
    const mine = turn.then(async () => void (await work()));
    turn = mine.catch(() => {});
    return mine;
  }

  async function fetch({ id, weights }: Prefetch__Output, signal: AbortSignal): Promise<void> {
    const change = (more: Partial<PrefetchState>) => {
      const state = states.get(id);
      if (state && !signal.aborted) states.set(id, { ...state, ...more });
    };
    for (let delayMs = firstDelayMs; !signal.aborted; delayMs = Math.min(2 * delayMs, longestDelayMs)) {
      try {
        const progress = (done: number, total: number) => change({ done, total });
        if (weights) await inTurn(() => deps.store.ensure(weights, progress, signal));
        change({ failCode: "", failMessage: "" });
        return;
      } catch (error) {
        if (signal.aborted) return;
        const { code, message, retryable } =
          error instanceof WeightsError
            ? error
            : { code: "weights_failed", message: (error as Error).message, retryable: true };
        change({ failCode: code, failMessage: message });
        deps.failed(code);
        deps.log.warn({ prefetch: id, repo: weights?.repo, code, why: message }, "could not prefetch weights");
        if (!retryable) return;
        await pause(delayMs, signal);
      }
    }
  }

  return {
    /** Replaces the whole list. Removed entries are no longer fetched; their weights stay until they are evicted. */
    want(list: readonly Prefetch__Output[]) {
      const desired = new Map(list.map((one) => [one.id, JSON.stringify(one.weights)]));
      for (const [id, { wanted, stop }] of running) {
        if (desired.get(id) === wanted) continue;
        stop.abort();
        running.delete(id);
        states.delete(id);
      }
      for (const one of list) {
        const { id, pinned, weights } = one;
        const state = states.get(id);
        if (state) states.set(id, { ...state, pinned });
        if (running.has(id) || !weights) continue;
        const stop = new AbortController();
        const { repo, revision } = weights;
        const fresh = { id, repo, revision, pinned, done: 0, total: 0, failCode: "", failMessage: "" };
        states.set(id, { ...fresh, key: deps.store.keyOf(weights) });
        running.set(id, { wanted: desired.get(id) ?? "", stop });
        const work = fetch(one, stop.signal).finally(() => ended.delete(work));
        ended.add(work);
      }
    },
    state: () => [...states.values()],
    async close() {
      for (const { stop } of running.values()) stop.abort();
      await Promise.all(ended);
    },
  };
}
