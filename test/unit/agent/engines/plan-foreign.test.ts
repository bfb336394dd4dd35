import { describe, expect, it } from "vitest";
import type { HostFacts, ModelFacts, PlanExtras } from "../../../../agent/engines/host-facts.ts";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import type { ChatModel } from "../../../../proto/vllm-parsers.ts";
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

function planned(spec: Parameters<typeof instanceSpec>[0], facts: HostFacts = host, extras: PlanExtras = {}) {
  const outcome = planInstance(instanceSpec(spec), folder, facts, extras);
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome.plan;
}
const command = (spec: Parameters<typeof instanceSpec>[0], facts = host) => planned(spec, facts).entrypoint?.join(" ");

describe("vLLM", () => {
  const start =
    "vllm serve /models/c0ffee --served-model-name owner/model " +
    "--host 0.0.0.0 --port 8000 --tensor-parallel-size 2 --max-num-seqs 4 --gpu-memory-utilization 0.9 " +
    "--max-model-len 2048 --enable-prefix-caching --enable-prompt-tokens-details --enable-lora --max-loras 8 --max-lora-rank 64";

  it.each([
    ["v0.17.1", " --disable-access-log-for-endpoints /metrics,/health"],
    ["v0.11.2", ""],
    // A build without a version is taken for the newest that is known.
    ["nightly", " --disable-access-log-for-endpoints /metrics,/health"],
  ])("gets the command line of its version: %s", (tag, more) => {
    const facts = { ...host, engineImages: { vllm: `vllm/vllm-openai:${tag}@${digest}` } };
    expect(command({ engine: "vllm", ...twoGpus }, facts)).toBe(start + more);
  });

  it("is started for sleep with the setting and a GPU only", () => {
    const asleep = { engine: "vllm", ...twoGpus, sleepAfterSeconds: 60 };
    expect(command(asleep)).toContain(" --enable-sleep-mode");
    expect(planned(asleep).env["VLLM_SERVER_DEV_MODE"]).toBe("1");
    for (const one of [
      { ...asleep, sleepAfterSeconds: 0 },
      { ...asleep, gpuUuids: ["cpu-host-0"] },
    ]) {
      expect(command(one)).not.toContain("sleep");
      expect(planned(one).env).not.toHaveProperty("VLLM_SERVER_DEV_MODE");
    }
  });

  it("pools vectors and scores instead of generating where the task says so", () => {
    expect(command({ engine: "vllm", ...twoGpus, task: "embeddings" })).toContain(" --runner pooling");
    expect(command({ engine: "vllm", ...twoGpus })).not.toContain("--runner");
    const at = (tag: string, task: string) =>
      command({ engine: "vllm", ...twoGpus, task }, { ...host, engineImages: { vllm: `vllm:${tag}@${digest}` } });
    expect(at("v0.10.1", "reranker")).toContain(" --runner pooling");
    expect(at("v0.10.0", "reranker")).toContain(" --task score");
    expect(at("v0.9.2", "embeddings")).toContain(" --task embed");
  });

  it("has its weights read-only, space to compile, shared memory for its workers, and no token", () => {
    const plan = planned({ engine: "vllm", ...twoGpus });
    expect(plan.mounts).toEqual([{ source: folder, target: "/models/c0ffee", readOnly: true }]);
    expect(plan).toMatchObject({ gpuUuids: ["GPU-1", "GPU-2"], shmBytes: 16 * 1024 ** 3, port: 8000, args: [] });
    expect(plan.scratchBytes).toBeGreaterThan(1024 ** 3);
    expect(plan.env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"]).toBe("True");
    expect(Object.keys(plan.env).some((key) => /TOKEN|NVIDIA/.test(key))).toBe(false);
  });

  it.each([
    ["has a GPU for itself", { gpuShare: 0 }, "0.9"],
    ["was told of one by an older control plane", { gpuShare: 1 }, "0.9"],
    ["shares one: less than its part, since CUDA takes some beside it", { gpuShare: 0.4 }, "0.376"],
    ["shares one of which it has nearly all", { gpuShare: 0.99 }, "0.9"],
  ])("stays within its memory where it %s", (_, spec, share) => {
    const words = planned({ engine: "vllm", gpuUuids: ["GPU-1"], ...spec }).entrypoint ?? [];
    expect(words[words.indexOf("--gpu-memory-utilization") + 1]).toBe(share);
  });

  it("uses the customer's value of an allowed argument once, instead of its own", () => {
    const extraArgs = ["--gpu-memory-utilization=0.8", "--max-model-len=1024", "--no-enable-prefix-caching"];
    const text = command({ engine: "vllm", gpuUuids: ["GPU-1"], extraArgs }) ?? "";
    expect(text).not.toMatch(/ 0\.9 |--max-model-len 2048| --enable-prefix-caching/);
    for (const arg of extraArgs) expect(text.split(arg)).toHaveLength(2);
  });
});

describe("the parsers of vLLM", () => {
  const hermes = { type: "qwen3", template: "<|im_start|>assistant <tool_call> tojson <think> enable_thinking" };
  const at = (tag: string, chat: ChatModel, extraArgs: string[] = []) => {
    const facts = { ...host, engineImages: { vllm: `vllm/vllm-openai:${tag}@${digest}` } };
    const words = planned({ engine: "vllm", gpuUuids: ["GPU-1"], extraArgs }, facts, { model: chat }).entrypoint ?? [];
    return words.filter((word) => /parser|auto-tool/.test(word));
  };

  it.each<[string, ChatModel, readonly string[]]>([
    ["a Qwen3", hermes, ["hermes", "qwen3"]],
    ["a Qwen3 coder", { type: "qwen3_moe", template: "<tool_call><function=f><parameter=p>" }, ["qwen3_coder"]],
    ["a Mistral", { type: "mistral", template: "[AVAILABLE_TOOLS] [TOOL_CALLS] arguments" }, ["mistral"]],
    ["a Llama 3", { type: "llama", template: 'ipython "parameters"' }, ["llama3_json"]],
    ["GPT-OSS", { type: "gpt_oss", template: "" }, ["openai", "openai_gptoss"]],
    ["a distilled DeepSeek", { type: "qwen2", template: "<｜Assistant｜><think>" }, ["deepseek_r1"]],
    ["a model that has no tools", { type: "llama", template: "<|im_start|>assistant" }, []],
    ["a model of which nothing is known", { type: "", template: "" }, []],
  ])("are those of %s", (_, chat, names) => {
    expect(at("v0.32.0", chat).flatMap((word) => word.split("=")[1] ?? [])).toEqual(names);
  });

  it("come with automatic tool choice, which ends the engine if it stands alone", () => {
    expect(at("v0.32.0", hermes)[0]).toBe("--enable-auto-tool-choice");
    expect(at("v0.32.0", { type: "", template: "" }, ["--tool-call-parser=pythonic"])).toEqual([
      "--enable-auto-tool-choice",
      "--tool-call-parser=pythonic",
    ]);
    const spec = instanceSpec({ engine: "vllm", gpuUuids: ["GPU-1"], extraArgs: ["--enable-auto-tool-choice"] });
    const unknown = planInstance(spec, folder, host, { model: { type: "mamba", template: "" } });
    expect(unknown).toMatchObject({ ok: false, code: "bad_extra_args" });
    expect(JSON.stringify(unknown)).toContain("needs --tool-call-parser");
    // Before the weights are there, nothing can be known.
    expect(planInstance(spec, folder, host)).toMatchObject({ ok: true });
  });

  it("are left out in a version that does not have them yet", () => {
    const lfm = { type: "lfm2", template: "<|tool_call_start|>" };
    expect(at("v0.20.2", lfm)).toEqual([]);
    expect(at("v0.21.0", lfm)).toContain("--tool-call-parser=lfm2");
  });

  it("are only those of every version where the version is unknown", () => {
    expect(at("nightly", { type: "lfm2", template: "<|tool_call_start|>" })).toEqual([]);
    expect(at("nightly", hermes)).toContain("--tool-call-parser=hermes");
  });
});

describe("arguments that end some versions of vLLM at their start", () => {
  it.each([
    ["--quantization=bitsandbytes", "v0.27.1", "v0.28.0"],
    ["--quantization=gguf", "v0.23.0", "v0.24.0"],
    ["--tool-call-parser=minimax", "v0.23.0", "v0.24.0"],
    ["--tool-call-parser=hy_v3", "v0.20.2", "v0.19.1"],
  ])("%s starts %s and is refused for %s, with the reason", (arg, good, bad) => {
    const plan = (tag: string) =>
      planInstance(instanceSpec({ engine: "vllm", gpuUuids: ["GPU-1"], extraArgs: [arg] }), folder, {
        ...host,
        engineImages: { vllm: `vllm/vllm-openai:${tag}@${digest}` },
      });
    for (const tag of [good, "nightly"]) expect(plan(tag)).toMatchObject({ ok: true });
    expect(plan(bad)).toMatchObject({ ok: false, code: "bad_extra_args" });
    expect(JSON.stringify(plan(bad))).toContain(bad.slice(1));
  });
});

describe("vLLM as a program", () => {
  const program = { path: "/opt/vllm/bin/vllm", version: { major: 0, minor: 32, patch: 0 } };
  const development: HostFacts = { ...host, driver: "process", engineImages: {}, enginePrograms: { vllm: program } };

  it("serves on a port of the driver's choice, for this machine, with the instance's secret as its key", () => {
    const plan = planned({ engine: "vllm", gpuUuids: ["cpu-host-0"] }, development);
    expect(plan.program).toMatchObject({ portFlag: "--port", secretVariable: "VLLM_API_KEY" });
    expect(plan.program?.argv.slice(0, 7).join(" ")).toBe(
      `/opt/vllm/bin/vllm serve ${folder} --served-model-name owner/model --host 127.0.0.1`,
    );
    expect(plan).toMatchObject({ mounts: [], image: "", claimedGpus: ["cpu-host-0"] });
  });

  it("takes a quarter of its grant for its cache on processors, and no share of the host's memory", () => {
    const plan = planned({ engine: "vllm", gpuUuids: ["cpu-host-0"], memoryBytes: String(9 * 1024 ** 3) }, development);
    expect(plan.env["VLLM_CPU_KVCACHE_SPACE"]).toBe("2");
    expect(plan.program?.argv).not.toContain("--gpu-memory-utilization");
  });
});

describe("prefix caches of several accounts", () => {
  const vllm = (tag: string, spec: Parameters<typeof instanceSpec>[0] = {}) =>
    command(
      { engine: "vllm", gpuUuids: ["GPU-1"], ...spec },
      { ...host, engineImages: { vllm: `vllm/vllm-openai:${tag}@${digest}` } },
    ) ?? "";
  const sglang = (tag: string, spec: Parameters<typeof instanceSpec>[0] = {}) =>
    command(
      { engine: "sglang", gpuUuids: ["GPU-1"], ...spec },
      { ...host, engineImages: { sglang: `lmsysorg/sglang:${tag}@${digest}` } },
    ) ?? "";

  it("are off in a vLLM that may refuse or miss cache_salt, whatever the customer asks for", () => {
    const extraArgs = ["--enable-prefix-caching"];
    expect(vllm("v0.10.2", { extraArgs })).not.toContain(" --enable-prefix-caching");
    expect(vllm("v0.10.2", { extraArgs })).toContain(" --no-enable-prefix-caching");
    expect(vllm("v0.18.0", { task: "embeddings", extraArgs })).toContain(" --no-enable-prefix-caching");
    expect(vllm("v0.11.0", { extraArgs }).match(/ --enable-prefix-caching/g)).toHaveLength(1);
  });

  it("are off in an SGLang that ignores cache_salt, and in one without a version tag", () => {
    for (const tag of ["v0.5.6", "v0.5.17", "latest"]) expect(sglang(tag)).toContain(" --disable-radix-cache");
    for (const tag of ["v0.5.18", "v0.6.0-cu130"]) expect(sglang(tag)).not.toContain("--disable-radix-cache");
    const own = sglang("v0.5.6", { extraArgs: ["--disable-radix-cache"] });
    expect(own.match(/--disable-radix-cache/g)).toHaveLength(1);
  });

  it("are on everywhere where the operator shares them", () => {
    expect(vllm("v0.10.2", { sharesPrefixCache: true })).toContain(" --enable-prefix-caching");
    expect(sglang("v0.5.6", { sharesPrefixCache: true })).not.toContain("--disable-radix-cache");
  });
});

describe("differences between versions of vLLM", () => {
  const rope = '--rope-scaling={"rope_type":"yarn","factor":4}';
  const at = (tag: string, extraArgs: string[], model?: ModelFacts) => {
    const facts = { ...host, engineImages: { vllm: `vllm/vllm-openai:${tag}@${digest}` } };
    return planned({ engine: "vllm", gpuUuids: ["GPU-1"], extraArgs }, facts, { model }).entrypoint?.join(" ");
  };

  it("is said in the words of the one that runs", () => {
    expect(at("v0.11.2", [rope])).toContain(rope);
    const words = at("v0.18.0", [rope]);
    expect(words).toContain('--hf-overrides={"rope_scaling":{"rope_type":"yarn","factor":4}}');
    expect(words).not.toContain("--rope-scaling");
    const based = at("v0.32.0", [rope], { type: "llama", template: "", ropeTheta: 500_000 });
    expect(based).toContain('{"rope_scaling":{"rope_theta":500000,"rope_type":"yarn","factor":4}}');
  });

  it("read a chat template of the deployment, which chooses the parser, too", () => {
    const spec = { engine: "vllm", gpuUuids: ["GPU-1"], chatTemplate: "<tool_call> tojson" };
    const plan = planned(spec, host, { model: { type: "llama", template: "" } });
    expect(plan.entrypoint?.join(" ")).toContain("--chat-template /etc/stoker/chat-template.jinja");
    expect(plan.entrypoint).toContain("--tool-call-parser=hermes");
  });

  it("start a model without adapters if its architecture supports none", () => {
    expect(at("v0.18.0", ["--no-enable-lora"])).not.toMatch(/lora/);
  });
});

it("gives SGLang its own argument names", () => {
  expect(command({ engine: "sglang", ...twoGpus })).toBe(
    "python3 -m sglang.launch_server --model-path /models/c0ffee --served-model-name owner/model --host 0.0.0.0 " +
      "--port 30000 --tp-size 2 --max-running-requests 4 --context-length 2048 --enable-metrics --enable-cache-report --disable-radix-cache",
  );
});

describe("an engine from elsewhere is refused", () => {
  const spec = instanceSpec({ engine: "vllm", ...twoGpus });
  it.each([
    ["where model servers are processes", { ...host, driver: "process" } as const, spec, "engine_unavailable"],
    ["without an image of its own", { ...host, engineImages: {} }, spec, "image_refused"],
    ["in an image nobody allowed", host, { ...spec, image: `evil/vllm@${digest}` }, "image_refused"],
    ["with an argument that is ours", host, { ...spec, extraArgs: ["--trust-remote-code"] }, "bad_extra_args"],
    ["with a value that the engine has not", host, { ...spec, extraArgs: ["--kv-cache-dtype=q8_0"] }, "bad_extra_args"],
    ["with an argument of another engine", host, { ...spec, extraArgs: ["--disable-radix-cache"] }, "bad_extra_args"],
  ])("%s", (_, facts, wanted, code) => {
    expect(planInstance(wanted, folder, facts)).toMatchObject({ ok: false, code });
  });

  it("unless the operator allows its image", () => {
    expect(planned({ engine: "vllm", ...twoGpus, image: `team/vllm@${digest}` }).image).toBe(`team/vllm@${digest}`);
  });
});
