import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { longer } from "../../fakes/nightly.ts";
import { hasModel, modelFile, type RuntimeProcess, spawnRuntime, startRuntime } from "./runtime-process.ts";

const folder = mkdtempSync(join(tmpdir(), "stoker-broken-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const errorLine = (log: string) =>
  JSON.parse(log.split("\n").find((line) => line.includes('"level":"error"')) ?? "{}").msg as string;

describe("a model server that cannot start", () => {
  it("says that a file is no GGUF file and exits with 1", async () => {
    const file = join(folder, "text.gguf");
    writeFileSync(file, "this is no model");
    const { exited, log } = spawnRuntime({ STOKER_MODEL_PATH: file });
    expect(await exited).toBe(1);
    expect(errorLine(log())).toMatch(/^not a GGUF file:/);
  });

  it("names every problem of its configuration and exits with 2", async () => {
    const { exited, log } = spawnRuntime({ STOKER_MAX_BATCH_SIZE: "0", STOKER_PORT: "x", STOKER_INSTANCE_ID: "" });
    expect(await exited).toBe(2);
    for (const key of ["STOKER_MAX_BATCH_SIZE", "STOKER_PORT", "STOKER_INSTANCE_ID"])
      expect(errorLine(log())).toContain(key);
  });

  it.runIf(hasModel("a cut model file and too little memory end the process with a clear line"))(
    "distinguishes a truncated file from too little memory",
    async () => {
      const file = join(folder, "cut.gguf");
      writeFileSync(file, readFileSync(modelFile).subarray(0, 20_000_000));
      const cut = spawnRuntime({ STOKER_MODEL_PATH: file });
      const poor = spawnRuntime({ STOKER_MEMORY_BYTES: String(200 * 1024 * 1024), STOKER_MAX_BATCH_SIZE: "8" });
      expect(await cut.exited).toBe(1);
      expect(errorLine(cut.log())).toMatch(/^damaged GGUF file:/);
      expect(await poor.exited).toBe(1);
      expect(errorLine(poor.log())).toMatch(/^out of memory:/);
    },
  );
});

describe.runIf(hasModel("a draining model server finishes what runs"))("a model server that is told to stop", () => {
  let runtime: RuntimeProcess | undefined;
  afterAll(() => runtime?.stop());

  it("finishes the stream that runs, refuses new requests and exits with 0", async () => {
    // Longer than it takes a slow machine to ask what is asked meanwhile.
    const tokens = longer(120, 250);
    runtime = await startRuntime();
    const { url, child, exited } = runtime;
    const body = JSON.stringify({
      model: "m",
      prompt: "Count:",
      max_tokens: tokens,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    });
    const running = await fetch(`${url}/v1/completions`, { method: "POST", body });
    const reader = (running.body as ReadableStream<Uint8Array>).getReader();
    let text = Buffer.from((await reader.read()).value as Uint8Array).toString();
    child.kill("SIGTERM");
    await vi.waitFor(async () => expect((await runtime?.get("/health"))?.body.status).toBe("draining"), {
      timeout: 20_000,
    });
    const refused = await runtime.post("/v1/completions", { model: "m", prompt: "x" });
    expect(refused.status).toBe(503);
    expect(refused.headers.get("x-stoker-refusal")).toBe("draining");
    for (let part = await reader.read(); !part.done; part = await reader.read())
      text += Buffer.from(part.value).toString();
    // Not a frame for each token: half of a character waits for its other half.
    expect(text).toMatch(new RegExp(`"completion_tokens":${tokens}\\b[^\\n]*\\n\\ndata: \\[DONE\\]\\n\\n$`));
    expect(await exited).toBe(0);
  });
});
