import { describe, expect, it } from "vitest";
import type { HostFacts } from "../../../../agent/engines/host-facts.ts";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import { instanceSpec } from "../../../fakes/instance-spec.ts";

const digest = `sha256:${"a".repeat(64)}`;
const host: HostFacts = {
  driver: "docker",
  runtimeImage: "runtime:1",
  engineImages: { vllm: `vllm/vllm-openai:v0.18.0@${digest}`, sglang: `lmsysorg/sglang:v0.5.6@${digest}` },
  allowedImages: ["team/vllm"],
  filesDir: "/data/files",
  logLevel: "info",
};
const folder = "/cache/models--o--m/snapshots/c0ffee";
const twoGpus = { gpuUuids: ["GPU-1", "GPU-2"], extraArgs: [] };

function planned(spec: Parameters<typeof instanceSpec>[0], facts = host) {
  const outcome = planInstance(instanceSpec(spec), folder, facts);
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome.plan;
}
const command = (spec: Parameters<typeof instanceSpec>[0], facts = host) => planned(spec, facts).entrypoint?.join(" ");

describe("vLLM", () => {
  const start =
    "python3 -m vllm.entrypoints.openai.api_server --model /models/c0ffee --served-model-name owner/model " +
    "--host 0.0.0.0 --port 8000 --tensor-parallel-size 2 --max-num-seqs 4 --gpu-memory-utilization 0.90 " +
    "--max-model-len 2048 --enable-prefix-caching --enable-prompt-tokens-details --enable-lora --max-loras 8 --max-lora-rank 64";

  it.each([
    ["v0.18.0", " --shutdown-timeout 8 --disable-access-log-for-endpoints /metrics,/health"],
    ["v0.17.1", " --disable-access-log-for-endpoints /metrics,/health"],
    ["v0.11.2", ""],
    // A build without a version is taken for the newest that is known.
    ["nightly", " --shutdown-timeout 8 --disable-access-log-for-endpoints /metrics,/health"],
  ])("%s is given the command line of its version", (tag, more) => {
    const facts = { ...host, engineImages: { vllm: `vllm/vllm-openai:${tag}@${digest}` } };
    expect(command({ engine: "vllm", ...twoGpus }, facts)).toBe(start + more);
  });

  it("sees its weights read-only, has room to compile, shared memory for its workers, and no token", () => {
    const plan = planned({ engine: "vllm", ...twoGpus });
    expect(plan.mounts).toEqual([{ source: folder, target: "/models/c0ffee", readOnly: true }]);
    expect(plan).toMatchObject({ gpuUuids: ["GPU-1", "GPU-2"], shmBytes: 16 * 1024 ** 3, port: 8000, args: [] });
    expect(plan.scratchBytes).toBeGreaterThan(1024 ** 3);
    expect(plan.env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"]).toBe("True");
    expect(Object.keys(plan.env).some((key) => /TOKEN|NVIDIA/.test(key))).toBe(false);
  });

  it("lets the customer's value stand where an argument may be set, instead of naming it twice", () => {
    const extraArgs = ["--gpu-memory-utilization=0.8", "--max-model-len=1024", "--no-enable-prefix-caching"];
    const text = command({ engine: "vllm", gpuUuids: ["GPU-1"], extraArgs }) ?? "";
    expect(text).not.toMatch(/ 0\.90|--max-model-len 2048| --enable-prefix-caching/);
    expect(text).toContain(extraArgs.join(" "));
  });
});

it("SGLang is given its own names for the same things", () => {
  expect(command({ engine: "sglang", ...twoGpus })).toBe(
    "python3 -m sglang.launch_server --model-path /models/c0ffee --served-model-name owner/model --host 0.0.0.0 " +
      "--port 30000 --tp 2 --max-running-requests 4 --context-length 2048 --enable-metrics --enable-cache-report",
  );
});

describe("an engine from elsewhere is refused", () => {
  const spec = instanceSpec({ engine: "vllm", ...twoGpus });
  it.each([
    ["where model servers are processes", { ...host, driver: "process" } as const, spec, "engine_unavailable"],
    ["without an image of its own", { ...host, engineImages: {} }, spec, "image_refused"],
    ["in an image nobody allowed", host, { ...spec, image: `evil/vllm@${digest}` }, "image_refused"],
    ["with an argument that is ours", host, { ...spec, extraArgs: ["--trust-remote-code"] }, "bad_extra_args"],
    ["with an argument of another engine", host, { ...spec, extraArgs: ["--disable-radix-cache"] }, "bad_extra_args"],
  ])("%s", (_, facts, wanted, code) => {
    expect(planInstance(wanted, folder, facts)).toMatchObject({ ok: false, code });
  });

  it("but not in an image that the operator allows", () => {
    expect(planned({ engine: "vllm", ...twoGpus, image: `team/vllm@${digest}` }).image).toBe(`team/vllm@${digest}`);
  });
});
