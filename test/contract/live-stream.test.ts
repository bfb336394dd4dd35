// Live figures as server-sent events on a real socket: whose, how many, and when they end.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { InvalidApiKey } from "../../control-plane/accounts/errors.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { adasSession, adminKey, apiKey } from "../fakes/ports.ts";

const revoked = new Set<string>();
let edge: Edge;
beforeAll(async () => {
  edge = await startEdge({
    change: (deps) => ({
      ...deps,
      liveLimits: { maxPerAccount: 2, sessionMs: 0 },
      spine: {
        ...deps.spine,
        standing: {
          now: () => 0,
          again(caller) {
            if (revoked.has(caller.account)) throw new InvalidApiKey();
            return caller;
          },
        },
      },
    }),
  });
});
afterAll(() => edge.close());

interface Stream {
  readonly response: Response;
  /** Parsed documents; undefined: the stream ended. */
  next(): Promise<Record<string, number | null> | undefined>;
  close(): Promise<void>;
}

async function open(query: string, headers: Record<string, string>): Promise<Stream> {
  const response = await fetch(`${edge.url}/v1/metrics/live${query}`, { headers });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return {
    response,
    async next() {
      for (;;) {
        const found = /^data: (.*)\n\n/m.exec(text);
        if (found) {
          text = text.slice(found.index + found[0].length);
          return JSON.parse(found[1] as string);
        }
        const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
        if (done) return undefined;
        text += value;
      }
    },
    close: async () => void (await reader?.cancel()),
  };
}

const byKey = (key: string) => ({ authorization: `Bearer ${key}` });
const events = { accept: "text/event-stream" };

describe("the stream of live figures", () => {
  it("repeats the figures of the account, to a customer", async () => {
    const stream = await open("", { ...byKey(apiKey), ...events });
    expect(stream.response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    for (let i = 0; i < 3; i += 1)
      expect(await stream.next()).toMatchObject({
        requests_per_second: 1,
        tokens_per_second: 2,
        errors_per_second: 0.1,
        time_to_first_token: 0.001,
        gpus: null,
      });
    await stream.close();
  });

  it("shows an operator the installation with its GPUs, or the account that it acts as", async () => {
    const fleet = await open("?stream=1", byKey(adminKey));
    expect(await fleet.next()).toMatchObject({ requests_per_second: 10, gpus: 8, gpus_held: 4, waiting_requests: 1 });
    await fleet.close();
    const own = await open("?stream=1", { ...byKey(adminKey), "x-stoker-act-as": "u:1000000000001" });
    expect(await own.next()).toMatchObject({ requests_per_second: 1, gpus: null });
    await own.close();
  });

  it("needs a credential, and an operator's for the installation", async () => {
    for (const [query, headers, status] of [
      ["?stream=1", {}, 401],
      ["?scope=account", {}, 401],
      ["", { ...events, ...byKey("stk_wrong") }, 401],
      ["?stream=1&scope=fleet", byKey(apiKey), 403],
      ["?stream=1", { ...byKey(apiKey), "x-stoker-act-as": "u:1000000000001" }, 403],
      ["?stream=maybe", byKey(apiKey), 422],
    ] as const) {
      const { response } = await open(query, headers);
      expect(response.status, query).toBe(status);
      expect(response.headers.get("content-type")).toMatch(/^application\/json/);
    }
  });

  it("is one document without a stream", async () => {
    const answer = await fetch(`${edge.url}/v1/metrics/live?scope=account`, { headers: byKey(apiKey) });
    expect(await answer.json()).toMatchObject({ requests_per_second: 1, total_tflops: null });
    const anonymous = await fetch(`${edge.url}/v1/metrics/live`);
    expect(Object.keys((await anonymous.json()) as object)).toHaveLength(4);
  });

  it("is open at most so often for an account, and again after one has closed", async () => {
    const streams = await Promise.all([1, 2].map(() => open("?stream=1", byKey(apiKey))));
    const third = await open("?stream=1", byKey(apiKey));
    expect(third.response.status).toBe(429);
    expect(JSON.parse(await third.response.text().catch(() => "{}"))).toBeDefined();
    const other = await open("?stream=1", byKey(adminKey));
    expect(other.response.status).toBe(200);
    for (const stream of [...streams, other]) await stream.close();
    await expect
      .poll(async () => {
        const again = await open("?stream=1", byKey(apiKey));
        await again.close();
        return again.response.status;
      })
      .toBe(200);
  });

  it("ends when its key is revoked", async () => {
    const stream = await open("?stream=1", byKey(adminKey));
    await stream.next();
    revoked.add("u:1000000000000");
    while (await stream.next());
    revoked.clear();
  });

  it("ends at sign-out", async () => {
    const stream = await open("?stream=1", { cookie: `session=${adasSession.cookie}` });
    expect(await stream.next()).toMatchObject({ requests_per_second: 1 });
    await edge.deps.sessions.end(adasSession.cookie);
    while (await stream.next());
  });

  it("ends when the control plane stops", async () => {
    const stream = await open("?stream=1", byKey(apiKey));
    await stream.next();
    const closing = edge.app.close();
    while (await stream.next());
    await closing;
  });
});
