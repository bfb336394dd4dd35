// The real Infinity (infinity-emb) with a small model, as an external server behind keys, gate, metering and billing.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { freePort } from "../../fakes/free-port.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";

const promise = "a real Infinity as an external server";
const program = process.env["STOKER_INFINITY_BIN"] ?? "";
const isHere = isNightly && existsSync(program);
if (isNightly && !isHere)
  process.stderr.write(
    `\nNOT PROVEN: ${promise}: set STOKER_INFINITY_BIN to an infinity_emb (docs/operations/models.md)\n`,
  );
const folder = isHere ? sharedModel("all-MiniLM-L6-v2", promise) : undefined;
const name = "infinity/minilm";
const apiKey = "infinity-key";

const cosine = (a: readonly number[], b: readonly number[]): number => {
  const dot = (x: readonly number[], y: readonly number[]) => x.reduce((sum, value, i) => sum + value * (y[i] ?? 0), 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};

describe.runIf(folder !== undefined)("Infinity", () => {
  const patient = { timeout: 280_000, interval: 500 };
  let server: ChildProcess;
  let stack: Stack;
  let deployId: string;

  beforeAll(async () => {
    const port = await freePort();
    const model = ["--model-id", folder ?? "", "--served-model-name", name, "--engine", "optimum", "--device", "cpu"];
    const place = ["--host", "127.0.0.1", "--port", String(port), "--url-prefix", "/v1", "--api-key", apiKey];
    const plain = ["--pooling-method", "mean", "--no-model-warmup", "--no-bettertransformer"];
    const env = { ...process.env, DO_NOT_TRACK: "1", HF_HUB_OFFLINE: "1", INFINITY_ANONYMOUS_USAGE_STATS: "0" };
    server = spawn(program, ["v2", ...model, ...place, ...plain], { stdio: ["ignore", "ignore", "inherit"], env });
    stack = await startStack();
    await vi.waitFor(async () => {
      if (server.exitCode !== null) return;
      expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
    }, patient);
    expect(server.exitCode, "the server's own exit").toBeNull();
    const made = await stack.call("POST", "/v1/admin/external", {
      name,
      url: `http://127.0.0.1:${port}`,
      task: "embeddings",
      api_key: apiKey,
    });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    deployId = made.body.deploy_id;
    await vi.waitFor(
      async () => expect((await stack.call("GET", `/deploy/${deployId}`)).body.status).toBe("deployed"),
      patient,
    );
    const pricing = { input: 1, cached_input: 1, output: 0 };
    await stack.call("PUT", `/v1/admin/models/${name}`, { deploy_id: deployId, description: "", pricing });
  }, 300_000);
  afterAll(async () => {
    server?.kill("SIGKILL");
    await stack?.stop();
  });

  it("embeds as its model does, and bills what it counted", async () => {
    const { sentences } = referenceOf(folder ?? "");
    const input = sentences.map(({ text }: { text: string }) => text);
    const { status, body } = await stack.call("POST", "/v1/embeddings", { model: name, input });
    expect(status, JSON.stringify(body).slice(0, 500)).toBe(200);
    for (const [i, { embedding }] of body.data.entries())
      expect(cosine(embedding, sentences[i].embedding)).toBeGreaterThan(0.97);
    expect(body.usage.prompt_tokens).toBeGreaterThan(0);
    expect(body.usage.estimated_cost).toBeCloseTo(body.usage.prompt_tokens / 1e6, 12);
  });

  it("sends vectors as base64 where a client asks for them", async () => {
    const ask = (encoding_format: string) =>
      stack.call("POST", "/v1/embeddings", { model: name, input: "hello", encoding_format });
    const [plain, packed] = [await ask("float"), await ask("base64")];
    expect(packed.status, JSON.stringify(packed.body).slice(0, 500)).toBe(200);
    const bytes = Buffer.from(packed.body.data[0].embedding, "base64");
    const floats = Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
    expect(cosine(floats, plain.body.data[0].embedding)).toBeGreaterThan(0.999);
  });

  it("refuses what its model does not do, as an error of the caller", async () => {
    const body = { model: name, query: "a", documents: ["a", "b"] };
    const { status } = await stack.call("POST", "/v1/rerank", body);
    expect(status).toBe(400);
  });

  it("is unavailable once it stopped", async () => {
    server.kill("SIGKILL");
    const { status } = await stack.call("POST", "/v1/embeddings", { model: name, input: "hello" });
    expect([502, 503]).toContain(status);
  });
});
