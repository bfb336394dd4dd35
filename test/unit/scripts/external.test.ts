import { describe, expect, it } from "vitest";
import type { Api } from "../../../scripts/supervisor/api.ts";
import { serveExternal } from "../../../scripts/supervisor/deploy-model.ts";
import { readOptions } from "../../../scripts/supervisor/options.ts";

async function served(status: string, server: object = {}) {
  const said: string[] = [];
  const sent: unknown[] = [];
  const api: Api = {
    baseUrl: "http://127.0.0.1:1",
    call: async (_method, _path, body) => {
      sent.push(body);
      return { status: 200, body: { deploy_id: "d", status } };
    },
  };
  const step = { note() {}, bytes() {}, done: (text?: string) => void said.push(text ?? "ready"), drop() {} };
  const screen = { step: () => step, warn: (line: string) => void said.push(line) };
  const isServed = await serveExternal(api, { name: "my/model", url: "http://127.0.0.1:9", ...server }, screen, 1_000);
  return { isServed, said, sent };
}

describe("an external server at the start", () => {
  it("is ready once it answers", async () => {
    expect(await served("deployed")).toMatchObject({ isServed: true, said: ["ready"] });
  });

  it("is not ready while it does not respond, and prints the time limit", async () => {
    const { isServed, said } = await served("deploying");
    expect(isServed).toBe(false);
    expect(said[0]).toBe("no answer yet");
    expect(said[1]).toContain("my/model is not served yet: 127.0.0.1:9 does not answer");
    expect(said[1]).toContain("five minutes");
  });

  it("is registered in the format of its flag", async () => {
    const flags = ["--external", "a/b=http://127.0.0.1:9", "--external", "c=http://127.0.0.1:8"];
    const { externals } = readOptions([...flags, "--external-format", "a/b=anthropic"], {});
    expect(externals.map(({ name, format }) => [name, format])).toEqual([
      ["a/b", "anthropic"],
      ["c", undefined],
    ]);
    const { sent } = await served("deployed", { format: "anthropic" });
    expect(sent[0]).toMatchObject({ name: "my/model", format: "anthropic" });
  });

  it("gets as many requests at once as its flag says, by default as many as it reports", async () => {
    const flags = ["--external", "a/b=http://127.0.0.1:9", "--external-batch", "a/b=8"];
    expect(readOptions(flags, {}).externals).toMatchObject([{ name: "a/b", maxBatchSize: 8 }]);
    expect((await served("deployed", { maxBatchSize: 8 })).sent[0]).toMatchObject({ max_batch_size: 8 });
    expect((await served("deployed")).sent[0]).not.toHaveProperty("max_batch_size");
  });
});
