// A cache in a folder of its own and a hub beside it, for tests; everything is closed and removed by `end`.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { createWeights, type WeightsOptions, type WeightsStore } from "../../../agent/weights/fetch-weights.ts";
import type { WeightsError } from "../../../agent/weights/weights-error.ts";
import { type FakeHub, type HubRepo, startHub } from "../../fakes/hub.ts";

export interface CacheWorld {
  readonly cacheDir: string;
  readonly opened: { close(): Promise<void> }[];
  hub(files: Record<string, Buffer>, more?: Partial<HubRepo>): Promise<FakeHub>;
  store(hub: { readonly url: string }, more?: Partial<WeightsOptions>): WeightsStore;
  end(): Promise<void>;
}

export const repo = "acme/tiny";
export const anySignal = (): AbortSignal => AbortSignal.timeout(30_000);

export async function startCacheWorld(): Promise<CacheWorld> {
  const cacheDir = await mkdtemp(join(tmpdir(), "stoker-weights-"));
  const opened: { close(): Promise<void> }[] = [];
  return {
    cacheDir,
    opened,
    async hub(files, more = {}) {
      const hub = await startHub({ repo, files, ...more });
      opened.push(hub);
      return hub;
    },
    store(hub, more = {}) {
      const store = createWeights({ cacheDir, hfEndpoint: hub.url, log: pino({ level: "silent" }), ...more });
      opened.push(store);
      return store;
    },
    async end() {
      await Promise.all(opened.splice(0).map((one) => one.close()));
      await rm(cacheDir, { recursive: true, force: true });
    },
  };
}

export async function refusal(promise: Promise<unknown>): Promise<WeightsError> {
  return promise.then(
    () => Promise.reject(new Error("it was not refused")),
    (error: WeightsError) => error,
  );
}
