import * as disk from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSharedFolder } from "../../../../agent/weights/shared-folder.ts";

const sha256 = "a".repeat(64);
const content = { key: sha256, sha256, gitSha1: undefined, sizeBytes: 5 };

let folder: string;
beforeAll(async () => {
  folder = await disk.mkdtemp(join(tmpdir(), "stoker-hung-"));
  await disk.mkdir(join(folder, "blobs"));
  await disk.writeFile(join(folder, "blobs", sha256), "bytes");
});
afterAll(() => disk.rm(folder, { recursive: true, force: true }));

describe("a shared folder that hangs", () => {
  it("is skipped after one late call, without another call", async () => {
    let calls = 0;
    const stat = () => {
      calls += 1;
      return new Promise<never>(() => {});
    };
    const shared = createSharedFolder([folder], { ...disk, stat }, 20);
    const found = await Promise.all(Array.from({ length: 20 }, () => shared.source("acme/tiny", content)));
    expect(found.every((one) => one === undefined)).toBe(true);
    expect(await shared.source("acme/tiny", content)).toBeUndefined();
    expect(calls).toBe(1);
  });

  it("ends the read of a file with an error", async () => {
    const open = () => new Promise<never>(() => {});
    // The real calls before it have the same limit.
    const shared = createSharedFolder([folder], { ...disk, open }, 1_000);
    const source = await shared.source("acme/tiny", content);
    const answer = await source?.open({ from: 0, tag: undefined }, AbortSignal.timeout(10_000));
    await expect(answer?.body.toArray()).rejects.toThrow("did not reply within 1000 ms");
  });

  it("sends a file from any byte while it replies", async () => {
    const source = await createSharedFolder([folder]).source("acme/tiny", content);
    const answer = await source?.open({ from: 2, tag: undefined }, AbortSignal.timeout(10_000));
    expect(Buffer.concat((await answer?.body.toArray()) ?? []).toString()).toBe("tes");
  });
});
