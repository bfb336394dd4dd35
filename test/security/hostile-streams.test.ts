// Streams of a hostile model server or provider break their own response only. Vitest fails this file on an unhandled rejection,
// which would end a control plane.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { figures } from "../fakes/agent-data-plane.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge.close());

const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
const event = (choice: string) =>
  `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"org/model","choices":[{"index":0,${choice}}]}\n\n`;
const text = event('"delta":{"role":"assistant","content":"Hi"}');
const hostile = {
  "log probabilities that are nested too deep": event(
    `"delta":{"content":"x"},"logprobs":{"content":[{"token":"x","logprob":-1,"x":${deep},"top_logprobs":[{"token":"y","x":${deep}}]}]}`,
  ),
  "a text that is nested too deep": event(`"delta":{"content":${deep}}`),
  "a call that is nested too deep": event(
    `"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":${deep}}}]}`,
  ),
};

const post = (path: string, body: object) =>
  fetch(edge.url + path, {
    method: "POST",
    headers: {
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/json",
      "anthropic-version": "2023-06-01",
    },
    body: JSON.stringify({ model: "org/model", stream: true, ...body }),
  });
const messages = [{ role: "user", content: "Hi" }];

describe.each(Object.entries(hostile))("a stream with %s", (_, frame) => {
  it.each([
    ["/v1/responses", { input: "Hi", top_logprobs: 1, include: ["message.output_text.logprobs"] }],
    ["/v1/messages", { messages, max_tokens: 8 }],
  ])("ends the response of %s, and no other", async (path, body) => {
    edge.agent.script(
      // Each frame in a turn of its own: the response is still open when its event breaks it.
      { kind: "stream", frames: [text, frame, text], usage: figures, gate: () => new Promise(setImmediate) },
      { kind: "stream", frames: [text], usage: figures },
    );
    const broken = await post(path, body);
    expect(broken.status).toBe(200);
    await broken.text().catch(() => "cut");
    const next = await post(path, body);
    expect(await next.text()).toContain("Hi");
  });
});
