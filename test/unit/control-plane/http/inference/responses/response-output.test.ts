import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deltasOf } from "../../../../../../control-plane/http/inference/chat-deltas.ts";
import type { ResponseEvent } from "../../../../../../control-plane/http/inference/responses/response-events.ts";
import { frameOf, responseObject } from "../../../../../../control-plane/http/inference/responses/response-object.ts";
import {
  type OutputOptions,
  ResponseOutput,
} from "../../../../../../control-plane/http/inference/responses/response-output.ts";
import { responseStream } from "../../../../../../control-plane/http/inference/responses/response-stream.ts";
import { calledTools } from "../../../../../../control-plane/http/inference/responses/tools.ts";
import { type ChatReply, chatReply, chunksOf, cutBy, wholeReply } from "../../../../../fakes/chat-replies.ts";
import { readSdkTypes } from "../../../../../fakes/sdk-types.ts";

const sdk = readSdkTypes(
  join(import.meta.dirname, "../../../../../../node_modules/openai/resources/responses/responses.d.ts"),
);
const body = {
  model: "org/model",
  input: "Hi",
  tools: [
    { type: "function", name: "get_weather", parameters: { type: "object" } },
    { type: "custom", name: "run" },
    { type: "namespace", name: "web", tools: [{ type: "function", name: "search" }] },
  ],
};
const options = (change: Partial<OutputOptions> = {}): OutputOptions => ({
  frame: frameOf(body, "resp_1", "org/model", 1, "default"),
  idBase: "1",
  isSummary: false,
  tools: calledTools(body.tools),
  now: () => 2,
  ...change,
});

/** Events of a stream as a client reads them. */
function streamed(chunks: readonly string[], change: Partial<OutputOptions> = {}): ResponseEvent[] {
  const stream = responseStream(options(change));
  const frames = chunks.map((chunk) => stream.event(chunk)).join("") + stream.end();
  return frames
    .split("\n\n")
    .filter((frame) => frame !== "")
    .map((frame) => {
      const [, type, data] = /^event: (\S+)\ndata: (.*)$/s.exec(frame) ?? [];
      const event = JSON.parse(data as string) as ResponseEvent;
      expect(event.type).toBe(type);
      return event;
    });
}

function whole(reply: ChatReply, change: Partial<OutputOptions> = {}) {
  const output = new ResponseOutput(options(change));
  for (const delta of deltasOf(wholeReply(reply))) output.take(delta);
  return structuredClone(responseObject(options(change).frame, output.final as never));
}

const variants = fc.record({ isSummary: fc.boolean(), isSealed: fc.boolean() }).map(({ isSummary, isSealed }) => ({
  isSummary,
  seal: isSealed ? (text: string) => Buffer.from(text).toString("base64") : undefined,
}));

describe("a streamed response", () => {
  it("ends with the response that is sent without a stream", () => {
    fc.assert(
      fc.property(chatReply, fc.nat(), variants, (reply, seed, change) => {
        const last = streamed(chunksOf(reply, cutBy(seed)), change).at(-1);
        expect(last?.type).toBe(reply.finish === "length" ? "response.incomplete" : "response.completed");
        expect(last?.["response"]).toEqual(whole(reply, change));
      }),
    );
  });

  it("has the published type's fields in every event", () => {
    fc.assert(
      fc.property(chatReply, fc.nat(), variants, (reply, seed, change) => {
        for (const event of streamed(chunksOf(reply, cutBy(seed)), change)) {
          const name = sdk.byType.get(event.type);
          expect(name, event.type).toBeDefined();
          // The SDK computes `output_text` itself.
          const { response } = event as { readonly response?: object };
          const read = response ? { ...event, response: { output_text: "", ...response } } : event;
          expect(sdk.problems(read, name as string)).toEqual([]);
        }
      }),
    );
  });

  it("numbers its events, and every item is added once, filled and done once", () => {
    fc.assert(
      fc.property(chatReply, fc.nat(), variants, (reply, seed, change) => {
        const events = streamed(chunksOf(reply, cutBy(seed)), change);
        expect(events.map((event) => event["sequence_number"])).toEqual(events.map((_, i) => i));
        expect(events.slice(0, 2).map(({ type }) => type)).toEqual(["response.created", "response.in_progress"]);
        const open = new Map<unknown, string>();
        const ended = new Map<unknown, unknown>();
        for (const event of events.slice(2, -1)) {
          const index = event["output_index"];
          const item = event["item"] as { readonly id: string } | undefined;
          if (event.type === "response.output_item.added") {
            expect(index).toBe(open.size + ended.size);
            open.set(index, item?.id as string);
          } else if (event.type === "response.output_item.done") {
            expect(open.get(index)).toBe(item?.id);
            open.delete(index);
            ended.set(index, item);
          } else expect(open.get(index)).toBe(event["item_id"]);
        }
        expect(open.size).toBe(0);
        const last = events.at(-1)?.["response"] as { readonly output: readonly unknown[] };
        expect([...ended].sort(([a], [b]) => Number(a) - Number(b)).map(([, item]) => item)).toEqual(last.output);
      }),
    );
  });

  it("gives every text as the sum of its deltas", () => {
    fc.assert(
      fc.property(chatReply, fc.nat(), variants, (reply, seed, change) => {
        const events = streamed(chunksOf(reply, cutBy(seed)), change);
        const sums = new Map<string, string>();
        for (const event of events) {
          const { item_id: id, delta } = event as { readonly item_id?: string; readonly delta?: string };
          if (delta !== undefined) sums.set(`${event.type} ${id}`, (sums.get(`${event.type} ${id}`) ?? "") + delta);
        }
        const dones = events.filter(({ type }) => type.endsWith(".done") && !/item|part/.test(type));
        for (const event of dones) {
          const { item_id: id, text, arguments: given, input } = event as Record<string, unknown>;
          const sum = sums.get(`${event.type.replace(/done$/, "delta")} ${id}`) ?? "";
          expect(sum).toBe(text ?? given ?? input);
        }
        const said = (type: string) => [...sums].filter(([key]) => key.startsWith(type)).map(([, sum]) => sum);
        expect(said("response.output_text.delta").join("")).toBe(reply.text);
        expect(said("response.reasoning_").join("")).toBe(reply.reasoning);
      }),
    );
  });

  it("ends as failed when the engine reports an error, and ignores what follows", () => {
    const said = JSON.stringify({ choices: [{ index: 0, delta: { content: "Hel" }, finish_reason: null }] });
    const events = streamed([said, '{"error":{"message":"out of memory","code":"x"}}', said]);
    expect(events.at(-1)).toMatchObject({
      type: "response.failed",
      response: {
        status: "failed",
        error: { code: "server_error", message: "out of memory" },
        output: [{ type: "message", status: "incomplete", content: [{ text: "Hel" }] }],
      },
    });
    expect(events.filter(({ type }) => type === "response.failed")).toHaveLength(1);
  });

  it("gives a refusal as a part of its own", () => {
    const said = (delta: object) => JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] });
    const last = streamed([said({ content: "No: " }), said({ refusal: "I will not." })]).at(-1);
    expect(last).toMatchObject({
      response: { output: [{ content: [{ text: "No: " }, { type: "refusal", refusal: "I will not." }] }] },
    });
  });

  it("has an empty message where the engine said nothing", () => {
    expect(streamed(["[DONE]"]).at(-1)).toMatchObject({
      type: "response.completed",
      response: { output: [{ type: "message", content: [{ type: "output_text", text: "" }] }] },
    });
  });

  it("gives log probabilities with their text", () => {
    const entry = { token: "Hi", logprob: -0.1, bytes: [72, 105], top_logprobs: [] };
    const choice = { index: 0, delta: { content: "Hi" }, logprobs: { content: [entry] }, finish_reason: "stop" };
    const events = streamed([JSON.stringify({ choices: [choice] })]);
    for (const type of ["response.output_text.delta", "response.output_text.done"])
      expect(events.find((event) => event.type === type)).toMatchObject({ logprobs: [entry] });
    expect(events.at(-1)).toMatchObject({ response: { output: [{ content: [{ logprobs: [entry] }] }] } });
  });
});
