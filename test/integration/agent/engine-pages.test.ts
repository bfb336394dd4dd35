// Engines' metrics pages as the agent passes them on. The pages of foreign engines are written from their documented names.
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createEnginePages } from "../../../agent/metrics/engine-pages.ts";

const fixture = (name: string) =>
  readFileSync(join(import.meta.dirname, "../../fixtures/engine-metrics", name), "utf8");
const signal = AbortSignal.timeout(60_000);
let page = "";
let server: Server;
let origin: string;
let status = 200;

beforeAll(async () => {
  server = createServer((_, res) => res.writeHead(status).end(page));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

const target = (instanceId: string) => ({ instanceId, deployId: `of-${instanceId}`, origin, ready: true });

describe("an engine's page", () => {
  it.each(["vllm-0.32.txt", "vllm-0.10.txt", "vllm-0.8.txt", "sglang.txt", "llamacpp.txt", "stoker-runtime.txt"])(
    "of %s has the same names as every other's, beside its own",
    async (name) => {
      page = fixture(name);
      const pages = createEnginePages("n1", () => 0);
      pages.setTargets([target("i1")]);
      await pages.look(signal);
      // llama.cpp's server reports no share of its cache.
      const kvCacheRatio = name === "llamacpp.txt" ? undefined : 0.25;
      expect(pages.figures("i1")).toEqual({ running: 3, waiting: 2, kvCacheRatio });
      const text = pages.page();
      const own = 'deploy_id="of-i1",instance_id="i1",node="n1"';
      for (const line of [
        `stoker_engine_requests_running{${own}} 3`,
        `stoker_engine_prompt_tokens_total{${own}} 1000`,
        `stoker_engine_generation_tokens_total{${own}} 500`,
      ])
        expect(text).toContain(line);
      expect(text).not.toMatch(/^(python|process|http|nodejs)_/m);
      const types = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, family]) => family);
      expect(new Set(types).size).toBe(types.length);
    },
  );

  it("of vLLM 0.32 has what its queue waits for, what its cache saved and what it refused", async () => {
    page = fixture("vllm-0.32.txt");
    const pages = createEnginePages("n1", () => 0);
    pages.setTargets([target("i1")]);
    await pages.look(signal);
    const figures = [...pages.page().matchAll(/^stoker_engine_(\w+)\{[^}]*\} (\S+)$/gm)].map(([, name, value]) => [
      name,
      value,
    ]);
    expect(Object.fromEntries(figures)).toMatchObject({
      requests_waiting_capacity: "0",
      requests_waiting_deferred: "2",
      preemptions_total: "7",
      admission_rejections_total: "4",
      cached_prompt_tokens_total: "320",
    });
  });

  it("keeps a histogram whose name ends in _total whole, and says its type once for all instances", async () => {
    page = fixture("vllm-0.10.txt");
    const pages = createEnginePages("n1", () => 0);
    pages.setTargets([target("i1"), target("i2")]);
    await pages.look(signal);
    const text = pages.page();
    expect(text.match(/^# TYPE vllm:iteration_tokens_total histogram$/gm)).toHaveLength(1);
    expect(text.match(/^vllm:iteration_tokens_total_(bucket|sum|count)\{/gm)).toHaveLength(8);
    expect(text).toMatch(
      /^vllm:num_requests_running\{.*model_name="owner\/name",deploy_id="of-i2",instance_id="i2",node="n1"\} 3.0$/m,
    );
  });

  it("goes with its instance: the page is as long as before it came", async () => {
    page = fixture("sglang.txt");
    const pages = createEnginePages("n1", () => 0);
    pages.setTargets([target("i1")]);
    await pages.look(signal);
    const before = pages.page();
    pages.setTargets([target("i1"), ...Array.from({ length: 50 }, (_, n) => target(`more-${n}`))]);
    await pages.look(signal);
    expect(pages.page().length).toBeGreaterThan(10 * before.length);
    pages.setTargets([target("i1")]);
    expect(pages.page()).toBe(before);
  });

  it("is bounded where an engine makes series without end", async () => {
    const sets = Array.from({ length: 500 }, (_, n) => `vllm:lora_requests_info{running_lora_adapters="a${n}"} 1\n`);
    page = `# TYPE vllm:lora_requests_info gauge\n${sets.join("")}`;
    const pages = createEnginePages("n1", () => 0);
    pages.setTargets([target("i1")]);
    await pages.look(signal);
    expect(pages.page().match(/^vllm:lora_requests_info\{/gm)).toHaveLength(32);
  });

  it("stays within 600 series, whole histograms and the names that every engine has among them", async () => {
    const histogram = (n: number) =>
      `# TYPE vllm:h${n} histogram\n${Array.from({ length: 30 }, (_, le) => `vllm:h${n}_bucket{le="${le}"} 1\n`).join("")}vllm:h${n}_sum 1\nvllm:h${n}_count 1\n`;
    page = `${Array.from({ length: 40 }, (_, n) => histogram(n)).join("")}${fixture("vllm-0.10.txt")}`;
    const pages = createEnginePages("n1", () => 0);
    pages.setTargets([target("i1")]);
    await pages.look(signal);
    const text = pages.page();
    expect(text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).length).toBeLessThanOrEqual(600);
    expect(text).toMatch(/^stoker_engine_requests_running\{.*\} 3$/m);
    for (const [, name] of text.matchAll(/^# TYPE (vllm:h\d+) histogram$/gm))
      expect(text.match(new RegExp(`^${name}_bucket`, "gm"))).toHaveLength(30);
  });

  it("that fails leaves the last one, and says how old it is", async () => {
    page = fixture("sglang.txt");
    let nowMs = 0;
    const pages = createEnginePages("n1", () => nowMs);
    pages.setTargets([target("i1")]);
    await pages.look(signal);
    status = 500;
    nowMs = 7_000;
    await pages.look(signal);
    status = 200;
    expect(pages.failures).toBe(1);
    expect(pages.page()).toContain(
      'stoker_engine_sample_age_seconds{deploy_id="of-i1",instance_id="i1",node="n1"} 7.000',
    );
    expect(pages.figures("i1").running).toBe(3);
  });
});
