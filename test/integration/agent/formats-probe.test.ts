import { describe, expect, it, onTestFinished } from "vitest";
import { createProbe } from "../../../agent/reconcile/health.ts";
import type { FormatSkill } from "../../../proto/api-formats.ts";
import { startFormatsEngine } from "../../fakes/formats-engine.ts";

const paths = ["/v1/responses", "/v1/messages"];

async function serverOf(owner: string, missing: readonly string[] = []) {
  const engine = await startFormatsEngine(["m"], owner);
  onTestFinished(() => engine.close());
  for (const path of missing) engine.missing.add(path);
  const target = { instanceId: "i", servedModelName: "m", isExternal: true, origin: engine.origin, secret: undefined };
  const probe = (formats?: readonly FormatSkill[]) =>
    createProbe()({ ...target, formats }, AbortSignal.timeout(10_000));
  return { engine, probe };
}

describe("the probe of an external server", () => {
  it.each<[string, readonly string[], readonly FormatSkill[]]>([
    ["llamacpp", [], ["responses", "responses_stream", "responses_tools", "messages", "messages_tools"]],
    ["llamacpp", ["/v1/messages"], ["responses", "responses_stream", "responses_tools"]],
    ["llamacpp", paths, []],
    ["vllm", [], ["responses", "responses_stream"]],
    ["openai", [], []],
    ["constructor", [], []],
  ])("finds the formats of a server of %s without %j", async (owner, missing, formats) => {
    const { engine, probe } = await serverOf(owner, missing);
    expect(await probe()).toEqual({ kind: "ready", contextLength: 0, formats });
    expect(engine.paths).toEqual([]);
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
});
