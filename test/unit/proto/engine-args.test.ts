// Every argument that a customer may give our runtime changes what it does, and every value is understood.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planInstance } from "../../../agent/engines/plan-instance.ts";
import { checkExtraArgs, contextLengthOf } from "../../../control-plane/deployments/extra-args.ts";
import { type ArgRule, draftModelOf, heeded, whyArgsRefused } from "../../../proto/engine-args.ts";
import { readConfig } from "../../../runtime/config.ts";
import { readEngineOptions } from "../../../runtime/engine-options.ts";
import { instanceSpec } from "../../fakes/instance-spec.ts";

const optionsOf = (...args: string[]) => {
  const problems: string[] = [];
  const options = readEngineOptions(args, problems);
  expect(problems, args.join(" ")).toEqual([]);
  return options;
};

/** Arguments of the runtime itself: what each comes to, where that is not the default. */
const effects: Readonly<Record<string, readonly [string, object]>> = {
  "flash-attn": ["--flash-attn=off", { flashAttention: false }],
  "kv-cache-dtype": ["--kv-cache-dtype=q8_0", { kvCacheType: "q8_0" }],
  "prompt-cache-mib": ["--prompt-cache-mib=0", { promptCacheBytes: 0 }],
  speculative: ["--speculative=prompt-lookup", { speculative: "prompt-lookup" }],
  "tool-call-parser": ["--tool-call-parser=llama3_json", { toolCallParser: "llama3" }],
  "reasoning-parser": ["--reasoning-parser=qwen3", { reasoningParser: "think" }],
};
/** Heeded by control plane and agent: below, agent/engines/plan-instance.test.ts, integration/deployments/adapters.test.ts. */
const elsewhere = new Set(["max-model-len", "draft-model", "no-enable-lora"]);
/** What the runtime does for everybody. */
const always = new Set(["enable-auto-tool-choice", "enable-chunked-prefill", "enable-prefix-caching", "dtype"]);

describe.each(Object.keys(heeded.stoker))("--%s of our runtime", (name) => {
  it("takes effect", () => {
    if (elsewhere.has(name) || always.has(name)) return;
    const [arg, effect] = effects[name] ?? [];
    expect(arg, "an argument without effect is not to be taken").toBeDefined();
    expect(whyArgsRefused("stoker", [arg as string])).toBeUndefined();
    expect(optionsOf()).not.toMatchObject(effect as object);
    expect(optionsOf(arg as string)).toMatchObject(effect as object);
  });

  it("is understood with every value that it may have", () => {
    const rule = heeded.stoker[name];
    if (rule?.kind === "one-of") for (const value of rule.values) optionsOf(`--${name}=${value}`);
  });
});

it("starts the model server with every accepted combination", () => {
  const one = ([name, rule]: [string, ArgRule]) => {
    if (rule.kind === "one-of") return fc.constantFrom(...rule.values).map((value) => `--${name}=${value}`);
    if (rule.kind === "integer") return fc.integer(rule).map((value) => `--${name}=${value}`);
    return fc.constant(rule.kind === "gguf" ? `--${name}=owner/small` : `--${name}`);
  };
  const all = Object.entries(heeded.stoker).map((entry) => fc.option(one(entry), { nil: "" }));
  let taken = 0;
  fc.assert(
    fc.property(fc.tuple(...all), (chosen) => {
      const extraArgs = chosen.filter((arg) => arg !== "");
      try {
        checkExtraArgs(extraArgs, { engine: "stoker" });
      } catch {
        return;
      }
      taken += 1;
      configOf({ extraArgs, contextLength: contextLengthOf(extraArgs) });
    }),
    { numRuns: 500 },
  );
  expect(taken).toBeGreaterThan(100);
});

const host = {
  driver: "process",
  runtimeImage: "runtime:1",
  allowedImages: [],
  filesDir: "/files",
  logLevel: "info",
} as const;
const configOf = (spec: Parameters<typeof instanceSpec>[0]) => {
  const draft = draftModelOf(spec?.extraArgs ?? []) && "/cache/small.gguf";
  const outcome = planInstance(instanceSpec(spec), "/cache/model.gguf", host, { draftPath: draft });
  if (!outcome.ok) throw new Error(outcome.message);
  return readConfig(outcome.plan.env, 1, outcome.plan.args);
};

it("starts the model server with --max-model-len as its context length", () => {
  const extraArgs = ["--max-model-len=4096", "--flash-attn=off"];
  const config = configOf({ extraArgs, contextLength: contextLengthOf(extraArgs) });
  expect(config).toMatchObject({ contextLength: 4096, flashAttention: false });
});

it("starts what was deployed with an argument that is now refused", () => {
  const extraArgs = ["--dtype=bfloat16", "--gpu-memory-utilization=0.9", "--no-enable-prefix-caching"];
  for (const arg of extraArgs) expect(whyArgsRefused("stoker", [arg])).toContain("has no effect");
  expect(configOf({ extraArgs })).toMatchObject({ contextLength: 2048 });
  const outcome = planInstance(instanceSpec({ extraArgs: ["--trust-remote-code"] }), "/cache/model.gguf", host);
  expect(outcome).toMatchObject({ ok: false, code: "bad_extra_args" });
});
