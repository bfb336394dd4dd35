import { describe, expect, it } from "vitest";
import type { HostFacts } from "../../../../agent/engines/host-facts.ts";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import { instanceSpec } from "../../../fakes/instance-spec.ts";

const image = `ghcr.io/ggml-org/llama.cpp:server-cuda-b10434@sha256:${"a".repeat(64)}`;
const docker: HostFacts = {
  driver: "docker",
  runtimeImage: "runtime:1",
  engineImages: { llamacpp: image },
  allowedImages: [],
  filesDir: "/data/files",
  logLevel: "info",
};
const processes: HostFacts = {
  ...docker,
  driver: "process",
  engineImages: {},
  enginePrograms: { llamacpp: { path: "/opt/llama/llama-server", version: undefined } },
};
const file = "/cache/blobs/model.gguf";

function planned(over: Parameters<typeof instanceSpec>[0] = {}, host = docker, path = file) {
  const outcome = planInstance(instanceSpec({ engine: "llamacpp", ...over }), path, host);
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome;
}
const command = (over: Parameters<typeof instanceSpec>[0] = {}, host = docker) =>
  (planned(over, host).plan.entrypoint ?? planned(over, host).plan.program?.argv ?? []).join(" ");

describe("the plan of llama.cpp's server", () => {
  it("runs the operator's image with a context for each request and everything else off", () => {
    expect(command({ gpuUuids: ["GPU-1"], cpus: 2 })).toBe(
      "/app/llama-server --model /models/model.gguf --alias owner/model --host 0.0.0.0 --port 8080 " +
        "--parallel 4 --ctx-size 8192 --no-kv-unified --n-gpu-layers auto --threads 2 " +
        "--no-cache-prompt --cache-ram 0 --jinja --metrics --no-slots --no-ui --offline",
    );
    expect(planned({ gpuUuids: ["GPU-1"] }).plan).toMatchObject({
      image,
      mounts: [{ source: file, target: "/models/model.gguf", readOnly: true }],
      port: 8080,
      gpuUuids: ["GPU-1"],
    });
  });

  it("runs the installed program on this machine only, with a key in its environment and on its own GPUs", () => {
    const { plan } = planned({ gpuUuids: ["GPU-1", "GPU-2"] }, processes);
    expect(plan.program).toMatchObject({ portFlag: "--port", secretVariable: "LLAMA_API_KEY" });
    expect(plan.program?.argv.join(" ")).toMatch(
      /^\/opt\/llama\/llama-server --model \/cache\/blobs\/model\.gguf .* --host 127\.0\.0\.1 --parallel 4 /,
    );
    expect(plan.env["CUDA_VISIBLE_DEVICES"]).toBe("GPU-1,GPU-2");
  });

  it("offloads nothing without a GPU, and what the customer asks for with one", () => {
    expect(command()).toContain(" --n-gpu-layers 0 ");
    const own = command({ gpuUuids: ["GPU-1"], extraArgs: ["--n-gpu-layers=12", "--split-mode=row"] });
    // It takes no `--name=value`.
    expect(own).toContain(" --n-gpu-layers 12 --split-mode row");
    expect(own).not.toContain("--n-gpu-layers auto");
  });

  it("gives each request the context of the deployment, whose argument the server does not have", () => {
    const text = command({ contextLength: 1024, maxBatchSize: 3, extraArgs: ["--max-model-len=1024"] });
    expect(text).toContain(" --parallel 3 --ctx-size 3072 ");
    expect(text).not.toContain("max-model-len");
    expect(command({ contextLength: 0, maxBatchSize: 2 })).toContain(" --ctx-size 8192 ");
  });

  it("keeps no prompts between requests unless the operator shares them between accounts", () => {
    expect(command({ sharesPrefixCache: true })).not.toContain("--no-cache-prompt");
    const off = command({ sharesPrefixCache: true, extraArgs: ["--no-cache-prompt"] });
    expect(off.match(/--no-cache-prompt/g)).toHaveLength(1);
    for (const shares of [false, true]) expect(command({ sharesPrefixCache: shares })).toContain("--cache-ram 0");
  });

  it("reads all parts of a split model, and the chat template of the deployment", () => {
    const split = planned({}, docker, "/cache/model-00001-of-00003.gguf").plan;
    expect(split.mounts).toEqual([{ source: "/cache", target: "/models", readOnly: true }]);
    expect(split.entrypoint).toContain("/models/model-00001-of-00003.gguf");
    const { plan, files } = planned({ chatTemplate: "{{ messages }}" });
    expect(files).toMatchObject([{ text: "{{ messages }}" }]);
    expect(plan.entrypoint?.join(" ")).toContain(" --jinja --chat-template-file /etc/stoker/chat-template.jinja ");
    expect(plan.mounts).toContainEqual({
      source: files[0]?.path,
      target: "/etc/stoker/chat-template.jinja",
      readOnly: true,
    });
    const own = planned({ chatTemplate: "{{ messages }}" }, processes);
    expect(own.plan.program?.argv).toContain(own.files[0]?.path);
  });

  it.each([
    ["embeddings", "--embeddings"],
    ["reranker", "--reranking"],
  ])("serves the task %s", (task, flag) => {
    expect(command({ task })).toContain(` ${flag} `);
    expect(command()).not.toContain(flag);
  });

  it.each([
    ["without an image", { ...docker, engineImages: {} }, {}, "image_refused"],
    ["without a program", { ...processes, enginePrograms: {} }, {}, "engine_unavailable"],
    ["with a path of the host", docker, { extraArgs: ["--path=/etc"] }, "bad_extra_args"],
    ["with tools of the server", docker, { extraArgs: ["--tools=all"] }, "bad_extra_args"],
  ] as const)("is refused %s", (_, host, over, code) => {
    expect(
      planInstance(
        instanceSpec({ engine: "llamacpp", ...over, extraArgs: [...("extraArgs" in over ? over.extraArgs : [])] }),
        file,
        host,
      ),
    ).toMatchObject({ ok: false, code });
  });
});
