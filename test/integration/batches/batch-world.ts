// Batches of one account on a real PostgreSQL and a real folder; the requests of their lines are the tests' own.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import type { Caller } from "../../../control-plane/accounts/caller.ts";
import type { BatchId } from "../../../control-plane/batches/batch.ts";
import { createBatches } from "../../../control-plane/batches/batches.ts";
import type { LineAnswer, LineWork } from "../../../control-plane/batches/line.ts";
import { Pace } from "../../../control-plane/batches/pace.ts";
import { type RunDeps, runBatch } from "../../../control-plane/batches/run-batch.ts";
import { createFolderBlobs } from "../../../control-plane/blobs/folder-blobs.ts";
import type { ServedModel } from "../../../control-plane/catalog/served-model.ts";
import { createFiles } from "../../../control-plane/files/files.ts";
import { createBatchStore } from "../../../control-plane/store/work/batch-store.ts";
import { createFileStore } from "../../../control-plane/store/work/file-store.ts";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld } from "../billing/world.ts";

export const { signal: never } = new AbortController();
const deployId = "deployment" as DeploymentId;
const model = { deployId } as ServedModel;
const resolve = (name: string) => (name === "acme/model" ? model : undefined);
export const models: RunDeps["models"] = {
  resolve,
  resolveModel: resolve,
  find: resolve,
  list: () => [model],
  aliasOf: () => undefined,
  aliases: () => [],
};
const route = { deployId, maxBatchSize: 64, inFlight: 0 };
export const routes = { ready: () => [route] } as unknown as ConstructorParameters<typeof Pace>[0]["routes"];

export const answer = (status = 200): LineAnswer => ({ kind: "answered", status, body: "{}", tokens: undefined });
export const numberOf = ({ requestId }: LineWork) => Number(requestId.split("_").at(-1));

export const request = (n: number, change: object = {}) =>
  JSON.stringify({
    custom_id: `r${n}`,
    method: "POST",
    url: "/v1/completions",
    body: { model: "acme/model", prompt: "hello" },
    ...change,
  });
export const requests = (count: number) => Array.from({ length: count }, (_, n) => request(n + 1));

export type BatchWorld = Awaited<ReturnType<typeof openBatchWorld>>;

export async function openBatchWorld(postgres: TestDatabases) {
  const world = await openWorld(postgres);
  const folder = mkdtempSync(join(tmpdir(), "stoker-batches-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const limits = { bytes: 64e6, batchBytes: 64e6, quotaBytes: 64e6 };
  const files = createFiles({ store: createFileStore(world.db), blobs: createFolderBlobs(folder), limits });
  const store = createBatchStore(world.db);
  const callerOf = async () => {
    const account = await world.account(0n);
    return { account, key: await world.keyOf(account) } as Caller;
  };
  const caller = await callerOf();

  async function create(lines: readonly string[], metadata: Record<string, string> | null = null, by = caller) {
    const staged = await files.stage(by.account, Readable.from([lines.join("\n")]), never);
    const { id: inputFile } = await staged.keep({ filename: "a.jsonl", expiresAfterMs: undefined });
    const verbs = createBatches({ store, created: () => {} });
    return verbs.create(by, { endpoint: "/v1/completions", inputFile, metadata, outputExpiresAfterMs: undefined });
  }

  /** The lock it takes is over at once. */
  async function claimNext(lockMs = 0) {
    const [next] = await store.due(1);
    return next && store.claim(next.id, lockMs);
  }

  /** Takes up the only batch there is and runs it. */
  async function runOnce(runLine: RunDeps["runLine"], change: Partial<RunDeps> = {}, stopping = never): Promise<void> {
    const deps: RunDeps = {
      store,
      files,
      models,
      runLine,
      pace: new Pace({ routes, waiting: () => 0, maxPerModel: 32, hasCapacity: () => true }),
      callerOf: async () => caller,
      maxConcurrent: 32,
      maxOutputBytes: 64e6,
      lockMs: 60_000,
      firstPauseMs: 0,
      nowMs: Date.now,
      log,
      ...change,
    };
    const run = await claimNext();
    if (!run) throw new Error("no batch can be taken up");
    await runBatch(deps, run, stopping);
  }

  const state = async (id: BatchId) => {
    const batch = await store.find(caller.account, id);
    if (!batch) throw new Error("the batch is gone");
    return batch;
  };
  const idsOf = async (file: string | null) =>
    file === null
      ? []
      : (await text((await files.content(caller.account, file)).body))
          .trimEnd()
          .split("\n")
          .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);

  return { world, folder, files, store, caller, callerOf, create, claimNext, runOnce, state, idsOf };
}
