import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "undici";
import { describe, expect, it, onTestFinished } from "vitest";
import { askEngineUsage, PromptCounter } from "../../../agent/ingress/engine-usage.ts";

async function engineOf(answer: RequestListener): Promise<Pool> {
  const server = createServer(answer);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const pool = new Pool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { connections: null });
  onTestFinished(async () => {
    await pool.close();
    server.close();
  });
  return pool;
}

it("counts the prompts of one engine one at a time", async () => {
  let running = 0;
  let max = 0;
  const pool = await engineOf((req, res) => {
    max = Math.max(max, ++running);
    req.resume().on("end", () => {
      running -= 1;
      // The third reply is not a count: the next request is counted all the same.
      res.end(req.headers["x-count"] === "3" ? "no JSON" : `{"count":${req.headers["x-count"]}}`);
    });
  });
  const prompts = new PromptCounter();
  const count = (n: number) => prompts.count(pool, "/tokenize", { "x-count": String(n) }, Buffer.alloc(100_000));
  expect(await Promise.all([1, 2, 3, 4].map(count))).toEqual([1, 2, undefined, 4]);
  expect(max).toBe(1);
});

describe("a reply of an engine that is too long", () => {
  const figures = { finished: true, input_tokens: 3, output_tokens: 2 };
  const usageOf = async (padding: number) => {
    const pool = await engineOf((_req, res) => res.end(JSON.stringify({ ...figures, padding: "x".repeat(padding) })));
    return await askEngineUsage(pool, "request-1", {});
  };

  it("is no usage above 64 KiB", async () => {
    expect(await usageOf(60 * 1024)).toMatchObject({ input: 3, output: 2 });
    expect(await usageOf(64 * 1024)).toBeUndefined();
  });

  it("is no count of a prompt that cannot have so many tokens", async () => {
    const pool = await engineOf((_req, res) => res.end(JSON.stringify({ count: 9, padding: "x".repeat(80 * 1024) })));
    const count = (body: Buffer) => new PromptCounter().count(pool, "/tokenize", {}, body);
    expect(await count(Buffer.alloc(100))).toBeUndefined();
    expect(await count(Buffer.alloc(4_000))).toBe(9);
  });
});
