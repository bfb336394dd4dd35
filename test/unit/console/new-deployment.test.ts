import { describe, expect, it } from "vitest";
import {
  commandOf,
  type DeployForm,
  faultsOf,
  kindOfSource,
  requestOf,
  splitArgs,
  suggestedName,
} from "../../../console/domain/new-deployment.ts";

const form: DeployForm = {
  source: "Qwen/Qwen3-8B",
  revision: "",
  token: "",
  task: "text-generation",
  name: "ada/qwen3-8b",
  gpu: "H100-80GB",
  numGpus: 2,
  batch: 16,
  min: 0,
  max: 3,
  idle: "600",
  sleep: "",
  targetTtft: "800",
  targetQueue: "",
  engine: "",
  args: "--max-model-len 8192",
  context: "4096",
};

describe("a new deployment", () => {
  it("of a language model becomes POST /deploy/llm", () => {
    expect(requestOf(form)).toEqual({
      path: "/deploy/llm",
      body: {
        model_name: "ada/qwen3-8b",
        gpu: "H100-80GB",
        num_gpus: 2,
        max_batch_size: 16,
        settings: { min_instances: 0, max_instances: 3, inactive_shutdown: 600, target_ttft_ms: 800 },
        hf: { repo: "Qwen/Qwen3-8B", revision: null, token: null },
        extra_args: ["--max-model-len", "8192"],
        standard_args: { max_context_size: 4096 },
      },
    });
  });

  it("of another task becomes POST /deploy/hf/ without settings of language models", () => {
    const { path, body } = requestOf({ ...form, task: "embeddings", token: "hf_x" });
    expect(path).toBe("/deploy/hf/");
    expect(body).toMatchObject({ task: "embeddings", repo: "Qwen/Qwen3-8B", token: "hf_x" });
    expect(body).not.toHaveProperty("extra_args");
  });

  it("has a command without the token itself", () => {
    const command = commandOf({ ...form, token: "hf_secret", revision: "v1.0" });
    expect(command).toBe(
      "stoker deploy create ada/qwen3-8b --hf-repo Qwen/Qwen3-8B --hf-revision v1.0 --hf-token-file token.txt --gpu H100-80GB --num-gpus 2 --max-batch-size 16 --min 0 --max 3 --inactive-shutdown 600s --target-ttft 800 --context 4096 --arg=--max-model-len --arg=8192",
    );
  });

  it("names what is wrong before the server is asked", () => {
    expect(faultsOf(form)).toEqual({});
    expect(faultsOf({ ...form, source: "Qwen3", name: "x", min: 4, max: 2, gpu: "" })).toEqual({
      source: "noRepository",
      name: "noName",
      max: "belowMinimum",
      idle: "needsMinimumZero",
      gpu: "missing",
    });
    expect(faultsOf({ ...form, source: "s3://bucket/prefix" })).toEqual({});
  });

  it.each([
    ["Qwen/Qwen3-8B", "ada/Qwen3-8B", "hub"],
    ["s3://bucket/models/mine/", "ada/mine", "s3"],
    ["oci://ghcr.io/org/model:v2", "ada/model", "oci"],
    ["modelscope://Qwen/Qwen3-8B", "ada/Qwen3-8B", "modelscope"],
    ["", "", "hub"],
  ])("of %s is suggested as %s", (source, name, kind) => {
    expect(suggestedName("ada", source)).toBe(name);
    expect(kindOfSource(source)).toBe(kind);
  });

  it("splits arguments as a shell would", () => {
    expect(splitArgs(` --a 1  --b="two words" '{"x": 1}' `)).toEqual(["--a", "1", "--b=two words", '{"x": 1}']);
  });
});
