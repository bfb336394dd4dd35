// P4: an agent dies by kill -9 under 200 open streams and a steady load of short requests, and the next one adopts its
// model server: short requests do not notice, cut streams say so and cost what was delivered.
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query } from "../e2e/spine/database.ts";
import { instancePids, isAlive, type Stack } from "../fakes/processes.ts";
import { startTinyStack } from "./tiny-stack.ts";

const streams = 200;
const tokens = 2_000;
/** USD per million: 10 in, 20 out. */
const [inputPrice, outputPrice] = [10_000, 20_000];

let stack: Stack;
let model: string;

beforeAll(async () => {
  ({ stack, model } = await startTinyStack({
    maxBatchSize: 150,
    // What the model would take with so many requests at once; its stand-in does not.
    agentEnv: { STOKER_GPU_MEMORY_BYTES: "16000000000" },
    controlPlaneEnv: { STOKER_RATE_LIMIT: "1000" },
  }));
});
afterAll(() => stack?.stop());

const post = (body: object, signal?: AbortSignal) =>
  fetch(`${stack.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model, prompt: "hello", ...body }),
    ...(signal && { signal }),
  });

interface Streamed {
  requestId: string;
  text: string;
  /** The other side ended it. */
  hasEnded: boolean;
  hangUp(): void;
}

const bothReady = async () => {
  const nodes: { state: string }[] = (await stack.call("GET", "/v1/admin/nodes")).body.nodes;
  expect(nodes.filter((node) => node.state === "ready")).toHaveLength(2);
};

const framesOf = ({ text }: Streamed) => text.split('"text":" tiny"').length - 1;

/** Resolves at its first frame. */
async function openStream(maxTokens = tokens): Promise<Streamed> {
  const client = new AbortController();
  const stream: Streamed = { requestId: "", text: "", hasEnded: false, hangUp: () => client.abort() };
  const answer = await post({ stream: true, max_tokens: maxTokens }, client.signal);
  if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
  stream.requestId = answer.headers.get("x-stoker-request-id") ?? "";
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  const read = async () => {
    const { done, value } = await reader.read();
    stream.hasEnded = done;
    stream.text += Buffer.from(value ?? []).toString();
    return !done;
  };
  while (framesOf(stream) === 0) await read();
  void (async () => {
    while (await read());
  })().catch(() => {});
  return stream;
}

/** Eight callers, one after the other each, until stopped. */
function shortRequests() {
  let isOver = false;
  const statuses: (number | string)[] = [];
  const callers = Array.from({ length: 8 }, async () => {
    while (!isOver) {
      try {
        const answer = await post({ max_tokens: 2 });
        const text = await answer.text();
        statuses.push(answer.status === 200 ? 200 : `${answer.status} ${text}`);
      } catch (error) {
        statuses.push(String(error));
      }
    }
  });
  const stop = async () => {
    isOver = true;
    await Promise.all(callers);
  };
  return { statuses, stop };
}

it("adopts the model server after kill -9 of the agent; short requests continue, cut streams report it and cost what was delivered", async () => {
  const pids = instancePids(stack.agentFolder(1));
  expect(pids).toHaveLength(1);
  const open = await Promise.all(Array.from({ length: streams }, () => openStream()));

  const { statuses, stop } = shortRequests();
  await vi.waitFor(() => expect(statuses.length).toBeGreaterThan(50), { timeout: 20_000 });
  await stack.agents[0]?.kill9();
  expect(isAlive(pids[0] as number)).toBe(true);
  stack.agents[0]?.start();

  await vi.waitFor(
    async () => {
      await bothReady();
      expect(statuses.length).toBeGreaterThan(600);
    },
    { timeout: 60_000, interval: 200 },
  );
  await stop();
  expect(instancePids(stack.agentFolder(1))).toEqual(pids);

  const errors = statuses.filter((status) => status !== 200);
  process.stdout.write(`${statuses.length} short requests, ${errors.length} errors\n`);
  expect(errors.length / statuses.length, errors.slice(0, 3).join("\n")).toBeLessThan(0.005);

  const cut = open.filter((one) => one.hasEnded);
  const alive = open.filter((one) => !one.hasEnded);
  expect(cut.length).toBeGreaterThan(streams / 4);
  expect(alive.length).toBeGreaterThan(streams / 4);
  const before = alive.map(framesOf);
  await vi.waitFor(() => expect(alive.every((one, i) => framesOf(one) > (before[i] as number))).toBe(true), {
    timeout: 20_000,
  });
  for (const one of alive) one.hangUp();
  for (const { text } of cut) {
    const last = JSON.parse(text.trimEnd().split("\n\n").at(-1)?.slice(6) ?? "{}");
    expect(last.error).toMatchObject({ type: "server_error", param: null, code: "upstream_error" });
  }

  const charges = async () => {
    const rows = await query<{ request_id: string; charge: number; output_tokens: number; input_tokens: number }>(
      stack.databaseUrl,
      `select request_id, charge::float8, output_tokens::int, input_tokens::int from usage
        where not voided and request_id = any($1)`,
      [cut.map((one) => one.requestId)],
    );
    return new Map(rows.map((row) => [row.request_id, row]));
  };
  await vi.waitFor(async () => expect((await charges()).size).toBe(cut.length), { timeout: 60_000, interval: 300 });
  const billed = await charges();
  for (const one of cut) {
    const frames = framesOf(one);
    const row = billed.get(one.requestId);
    expect(row?.output_tokens).toBe(frames);
    expect(row?.charge).toBe(frames * outputPrice + (row?.input_tokens ?? 0) * inputPrice);
  }
  expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
});

it("drains before a planned restart, so that nothing is cut or fails", async () => {
  const pids = instancePids(stack.agentFolder(1));
  const open = await Promise.all(Array.from({ length: 40 }, () => openStream(15)));
  const { statuses, stop } = shortRequests();
  await vi.waitFor(() => expect(statuses.length).toBeGreaterThan(20), { timeout: 20_000 });
  const code = await stack.agents[0]?.stop();
  expect(code).toBe(0);
  stack.agents[0]?.start();
  await vi.waitFor(bothReady, { timeout: 60_000, interval: 200 });
  await vi.waitFor(() => expect(open.every((one) => one.hasEnded)).toBe(true), { timeout: 60_000 });
  await stop();
  expect(open.filter((one) => !one.text.includes("[DONE]") || framesOf(one) !== 15)).toEqual([]);
  expect(statuses.filter((status) => status !== 200)).toEqual([]);
  expect(instancePids(stack.agentFolder(1))).toEqual(pids);
});
