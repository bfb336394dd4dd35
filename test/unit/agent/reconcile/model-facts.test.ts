import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readModelFacts } from "../../../../agent/reconcile/model-facts.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stoker-model-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const write = (name: string, value: unknown) =>
  writeFileSync(join(folder, name), typeof value === "string" ? value : JSON.stringify(value));

it("reads type, template and rope base of weights as the hub has them", async () => {
  write("config.json", { model_type: "qwen3", rope_theta: 1_000_000 });
  write("tokenizer_config.json", { chat_template: "old" });
  expect(await readModelFacts(folder)).toEqual({ type: "qwen3", template: "old", ropeTheta: 1_000_000 });
  write("chat_template.jinja", "new");
  write("config.json", { model_type: "qwen3", rope_parameters: { rope_theta: 5 } });
  expect(await readModelFacts(folder)).toEqual({ type: "qwen3", template: "new", ropeTheta: 5 });
});

it("reads at most 64 characters of a type", async () => {
  write("config.json", { model_type: "x".repeat(3 * 1024 * 1024) });
  expect((await readModelFacts(folder)).type).toBe("x".repeat(64));
});

it("takes the template with tools where a model has several", async () => {
  const named = (name: string) => ({ name, template: `of ${name}` });
  write("tokenizer_config.json", { chat_template: [named("default"), named("tool_use"), 5] });
  expect((await readModelFacts(folder)).template).toBe("of tool_use");
});

it("knows nothing of files that are missing, unreadable or too large", async () => {
  const nothing = { type: "", template: "", ropeTheta: undefined };
  expect(await readModelFacts(join(folder, "gone.gguf"))).toEqual(nothing);
  write("config.json", "{");
  write("chat_template.jinja", "x".repeat(5 * 1024 * 1024));
  expect(await readModelFacts(folder)).toEqual(nothing);
});
