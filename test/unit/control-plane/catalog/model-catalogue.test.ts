import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, describe, expect, it } from "vitest";
import { openModelCatalogue, readCatalogue } from "../../../../control-plane/catalog/model-catalogue.ts";
import { interfaceTasks } from "../../../../control-plane/deployments/tasks.ts";
import { reasoningParsers, toolParsers } from "../../../../proto/vllm-parsers.ts";

const folder = mkdtempSync(join(tmpdir(), "stoker-catalogue-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const silent = pino({ level: "silent" });
const own = {
  name: "acme/own",
  task: "embeddings",
  licence: "MIT",
  parameters: 0.5,
  context: 512,
  engines: ["stoker"],
};

async function opened(source?: string) {
  const catalogue = await openModelCatalogue(source, silent);
  const ending = new AbortController();
  const running = catalogue.run(ending.signal);
  return {
    catalogue,
    close: async () => {
      ending.abort();
      await running;
    },
  };
}

describe("the catalogue of models", () => {
  it("has at least 40 models with tasks that can be deployed", async () => {
    const catalogue = await openModelCatalogue(undefined, silent);
    const models = catalogue.search("", undefined);
    expect(models.length).toBeGreaterThanOrEqual(40);
    expect(new Set(models.map(({ name }) => name)).size).toBe(models.length);
    for (const { task, name } of models) expect(interfaceTasks, name).toContain(task);
  });

  it("finds models by part of a name and by task, with sizes of their weights", async () => {
    const catalogue = await openModelCatalogue(undefined, silent);
    expect(catalogue.search("qwen3-8b", undefined)).toMatchObject([{ name: "Qwen/Qwen3-8B", revision: "main" }]);
    const sizes = catalogue.search("llama-3.1-8b", "text-generation")[0]?.sizes;
    expect(sizes?.map(({ quantisation }) => quantisation)).toEqual(["bf16", "fp8", "int4"]);
    expect(sizes?.[0]?.gib).toBeCloseTo(14.9, 1);
    expect(catalogue.search("", "reranker").map(({ name }) => name)).toEqual(["BAAI/bge-reranker-v2-m3"]);
    expect(catalogue.search("no such model", undefined)).toEqual([]);
  });

  it("adds and replaces models from an operator's file", async () => {
    const file = join(folder, "catalogue.json");
    writeFileSync(file, JSON.stringify({ models: [own, { ...own, name: "Qwen/Qwen3-8B" }] }));
    const { catalogue, close } = await opened(file);
    await expect.poll(() => catalogue.search("acme", undefined)).toMatchObject([own]);
    expect(catalogue.search("Qwen/Qwen3-8B", undefined)).toMatchObject([{ task: "embeddings" }]);
    await close();
  });

  it("adds models from a URL, and keeps its own when the URL has something else", async () => {
    let body = JSON.stringify({ models: [own] });
    const server = createServer((_req, res) => res.end(body)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/models.json`;
    const good = await opened(url);
    await expect.poll(() => good.catalogue.search("acme", undefined)).toHaveLength(1);
    await good.close();
    body = "<html>";
    const bad = await opened(url);
    await bad.close();
    expect(bad.catalogue.search("", undefined).length).toBeGreaterThanOrEqual(40);
    server.close();
  });

  it.each([
    ["[]", "/ must be object"],
    ['{"models":[{"name":"a/b"}]}', "/models/0"],
    [JSON.stringify({ models: [{ ...own, context: 0 }] }), "/models/0/context"],
  ])("names the place of an error: %s", (text, place) => {
    expect(() => readCatalogue(text)).toThrow(place);
  });
});

it("names only parsers that vLLM has", async () => {
  const { catalogue, close } = await opened();
  for (const { name, tool_parser: tool, reasoning_parser: reasoning } of catalogue.search("", undefined)) {
    if (tool !== undefined) expect([name, Object.keys(toolParsers)]).toEqual([name, expect.arrayContaining([tool])]);
    if (reasoning !== undefined)
      expect([name, Object.keys(reasoningParsers)]).toEqual([name, expect.arrayContaining([reasoning])]);
  }
  await close();
});
