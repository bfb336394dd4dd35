import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nano } from "../../proto/money.ts";
import { chat, type Edge, startEdge, text } from "../fakes/edge.ts";
import { servedModel } from "../fakes/ports.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge.close());

const paths = { text: "/v1/completions", chat: "/v1/compat/chat/completions" };

/** The bytes the agent was given for `body`. */
async function forwarded(path: string, body: string, change: Parameters<typeof servedModel>[0] = {}): Promise<string> {
  edge.models.models = [servedModel(change)];
  const answer = await edge.post(path, body);
  expect(answer.status, await answer.clone().text()).toBe(200);
  await answer.arrayBuffer();
  return String(edge.agent.asked.at(-1)?.body);
}

describe("a body in which nothing must change", () => {
  it.each([
    ["as it is", `  {"prompt" : "a\\u00e9",\n "model":"org/model", "max_tokens":5}\n`],
    [
      "a stream that asks for usage",
      `{"model":"org/model","prompt":"a","stream":true,"stream_options":{"include_usage":true}}`,
    ],
    ["a seed beyond 2^53", `{"model":"org/model","prompt":"a","seed":18446744073709551615}`],
    ["a seed below -2^53", `{"model":"org/model","prompt":"a","seed":-9223372036854775808}`],
  ])("goes byte for byte: %s", async (_name, body) => {
    expect(await forwarded(paths.text, body)).toBe(body);
  });

  it("of a stream gets its request for usage in front, the rest byte for byte", async () => {
    const body = ` {"model":"org/model", "prompt":"a","stream":true, "seed":9007199254740993}`;
    expect(await forwarded(paths.text, body)).toBe(
      `{"stream_options":{"include_usage":true},"model":"org/model", "prompt":"a","stream":true, "seed":9007199254740993}`,
    );
  });
});

describe("a body that must change", () => {
  it("loses keys that no engine should act on", async () => {
    const body = JSON.stringify(
      text({ best_of: 1, cache_salt: "x", chat_template: "{{", models: ["a"], service_tier: "flex" }),
    );
    expect(JSON.parse(await forwarded(paths.text, body))).toEqual(text());
  });

  it("keeps a big seed to the last digit when it is rebuilt", async () => {
    const body = `{"model":"org/model","prompt":"a","seed":18446744073709551615,"best_of":1}`;
    expect(await forwarded(paths.text, body)).toBe(`{"model":"org/model","prompt":"a","seed":18446744073709551615}`);
  });

  it("has max_completion_tokens as max_tokens", async () => {
    const sent = JSON.parse(await forwarded(paths.chat, JSON.stringify(chat({ max_completion_tokens: 9 }))));
    expect(sent).toEqual(chat({ max_tokens: 9 }));
  });

  it("carries the name the engine knows", async () => {
    expect(JSON.parse(await forwarded(paths.chat, JSON.stringify(chat()), { servedName: "inner" })).model).toBe(
      "inner",
    );
    const byId = chat({ model: `deploy_id:${servedModel().deployId}` });
    expect(JSON.parse(await forwarded(paths.chat, JSON.stringify(byId))).model).toBe("org/model");
  });

  it("has a prompt_cache_key that is the account's own, the same for the same key", async () => {
    const body = JSON.stringify(chat({ prompt_cache_key: "k" }));
    const first = JSON.parse(await forwarded(paths.chat, body)).prompt_cache_key;
    expect(first).not.toBe("k");
    expect(JSON.parse(await forwarded(paths.chat, body)).prompt_cache_key).toBe(first);
  });

  it("says how long the prompt's cache is to be kept", async () => {
    const options = { prompt_cache_key: "k", prompt_cache_options: { ttl: "1h" } };
    const sent = JSON.parse(await forwarded(paths.chat, JSON.stringify(chat(options))));
    expect(sent.prompt_cache_options).toEqual({ ttl: "1h" });
  });

  it("asks for usage although the client does not want it", async () => {
    const body = JSON.stringify(text({ stream: true, stream_options: { include_usage: false, odd: 1 } }));
    expect(JSON.parse(await forwarded(paths.text, body)).stream_options).toEqual({ include_usage: true });
  });

  it("says nothing of streams when it is none", async () => {
    const body = JSON.stringify(text({ stream_options: { include_usage: true } }));
    expect(JSON.parse(await forwarded(paths.text, body))).toEqual(text());
  });
});

describe("an external engine", () => {
  const external = { engine: "external", contextLength: 4096 } as const;

  it("gets no keys of our own", async () => {
    const body = JSON.stringify(chat({ max_tokens: 5, prompt_cache_key: "k", reasoning: { enabled: false } }));
    expect(JSON.parse(await forwarded(paths.chat, body, external))).toEqual(chat({ max_tokens: 5 }));
  });

  it("starts no message beside the one that it continues", async () => {
    const body = JSON.stringify(chat({ max_tokens: 5, continue_final_message: true }));
    const sent = JSON.parse(await forwarded(paths.chat, body, external));
    expect(sent).toEqual({ ...JSON.parse(body), add_generation_prompt: false });
    expect(await forwarded(paths.chat, body)).toBe(body);
  });

  it("is told max_tokens when the client did not say, so that it stays within the hold", async () => {
    const sent = JSON.parse(await forwarded(paths.text, JSON.stringify(text({ stream: true })), external));
    expect(sent).toMatchObject({ ...text({ stream: true }), stream_options: { include_usage: true } });
    expect(sent.max_tokens).toBeGreaterThan(3000);
    expect(sent.max_tokens).toBeLessThan(4096);
  });
});

it("lowers and reports max_tokens when the budget covers less", async () => {
  const own = await startEdge();
  const request = text({ max_tokens: 1000 });
  // 16 bytes of prompt and 80 of template at 20 nano-USD, and ten tokens at 40.
  own.budgets.available = nano(96n * 20n + 10n * 40n);
  const answer = await own.post(paths.text, request);
  expect(answer.status).toBe(200);
  expect(answer.headers.get("x-stoker-max-tokens")).toBe("10");
  expect(JSON.parse(String(own.agent.asked[0]?.body)).max_tokens).toBe(10);
  expect(own.agent.asked[0]?.ticket).toMatchObject({ maxTokens: 10 });
  await own.close();
});

it("less than prompt and one token is 402", async () => {
  const own = await startEdge();
  own.budgets.available = nano(100n);
  const answer = await own.post(paths.text, text());
  expect(answer.status).toBe(402);
  expect(answer.headers.get("x-should-retry")).toBe("false");
  expect(own.agent.asked).toHaveLength(0);
  await own.close();
});
