import { describe, expect, it, onTestFinished } from "vitest";
import { createProbe } from "../../../agent/reconcile/health.ts";
import type { FormatSkill } from "../../../proto/api-formats.ts";
import { BearerSecret } from "../../../proto/bearer-secret.ts";
import { startAnthropicServer } from "../../fakes/anthropic-server.ts";
import { startFormatsEngine } from "../../fakes/formats-engine.ts";

const paths = ["/v1/responses", "/v1/messages"];

async function serverOf(owner: string, missing: readonly string[] = [], isExternal = true) {
  const engine = await startFormatsEngine(["m"], owner);
  onTestFinished(() => engine.close());
  for (const path of missing) engine.missing.add(path);
  const target = { instanceId: "i", servedModelName: "m", isExternal, origin: engine.origin, secret: undefined };
  const probe = (formats?: readonly FormatSkill[]) =>
    createProbe()({ ...target, formats }, AbortSignal.timeout(10_000));
  return { engine, probe };
}

describe("the probe of an external server", () => {
  it.each<[string, readonly string[], readonly FormatSkill[]]>([
    [
      "llamacpp",
      [],
      ["responses", "responses_stream", "responses_tools", "messages", "messages_tools", "llama_sampling"],
    ],
    ["llamacpp", ["/v1/messages"], ["responses", "responses_stream", "responses_tools", "llama_sampling"]],
    ["llamacpp", paths, ["llama_sampling"]],
    ["vllm", [], ["responses", "responses_stream", "structured_outputs", "continuous_usage"]],
    ["openai", [], []],
    ["constructor", [], []],
  ])("finds the formats of a server of %s without %j", async (owner, missing, formats) => {
    const { engine, probe } = await serverOf(owner, missing);
    const batchSize = owner === "llamacpp" ? 4 : undefined;
    expect(await probe()).toEqual({ kind: "ready", contextLength: 0, formats, batchSize });
    expect(engine.paths).toEqual([]);
  });

  it.each<[string, readonly FormatSkill[]]>([
    ["0.32.0", ["structured_outputs", "continuous_usage"]],
    ["0.10.2", ["continuous_usage"]],
    ["unknown", []],
  ])("finds the fields that a vLLM %s of its own knows, and no format without a salt", async (version, formats) => {
    const { engine, probe } = await serverOf("vllm", [], false);
    engine.version = version;
    expect(await probe()).toMatchObject({ kind: "ready", formats });
  });

  it.each([401, 429, 503])("asks vLLM again for its version after a reply with status %s", async (status) => {
    const { engine, probe } = await serverOf("vllm", [], false);
    engine.version = status;
    expect(await probe()).toEqual({ kind: "ready", contextLength: 0, formats: undefined });
    engine.version = "0.32.0";
    expect(await probe()).toMatchObject({ formats: ["structured_outputs", "continuous_usage"] });
  });

  it.each([
    [8, 8],
    [100_000, 1024],
    [0, undefined],
    ["8", undefined],
    [undefined, undefined],
  ])("reads %j slots of llama.cpp's server as %j", async (slots, batchSize) => {
    const { engine, probe } = await serverOf("llamacpp");
    engine.slots = slots;
    expect(await probe([])).toEqual({ kind: "ready", contextLength: 0, formats: [], batchSize });
  });

  it("asks only servers whose replies are known, and each once", async () => {
    const other = await serverOf("openai");
    await other.probe();
    expect(other.engine.refused).toEqual([]);
    const known = await serverOf("llamacpp");
    const found = await known.probe();
    expect(known.engine.refused).toEqual(paths);
    await known.probe(found.kind === "ready" ? found.formats : undefined);
    expect(known.engine.refused).toEqual(paths);
  });

  it.each([401, 429, 503])(
    "asks again after a reply with status %s, which says nothing about a format",
    async (status) => {
      const { engine, probe } = await serverOf("vllm");
      engine.refusal = status;
      expect(await probe()).toEqual({ kind: "ready", contextLength: 0, formats: undefined });
      engine.refusal = 400;
      expect(await probe()).toMatchObject({
        formats: ["responses", "responses_stream", "structured_outputs", "continuous_usage"],
      });
    },
  );

  it.each([
    ["the right key", "claude", "sk-right", { kind: "ready", contextLength: 0, formats: [] }],
    ["a wrong key", "claude", "sk-wrong", { kind: "bad", why: "it refuses the key (401)" }],
    ["no key", "claude", undefined, { kind: "bad", why: "it refuses the key (401)" }],
    ["a model that it does not have", "other", "sk-right", { kind: "bad", why: '/v1/models does not list "other"' }],
  ])("reads a server of Anthropic's format with %s", async (_, servedModelName, key, health) => {
    const server = await startAnthropicServer("claude", "sk-right");
    onTestFinished(() => server.close());
    const secret = key === undefined ? undefined : new BearerSecret(key);
    const target = { instanceId: "i", servedModelName, isExternal: true, origin: `${server.origin}/v1`, secret };
    expect(await createProbe()({ ...target, api: "anthropic" }, AbortSignal.timeout(10_000))).toEqual(health);
    expect(server.asked).toEqual([]);
  });
});
