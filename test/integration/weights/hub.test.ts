// Weights from a hub on this machine that misbehaves in the ways real ones and the networks before them do.
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWeights, type WeightsOptions, type WeightsStore } from "../../../agent/weights/fetch-weights.ts";
import type { WeightsError } from "../../../agent/weights/weights-error.ts";
import { type FakeHub, type HubRepo, startContentHost, startHub } from "../../fakes/hub.ts";

const model = Buffer.concat([Buffer.from("GGUF"), randomBytes(3_000_000)]);
const other = Buffer.concat([Buffer.from("GGUF"), randomBytes(1000)]);
const repo = "acme/tiny-GGUF";
const wanted = { repo, file: "tiny.Q4_K_M.gguf" };
const anySignal = (): AbortSignal => AbortSignal.timeout(30_000);

let cacheDir: string;
const open: { close(): Promise<void> }[] = [];

beforeEach(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), "stoker-weights-"));
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
  await rm(cacheDir, { recursive: true, force: true });
});

async function hubWith(files: Record<string, Buffer>, more: Partial<HubRepo> = {}): Promise<FakeHub> {
  const hub = await startHub({ repo, files, ...more });
  open.push(hub);
  return hub;
}
function storeFor(hub: { url: string }, more: Partial<WeightsOptions> = {}): WeightsStore {
  const store = createWeights({ cacheDir, hfEndpoint: hub.url, log: pino({ level: "silent" }), ...more });
  open.push(store);
  return store;
}
async function refusal(promise: Promise<unknown>): Promise<WeightsError> {
  return promise.then(
    () => Promise.reject(new Error("it was not refused")),
    (error: WeightsError) => error,
  );
}
const downloads = (hub: FakeHub): (string | undefined)[] =>
  hub.requests.filter(({ method, path }) => method === "GET" && path.includes("/resolve/")).map(({ range }) => range);
const incomplete = async (): Promise<string[]> =>
  (await readdir(join(cacheDir, "blobs"))).filter((name) => name.endsWith(".incomplete"));

describe("weights from a hub", () => {
  it("arrive verified under their own name, by the commit the branch stood at, with progress in bytes", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    const progress: number[][] = [];
    const { modelPath } = await storeFor(hub).ensure(
      wanted,
      (done, total) => progress.push([done, total]),
      anySignal(),
    );
    expect(modelPath).toMatch(/tiny\.Q4_K_M\.gguf$/);
    expect(model.equals(await readFile(modelPath))).toBe(true);
    expect(progress.at(-1)).toEqual([model.length, model.length]);
    expect(hub.requests.at(-1)?.path).toContain(hub.commit);
    expect((await stat(modelPath)).mode & 0o004).toBe(0o004);
  });

  it("are chosen as Q4_K_M when the deployment names no file", async () => {
    const hub = await hubWith({ "README.md": other, "tiny.Q8_0.gguf": other, "tiny.Q4_K_M.gguf": model });
    const { modelPath } = await storeFor(hub).ensure({ repo }, () => {}, anySignal());
    expect(modelPath).toMatch(/tiny\.Q4_K_M\.gguf$/);
  });

  it("are not downloaded twice, and not asked for again when a commit is pinned", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    const first = await storeFor(hub).ensure({ ...wanted, revision: hub.commit }, () => {}, anySignal());
    const before = hub.requests.length;
    const again = await storeFor(hub).ensure({ ...wanted, revision: hub.commit }, () => {}, anySignal());
    expect(again).toEqual(first);
    expect(hub.requests.length).toBe(before);
    await storeFor(hub).ensure(wanted, () => {}, anySignal());
    expect(downloads(hub)).toHaveLength(1);
  });

  it("already here are used while the hub is away, but only for who was allowed to read them", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model }, { token: "hf_right" });
    const store = storeFor(hub);
    const first = await store.ensure({ ...wanted, token: "hf_right" }, () => {}, anySignal());
    await hub.close();
    expect(await store.ensure({ ...wanted, token: "hf_right" }, () => {}, anySignal())).toEqual(first);
    const refused = await refusal(store.ensure({ ...wanted, token: "hf_other" }, () => {}, anySignal()));
    expect(refused.code).toBe("hub_unreachable");
  });

  it("go on where a cut connection ended, without a byte twice", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    hub.faults.cut = { afterBytes: 1_000_000, times: 2 };
    const { modelPath } = await storeFor(hub).ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
    const [whole, ...resumed] = downloads(hub);
    expect(whole).toBeUndefined();
    expect(resumed.length).toBeGreaterThanOrEqual(1);
    for (const range of resumed) expect(range).toMatch(/^bytes=[1-9]\d*-$/);
    expect(await incomplete()).toEqual([]);
  });

  it("start again where the hub ignores the range", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    hub.faults.cut = { afterBytes: 1_000_000, times: 1 };
    hub.faults.ignoreRange = true;
    const { modelPath } = await storeFor(hub).ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
  });

  it("are resumed by the next process after an abort in the middle", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    hub.faults.stallAfterBytes = 1_500_000;
    const stop = new AbortController();
    const first = storeFor(hub).ensure(
      wanted,
      (done) => done >= 1_500_000 && stop.abort(new Error("stopped")),
      stop.signal,
    );
    expect((await refusal(first)).message).toBe("stopped");
    expect(await incomplete()).toHaveLength(1);

    delete hub.faults.stallAfterBytes;
    const { modelPath } = await storeFor(hub).ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
    expect(downloads(hub).at(-1)).toBe("bytes=1500000-");
  });

  it("asked for twice at once are downloaded once, and one asker's leaving does not stop the other", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    hub.faults.cut = { afterBytes: 1_000_000, times: 1 };
    const store = storeFor(hub);
    const stop = new AbortController();
    const leaving = refusal(store.ensure(wanted, () => stop.abort(new Error("left")), stop.signal));
    const staying = store.ensure(wanted, () => {}, anySignal());
    expect((await leaving).message).toBe("left");
    expect(model.equals(await readFile((await staying).modelPath))).toBe(true);
    expect(downloads(hub).filter((range) => range === undefined)).toHaveLength(1);
  });

  it("fetched by two agents of one machine at once end as the same sound file", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    hub.faults.cut = { afterBytes: 1_000_000, times: 1 };
    const both = await Promise.all([1, 2].map(() => storeFor(hub).ensure(wanted, () => {}, anySignal())));
    expect(both[0]).toEqual(both[1]);
    expect(model.equals(await readFile(both[0]?.modelPath ?? ""))).toBe(true);
    expect(await incomplete()).toEqual([]);
  });

  it("that are damaged are thrown away and never handed out", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    hub.faults.corrupt = 100;
    const refused = await refusal(storeFor(hub).ensure(wanted, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_checksum_mismatch", retryable: false });
    expect(await readdir(join(cacheDir, "blobs"))).toEqual([]);
  });

  it("whose earlier part was damaged on disk are downloaded once more from the start", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    hub.faults.stallAfterBytes = 1_500_000;
    const stop = new AbortController();
    await refusal(storeFor(hub).ensure(wanted, (done) => done >= 1_500_000 && stop.abort(), stop.signal));
    const [part = ""] = await incomplete();
    await writeFile(join(cacheDir, "blobs", part), randomBytes(1_500_000));
    // As an ended download leaves it: nobody holds it any more.
    await utimes(join(cacheDir, "blobs", part), 0, 0);
    delete hub.faults.stallAfterBytes;
    const { modelPath } = await storeFor(hub).ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
  });

  it("that are not the pinned file are refused before the first byte", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    const refused = await refusal(storeFor(hub).ensure({ ...wanted, sha256: "ab".repeat(32) }, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_checksum_mismatch", retryable: false });
    expect(downloads(hub)).toEqual([]);
  });

  it("come from another host without the token", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model }, { token: "hf_secret" });
    const content = await startContentHost({ "tiny.Q4_K_M.gguf": model });
    open.push(content);
    hub.redirectTo = content.url;
    const { modelPath } = await storeFor(hub, { hfToken: "hf_secret" }).ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
    expect(hub.requests.every(({ authorization }) => authorization === "Bearer hf_secret")).toBe(true);
    expect(content.requests.map(({ authorization }) => authorization)).toEqual([undefined]);
  });

  it("that do not fit the disk are refused before the first byte, with the numbers", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    const store = storeFor(hub, { freeBytes: async () => 2_000_000 });
    const refused = await refusal(store.ensure(wanted, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_disk_full", retryable: false });
    expect(refused.message).toMatch(/71 MB.*2 MB are free/);
    expect(downloads(hub)).toEqual([]);
  });
});

describe("a hub that refuses", () => {
  const cases = [
    { status: 401, error: "RepoNotFound", code: "hub_repo_not_found", retryable: false },
    { status: 404, error: "RepoNotFound", code: "hub_repo_not_found", retryable: false },
    { status: 401, error: "GatedRepo", code: "hub_gated_no_token", retryable: false },
    { status: 404, error: "RevisionNotFound", code: "hub_revision_not_found", retryable: false },
    { status: 404, error: "EntryNotFound", code: "hub_file_not_found", retryable: false },
    { status: 429, error: "", code: "hub_rate_limited", retryable: true },
    { status: 503, error: "", code: "hub_failed", retryable: true },
  ];
  it.each(cases)("with $status $error fails as $code", async ({ status, error, code, retryable }) => {
    const hub = await hubWith({});
    hub.faults.refuse = { status, headers: error ? { "x-error-code": error } : {} };
    const refused = await refusal(storeFor(hub).ensure({ repo }, () => {}, anySignal()));
    expect(refused).toMatchObject({ name: "WeightsError", code, retryable });
  });

  it("a token without access is told so", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model }, { token: "hf_right" });
    const refused = await refusal(storeFor(hub).ensure({ ...wanted, token: "hf_wrong" }, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_gated_no_access", retryable: false });
    expect(refused.message).not.toContain("hf_wrong");
  });

  it("is away: one sentence at once, worth a retry", async () => {
    const hub = await hubWith({});
    await hub.close();
    const refused = await refusal(storeFor(hub).ensure(wanted, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_unreachable", retryable: true });
    expect(refused.message).toMatch(/could not be reached \(it refused the connection\): .*HF_ENDPOINT/);
  });

  it("has safetensors only: a terminal error that names what would work", async () => {
    const hub = await hubWith({ "model.safetensors": other, "config.json": other });
    const refused = await refusal(storeFor(hub).ensure({ repo }, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "weights_unsupported", retryable: false });
    expect(refused.message).toMatch(/safetensors.*GGUF/);
  });

  it("that never stops cutting ends as unreachable instead of a loop", async () => {
    const hub = await hubWith({ "tiny.Q4_K_M.gguf": model });
    hub.faults.cut = { afterBytes: 0, times: 1000 };
    const refused = await refusal(storeFor(hub).ensure(wanted, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_unreachable", retryable: true });
    expect(downloads(hub).length).toBeLessThan(10);
  });
});
