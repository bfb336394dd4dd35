// A cache with a limit: what nobody uses goes first, what somebody uses never does.
import { createHash, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { startFileServer } from "../../fakes/file-server.ts";
import { anySignal, type CacheWorld, refusal, repo, startCacheWorld } from "./cache-world.ts";

const model = (): Buffer => Buffer.concat([Buffer.from("GGUF"), randomBytes(100_000)]);
const files = {
  "a.gguf": model(),
  "b.gguf": model(),
  "c.gguf": model(),
  "d.gguf": Buffer.concat([model(), model(), model()]),
};
const room = { quotaBytes: 250_000, freeBytes: async () => 1e12 };
const of = (file: string) => ({ repo, file });

let world: CacheWorld;
beforeEach(async () => {
  world = await startCacheWorld();
});
afterEach(() => world.end());

/** Fetches one after the other, each used later than the last. */
async function fill(store: ReturnType<CacheWorld["store"]>, ...names: string[]): Promise<string[]> {
  const paths: string[] = [];
  for (const name of names) {
    paths.push((await store.ensure(of(name), () => {}, anySignal())).modelPath);
    const usedAtMs = Date.now();
    await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(usedAtMs), { interval: 1 });
  }
  return paths;
}

/** A part that an ended process left, older than the next one. */
async function leavePart(key: string, bytes: Buffer): Promise<string> {
  const path = join(world.cacheDir, "blobs", `${key}.1-1.${key.slice(0, 8)}.incomplete`);
  await writeFile(path, bytes);
  await utimes(path, 0, 0);
  const { ctimeMs } = await stat(path);
  await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(ctimeMs + 10), { interval: 1 });
  return path;
}

const digestOf = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** A registry that announces one file of this size, sends a few bytes of it, then nothing more. */
async function startRegistry(size: number) {
  const layer = { mediaType: "application/vnd.ollama.image.model", digest: `sha256:${"c".repeat(64)}`, size };
  const server = await startFileServer(() => (_, response, path) => {
    if (path.includes("/manifests/")) response.end(JSON.stringify({ schemaVersion: 2, layers: [layer] }));
    else response.writeHead(200, { "content-length": String(size) }).write(Buffer.alloc(100_000));
  });
  world.opened.push(server);
  return { url: server.url, model: { repo: `oci://${new URL(server.url).host}/a/m` } };
}

describe("a cache that is full", () => {
  it("lets go what was used longest ago, with its bytes and its names", async () => {
    const store = world.store(await world.hub(files), room);
    store.hold([]);
    const [a = "", b = ""] = await fill(store, "a.gguf", "b.gguf", "a.gguf");
    const [c = ""] = await fill(store, "c.gguf");
    expect([a, b, c].map(existsSync)).toEqual([true, false, true]);
    const blobs = (await readdir(join(world.cacheDir, "blobs"))).filter((name) => !name.endsWith(".verified"));
    expect(blobs).toHaveLength(2);
    expect((await store.list()).map(({ sizeBytes }) => sizeBytes)).toEqual([100_004, 100_004]);
  });

  it("keeps what is in use or pinned, and refuses what does not fit beside it before the first byte", async () => {
    const hub = await world.hub(files);
    const store = world.store(hub, room);
    store.hold([of("a.gguf"), of("b.gguf")]);
    const kept = await fill(store, "a.gguf", "b.gguf");
    const before = hub.sentBytes;
    const error = await refusal(store.ensure(of("c.gguf"), () => {}, anySignal()));
    expect(error).toMatchObject({ code: "hub_disk_full", retryable: false });
    expect(error.message).toContain("STOKER_MODELS_QUOTA_BYTES");
    expect(hub.sentBytes).toBe(before);
    expect(kept.every(existsSync)).toBe(true);
    store.hold([of("b.gguf")]);
    await fill(store, "c.gguf");
    expect(kept.map(existsSync)).toEqual([false, true]);
  });

  it("throws nothing out for what could never fit", async () => {
    const store = world.store(await world.hub(files), room);
    store.hold([]);
    const kept = await fill(store, "a.gguf", "b.gguf");
    const error = await refusal(store.ensure(of("d.gguf"), () => {}, anySignal()));
    expect(error.code).toBe("hub_disk_full");
    expect(kept.every(existsSync)).toBe(true);
  });

  it("evicts nothing for weights that do not fit beside what is held, or on the disk", async () => {
    const hub = await world.hub({ ...files, "e.gguf": Buffer.concat([model(), model()]) });
    const store = world.store(hub, room);
    store.hold([of("a.gguf")]);
    const kept = await fill(store, "a.gguf", "b.gguf");
    expect((await refusal(store.ensure(of("e.gguf"), () => {}, anySignal()))).code).toBe("hub_disk_full");
    expect(kept.every(existsSync)).toBe(true);
    const registry = await startRegistry(5e15);
    const unlimited = world.store(hub, { freeBytes: room.freeBytes, trustedOrigins: [registry.url] });
    unlimited.hold([]);
    expect((await refusal(unlimited.ensure(registry.model, () => {}, anySignal()))).code).toBe("hub_disk_full");
    expect(kept.every(existsSync)).toBe(true);
  });

  it("removes parts that nobody writes first, the oldest one first, but not the one that is continued", async () => {
    const hub = await world.hub(files);
    const store = world.store(hub, room);
    store.hold([]);
    const [a = ""] = await fill(store, "a.gguf");
    const own = await leavePart(digestOf(files["b.gguf"]), files["b.gguf"].subarray(0, 20_000));
    const old = await leavePart("a".repeat(64), Buffer.alloc(70_000));
    const young = await leavePart("b".repeat(64), Buffer.alloc(30_000));
    const before = hub.sentBytes;
    const [b = ""] = await fill(store, "b.gguf");
    expect([a, b, own, old, young].map(existsSync)).toEqual([true, true, false, false, true]);
    expect(hub.sentBytes - before).toBe(files["b.gguf"].length - 20_000);
  });

  it("keeps no part of a failed download from a customer's registry", async () => {
    const registry = await startRegistry(3_000_000);
    const store = world.store(registry, { trustedOrigins: [registry.url] });
    const stop = new AbortController();
    const onProgress = (done: number) => void (done > 0 && stop.abort());
    await expect(store.ensure(registry.model, onProgress, stop.signal)).rejects.toThrow();
    await vi.waitFor(async () => expect(await readdir(join(world.cacheDir, "blobs"))).toEqual([]));
  });

  it("makes room on a disk that others filled as well", async () => {
    let free = 1e12;
    const store = world.store(await world.hub(files), { freeBytes: async () => free });
    store.hold([]);
    const [a = ""] = await fill(store, "a.gguf");
    free = 64 * 1024 * 1024;
    const late = refusal(store.ensure(of("b.gguf"), () => {}, anySignal()));
    expect((await late).code).toBe("hub_disk_full");
    expect(existsSync(a)).toBe(false);
  });

  it("keeps what another agent on the same cache says it needs, until that agent is gone for a minute", async () => {
    const hub = await world.hub(files);
    const other = world.store(hub, room);
    other.hold([of("a.gguf")]);
    const [a = ""] = await fill(other, "a.gguf");
    await vi.waitFor(async () => expect(await readdir(join(world.cacheDir, "leases"))).toHaveLength(1), {
      timeout: 20_000,
    });
    const mine = world.store(hub, room);
    mine.hold([]);
    await fill(mine, "b.gguf", "c.gguf");
    expect(existsSync(a)).toBe(true);
    await other.close();
    await fill(mine, "b.gguf");
    expect(existsSync(a)).toBe(false);
  });
});
