import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { hubAdvice } from "../../../scripts/supervisor/deploy-model.ts";
import { firstModelOf } from "../../../scripts/supervisor/first-models.ts";
import { preflight, spaceNeeded } from "../../../scripts/supervisor/preflight.ts";

const model = (key: string) => {
  const found = firstModelOf(key);
  if (!found) throw new Error(`there is no model ${key}`);
  return found;
};
const smol = model("smollm2-135m");
const megabytes = (bytes: number) => Math.ceil(bytes / 1e6);
let dataDir: string;

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "stoker-preflight-"));
});
afterEach(() => rmSync(dataDir, { recursive: true }));

const needs = (keys: readonly string[], keepsDatabase = true) =>
  megabytes(
    spaceNeeded({
      dataDir,
      demoModelsDirs: [join(dataDir, "demo-models"), join(dataDir, "given")],
      models: keys.map(model),
      keepsDatabase,
    }),
  );
const put = (path: string) => {
  mkdirSync(dirname(join(dataDir, path)), { recursive: true });
  writeFileSync(join(dataDir, path), "");
};

test("requires space for a database and the weights at a first start, and for no weights without a model", () => {
  expect(needs(["smollm2-135m"])).toBe(597);
  expect(needs(["smollm2-135m", "piper-joe"])).toBe(724);
  expect(needs(["Qwen/Qwen3-0.6B"])).toBe(400);
  expect(needs([])).toBe(400);
  expect(needs([], false)).toBe(100);
});

test("requires only a reserve on data that has both", () => {
  put("postgres/cluster/PG_VERSION");
  if (smol.weights?.kind !== "package") throw new Error("the model of the first start comes in a package");
  put(`models/blobs/${smol.weights.sha256}`);
  expect(needs(["smollm2-135m"])).toBe(100);
});

test("counts a database in another folder as present", () => {
  put("postgres.location");
  expect(needs([])).toBe(100);
});

test("counts a model of several packages until its folder exists, also in a folder that is only read", () => {
  put("postgres.location");
  expect(needs(["piper-joe", "kokoro-82m"])).toBe(465);
  put("demo-models/piper-joe/config.json");
  put("given/kokoro-82m/config.json");
  expect(needs(["piper-joe", "kokoro-82m"])).toBe(100);
});

test("names an alternative to the hub only for a model that comes only from a hub", () => {
  expect(hubAdvice(model("all-minilm-l6-v2"), "/data/demo-models")).toMatch(
    /HF_ENDPOINT.*\/data\/demo-models\/all-MiniLM/,
  );
  expect(hubAdvice(model("qwen/qwen3-0.6b"), "/data")).toMatch(/Qwen\/Qwen3-0\.6B.*HF_ENDPOINT.*reaches\.$/);
  expect([hubAdvice(smol, "/data"), hubAdvice(model("piper-joe"), "/data")]).toEqual(["", ""]);
});

test("reports a data folder that is a file", () => {
  put("taken");
  const start = () =>
    preflight({ dataDir: join(dataDir, "taken"), demoModelsDirs: [dataDir], models: [], keepsDatabase: false });
  expect(start).toThrow(/taken is a file; name a folder with --data\.$/);
});
