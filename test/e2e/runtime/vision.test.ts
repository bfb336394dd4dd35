// Pictures in chats and completions, from the public endpoints to a synthetic model of SmolVLM's form. What it must say was
// computed by other programs: test/fixtures/onnx/vision-reference.py.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiKey } from "../../fakes/ports.ts";
import { type ServedModel, serveModel } from "../../fakes/served-model.ts";
import { writeVisionModel } from "../../fakes/synthetic-vision.ts";
import { startTaskEdge, type TaskEdge } from "../../fakes/task-edge.ts";

interface Reference {
  readonly text: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

const references: Readonly<Record<string, Reference>> = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../fixtures/onnx/vision.json"), "utf8"),
);
const folder = mkdtempSync(join(tmpdir(), "stoker-vision-"));
let served: ServedModel;
let tasks: TaskEdge;
let client: OpenAI;

beforeAll(async () => {
  await writeVisionModel(folder);
  served = await serveModel(folder);
  tasks = await startTaskEdge(served.origin);
  tasks.offer({ task: "text-generation", servedName: "o/m" });
  client = new OpenAI({ apiKey, baseURL: `${tasks.edge.url}/v1/openai`, maxRetries: 0 });
});
afterAll(async () => {
  await tasks?.close();
  await served?.close();
  rmSync(folder, { recursive: true, force: true });
});

const address = (name: string) => `data:image/png;base64,${readFileSync(join(folder, name)).toString("base64")}`;
type Part = OpenAI.ChatCompletionContentPart;
const picture = (i: number, detail: "auto" | "low" = "auto"): Part => ({
  type: "image_url",
  image_url: { url: address(`picture-${i}.png`), detail },
});
const words = (text: string): Part => ({ type: "text", text });
const ask = (content: Part[], more: object = {}) => ({
  model: "org/model",
  messages: [{ role: "user" as const, content }],
  temperature: 0,
  max_tokens: 24,
  ...more,
});
const chats: readonly (readonly [name: string, content: () => Part[]])[] = [
  ["wide", () => [picture(0), words("What is this?")]],
  ["coarse", () => [picture(0, "low"), words("What is this?")]],
  ["square", () => [words("Look: "), picture(1)]],
  ["both", () => [picture(0), words("And"), picture(1), words("?")]],
  ["none", () => [words("What is this?")]],
];

describe("a model that reads pictures, behind the gateway", () => {
  it.each(chats)("serves a chat (%s) as its reference does, and counts the pictures' tokens", async (name, content) => {
    const { choices, usage } = await client.chat.completions.create(ask(content()));
    const { text, prompt_tokens, completion_tokens } = references[name] as Reference;
    expect(choices[0]?.message.content).toBe(text);
    expect(usage).toMatchObject({ prompt_tokens, completion_tokens });
    expect(tasks.settled()).toBe(BigInt(prompt_tokens) * 20n);
  });

  it.each(chats)(
    "serves the same (%s) to a client of the Messages API, and counts its tokens in advance",
    async (name, content) => {
      const messages = new Anthropic({ apiKey, baseURL: tasks.edge.url, maxRetries: 0 }).messages;
      const blocks = content().map((part): Anthropic.ContentBlockParam => {
        if (part.type !== "image_url")
          return { type: "text", text: (part as OpenAI.ChatCompletionContentPartText).text };
        const data = part.image_url.url.slice("data:image/png;base64,".length);
        return { type: "image", source: { type: "base64", media_type: "image/png", data } };
      });
      const prompt = { model: "org/model", messages: [{ role: "user" as const, content: blocks }] };
      const { input_tokens: counted } = await messages.countTokens(prompt);
      const { usage } = await messages.create({ ...prompt, max_tokens: 1 });
      expect(counted).toBe(usage.input_tokens + (usage.cache_read_input_tokens ?? 0));
      // That API has no `detail`.
      if (name !== "coarse") expect(counted).toBe(references[name]?.prompt_tokens);
    },
  );

  it("streams the same response, and several at a time do not affect each other", async () => {
    const texts = await Promise.all(
      chats.map(async ([, content]) => {
        let text = "";
        const stream = await client.chat.completions.create({ ...ask(content()), stream: true });
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
        return text;
      }),
    );
    expect(texts).toEqual(chats.map(([name]) => references[name]?.text));
    const two = await client.chat.completions.create(ask([picture(0), words("What is this?")], { n: 2 }));
    expect(two.choices.map(({ message }) => message.content)).toEqual([
      references["wide"]?.text,
      references["wide"]?.text,
    ]);
    const drawn = () => client.chat.completions.create(ask([picture(1)], { temperature: 1, seed: 5 }));
    expect((await drawn()).choices[0]?.message.content).toBe((await drawn()).choices[0]?.message.content);
  });

  it("serves a completion with data.image, with or without a named place", async () => {
    const { text, prompt_tokens } = references["completion"] as Reference;
    for (const prompt of ["A picture of", "<image>A picture of"]) {
      const body = {
        model: "org/model",
        prompt,
        temperature: 0,
        max_tokens: 16,
        data: { image: [address("picture-1.png")] },
      };
      const answer = await (await tasks.edge.post("/v1/completions", body)).json();
      expect(answer.choices[0].text, prompt).toBe(text);
      expect(answer.usage.prompt_tokens).toBe(prompt_tokens);
    }
  });

  it("stops at a stop sequence, and returns log-probabilities", async () => {
    const { text } = references["wide"] as Reference;
    const stopped = await client.chat.completions.create(
      ask([picture(0), words("What is this?")], { stop: [text.slice(5, 8)], logprobs: true, top_logprobs: 2 }),
    );
    expect(stopped.choices[0]?.message.content).toBe(text.slice(0, text.indexOf(text.slice(5, 8))));
    expect(stopped.choices[0]?.finish_reason).toBe("stop");
    const [first] = stopped.choices[0]?.logprobs?.content ?? [];
    expect(first?.top_logprobs[0]?.token).toBe(text[0]);
    expect(first?.logprob).toBe(first?.top_logprobs[0]?.logprob);
    expect(first?.logprob).toBeLessThan(0);
  });

  it("takes a user's words for a picture's place as words", async () => {
    const { usage } = await client.chat.completions.create(ask([words("<image>")], { max_tokens: 1 }));
    const { usage: none } = await client.chat.completions.create(ask([words("")], { max_tokens: 1 }));
    expect((usage?.prompt_tokens ?? 0) - (none?.prompt_tokens ?? 0)).toBe("<image>".length);
  });

  it("refuses what it cannot look at, naming the part", async () => {
    const url = (text: string): Part[] => [words("a"), { type: "image_url", image_url: { url: text } }];
    const refused = async (content: Part[]) => {
      const { status, body } = await served.post("/v1/chat/completions", ask(content));
      return [status, body.error?.param, body.error?.message];
    };
    const part = "messages.0.content.1.image_url.url";
    expect(await refused(url("https://example.com/a.png"))).toEqual([400, part, expect.stringMatching(/not opened/)]);
    expect(await refused(url("data:,"))).toEqual([400, part, expect.stringMatching(/no data: address/)]);
    const broken = `data:image/png;base64,${Buffer.from("no picture").toString("base64")}`;
    expect(await refused(url(broken))).toEqual([400, part, expect.stringMatching(/cannot be used/)]);
    const long = await refused([picture(0), words("x".repeat(600))]);
    expect(long).toEqual([400, null, expect.stringMatching(/context is 512 tokens/)]);
    const schema = { response_format: { type: "json_object" } };
    expect((await served.post("/v1/chat/completions", ask([words("a")], schema))).status).toBe(400);
    expect(served.state.engine?.load()).toMatchObject({ running: 0, kvUsageRatio: 0 });
  });
});
