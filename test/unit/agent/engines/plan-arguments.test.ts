// Plans of vLLM and SGLang held against the parsers of real versions, from records of them (scripts/engine-arguments.py).
import { describe, expect, it } from "vitest";
import type { HostFacts, PlanExtras } from "../../../../agent/engines/host-facts.ts";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import { type ArgRule, heeded } from "../../../../proto/engine-args.ts";
import { isWithin, readVersion } from "../../../../proto/engine-version.ts";
import { reasoningParsers, toolParsers } from "../../../../proto/vllm-parsers.ts";
import { parseAsEngine, readRecord, recordFile, type VllmRecord } from "../../../fakes/engine-parser.ts";
import { instanceSpec } from "../../../fakes/instance-spec.ts";

const vllmRecord = readRecord<VllmRecord>(recordFile("vllm-0.32.0"));
const records = { vllm: vllmRecord, sglang: readRecord(recordFile("sglang-0.5.23")) } as const;
type Foreign = keyof typeof records;
type Spec = Parameters<typeof instanceSpec>[0];

const digest = `sha256:${"a".repeat(64)}`;
const host: HostFacts = {
  driver: "docker",
  runtimeImage: "runtime:1",
  engineImages: {
    vllm: `vllm/vllm-openai:v${records.vllm.version}@${digest}`,
    sglang: `lmsysorg/sglang:v${records.sglang.version}@${digest}`,
  },
  allowedImages: [],
  filesDir: "/data/files",
  logLevel: "info",
};

/** Words behind `vllm serve` or `python3 -m sglang.launch_server`; undefined: the plan is refused for this version. */
function wordsOf(engine: Foreign, spec: Spec, extras: PlanExtras = {}): readonly string[] | undefined {
  const outcome = planInstance(instanceSpec({ engine, gpuUuids: ["GPU-1"], ...spec }), "/models/m", host, extras);
  return outcome.ok ? outcome.plan.entrypoint?.slice(engine === "vllm" ? 2 : 3) : undefined;
}
const parsed = (engine: Foreign, spec: Spec, extras?: PlanExtras) =>
  parseAsEngine(records[engine], wordsOf(engine, spec, extras) ?? []);

const rope = { rope_type: "yarn", factor: 4 };
function valuesOf(rule: ArgRule): readonly (string | undefined)[] {
  if (rule.kind === "flag") return [undefined];
  if (rule.kind === "one-of") return rule.values;
  if (rule.kind === "json") return [JSON.stringify(rule.keys.includes("image") ? { image: 2 } : rope)];
  return rule.kind === "gguf" ? [] : [String(rule.min), String(rule.max)];
}

const kinds: readonly (readonly [string, Spec])[] = [
  ["as it is", {}],
  ["over two GPUs", { gpuUuids: ["GPU-1", "GPU-2"] }],
  ["beside others on its GPU", { gpuShare: 0.4, gpuMemoryBytes: "1000000" }],
  ["that sleeps", { sleepAfterSeconds: 60 }],
  ["of vectors", { task: "embeddings" }],
  ["of scores", { task: "reranker" }],
  ["with a template of its own", { chatTemplate: "<tool_call> tojson" }],
  ["that shares its cache of prefixes", { sharesPrefixCache: true }],
];

describe.each(["vllm", "sglang"] as const)("the parser of %s", (engine) => {
  it.each(kinds)("accepts the plan of a deployment %s", (_, spec) => {
    const model = { type: "qwen3", template: "<tool_call> tojson <think> enable_thinking" };
    for (const extras of [{}, { model }]) {
      const found = parsed(engine, spec, extras);
      expect(found.get("--served-model-name")).toEqual(["owner/model"]);
    }
  });

  it("accepts every argument that a customer may give, with every value that plans let through", () => {
    let count = 0;
    for (const [name, rule] of Object.entries(heeded[engine]))
      for (const value of valuesOf(rule)) {
        const arg = value === undefined ? `--${name}` : `--${name}=${value}`;
        const words = wordsOf(
          engine,
          { extraArgs: [arg] },
          { model: { type: "qwen3", template: "<tool_call> tojson" } },
        );
        if (words === undefined) continue;
        expect(() => parseAsEngine(records[engine], words), arg).not.toThrow();
        count += 1;
      }
    expect(count).toBeGreaterThan(30);
  });

  it("refuses another name, another value and a missing one", () => {
    const words = wordsOf(engine, {}) ?? [];
    for (const bad of [["--no-such-argument"], ["--dtype=none"], ["--port", "many"], ["--dtype"]])
      expect(() => parseAsEngine(records[engine], [...words, ...bad]), bad.join(" ")).toThrow(
        /unrecognized|invalid|expected/,
      );
  });
});

it("has the parsers and quantisations that the tables name for its version, and no other parser", () => {
  const version = readVersion(vllmRecord.version);
  if (version === undefined) throw new Error(`unknown version ${vllmRecord.version}`);
  const known = (table: typeof toolParsers) =>
    Object.keys(table).filter((name) => isWithin(version, table[name] ?? {}));
  expect(vllmRecord.tools).toEqual(known(toolParsers).toSorted());
  expect(vllmRecord.reasoning).toEqual(known(reasoningParsers).toSorted());
  const { quantization: rule } = heeded.vllm;
  const lifetimes = rule?.kind === "one-of" ? (rule.lifetimes ?? {}) : {};
  for (const [name, life] of Object.entries(lifetimes))
    expect([name, vllmRecord.quantizations.includes(name)]).toEqual([name, isWithin(version, life)]);
});
