// Plans of engines from elsewhere, each carried out once: a stand-in reads the real argv and speaks the engine's paths.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { engineTraits } from "../../../agent/engines/engine-traits.ts";
import { planInstance } from "../../../agent/engines/plan-instance.ts";
import { createProbe } from "../../../agent/reconcile/health.ts";
import { recordFile } from "../../fakes/engine-parser.ts";
import { instanceSpec } from "../../fakes/instance-spec.ts";

const digest = `sha256:${"a".repeat(64)}`;
const entry = join(import.meta.dirname, "../../fakes/foreign-engine-process.ts");
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

async function run(engine: "vllm" | "sglang", version: string) {
  const folder = mkdtempSync(join(tmpdir(), "weights-"));
  ends.push(() => rmSync(folder, { recursive: true, force: true }));
  const outcome = planInstance(instanceSpec({ engine, gpuUuids: ["GPU-1"] }), folder, {
    driver: "docker",
    runtimeImage: "",
    engineImages: { vllm: `vllm/vllm-openai:v${version}@${digest}`, sglang: `lmsysorg/sglang:v${version}@${digest}` },
    allowedImages: [],
    filesDir: folder,
    logLevel: "info",
  });
  if (!outcome.ok) throw new Error(outcome.message);
  const { plan } = outcome;
  // As the container would see them: each mount's target is its source here.
  const inside = (arg: string) => plan.mounts.find(({ target }) => target === arg)?.source ?? arg;
  const argv = [
    "--record",
    recordFile(`${engine}-${version}`),
    "--listen",
    "0",
    "--",
    ...(plan.entrypoint ?? []).map(inside),
    ...plan.args,
  ];
  const child = spawn(process.execPath, [entry, ...argv], { env: { ...plan.env, PATH: process.env["PATH"] } });
  ends.push(() => child.kill("SIGKILL"));
  let output = "";
  child.stdout.on("data", (text) => {
    output += text;
  });
  child.stderr.on("data", (text) => {
    output += text;
  });
  await vi.waitFor(() => expect(output).toMatch(/listening on|error:/), { timeout: 30_000 });
  const origin = /listening on (\S+)/.exec(output)?.[1];
  if (!origin) throw new Error(output);
  return { origin };
}

const stream = (origin: string, model: string, tokens: number) =>
  fetch(`${origin}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({ model, prompt: "x", max_tokens: tokens, stream: true }),
  });
const target = (origin: string) => ({
  origin,
  instanceId: "instance-1",
  servedModelName: "owner/model",
  isExternal: false,
});

describe.each([
  ["vllm", "0.32.0"],
  ["sglang", "0.5.23"],
] as const)("the plan of %s %s", (engine, version) => {
  it("starts it, and its health, metrics, adapters and answers are where the agent looks for them", async () => {
    const { origin } = await run(engine, version);
    expect(await createProbe()(target(origin), AbortSignal.timeout(20_000))).toMatchObject({ kind: "ready" });
    const { loadLora, unloadLora, metrics } = engineTraits[engine];
    expect(await (await fetch(`${origin}${metrics}`)).text()).toContain("generation_tokens_total");
    const post = (path: string, body: object) =>
      fetch(`${origin}${path}`, { method: "POST", body: JSON.stringify(body) });
    expect((await post(loadLora, { lora_name: "ink", lora_path: "/adapters/ink" })).status).toBe(200);
    expect(await (await stream(origin, "ink", 2)).text()).toContain('" ink"');
    expect((await post(unloadLora, { lora_name: "ink" })).status).toBe(200);
    expect((await stream(origin, "ink", 2)).status).toBe(404);
  });
});
