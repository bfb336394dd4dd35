import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "undici";
import { expect, it, onTestFinished } from "vitest";
import { PromptCounter } from "../../../agent/ingress/engine-usage.ts";

it("counts the prompts of one engine one at a time", async () => {
  let running = 0;
  let max = 0;
  const server = createServer((req, res) => {
    max = Math.max(max, ++running);
    req.resume().on("end", () => {
      running -= 1;
      // The third reply is not a count: the next request is counted all the same.
      res.end(req.headers["x-count"] === "3" ? "no JSON" : `{"count":${req.headers["x-count"]}}`);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const pool = new Pool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { connections: null });
  onTestFinished(async () => {
    await pool.close();
    server.close();
  });
  const prompts = new PromptCounter();
  const count = (n: number) => prompts.count(pool, "/tokenize", { "x-count": String(n) }, Buffer.alloc(100_000));
  expect(await Promise.all([1, 2, 3, 4].map(count))).toEqual([1, 2, undefined, 4]);
  expect(max).toBe(1);
});
