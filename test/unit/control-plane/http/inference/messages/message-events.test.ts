import type Anthropic from "@anthropic-ai/sdk";
import { MessageStream } from "@anthropic-ai/sdk/lib/MessageStream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ChatDelta, ChatDeltas, deltasOf } from "../../../../../../control-plane/http/inference/chat-deltas.ts";
import {
  type MessageEvent,
  MessageEvents,
  type MessageFacts,
  messageOf,
} from "../../../../../../control-plane/http/inference/messages/message-events.ts";
import { messageFrame } from "../../../../../../control-plane/http/inference/messages/message-stream.ts";
import { namedFrame } from "../../../../../../control-plane/http/inference/translated-stream.ts";
import { chatReply, chunksOf, cutBy, wholeReply } from "../../../../../fakes/chat-replies.ts";
import { longer } from "../../../../../fakes/nightly.ts";

const seal = {
  seal: (reasoning: string) => Buffer.from(reasoning).toString("base64url"),
  open: (sealed: string) => Buffer.from(sealed, "base64url").toString(),
};
const facts = (change: Partial<MessageFacts> = {}): MessageFacts => ({
  requestId: "R1",
  model: () => "org/model",
  tier: "standard",
  stopSequences: [],
  seal,
  omitsThinking: false,
  ...change,
});

function eventsOf(chunks: readonly string[], about = facts()): MessageEvent[] {
  const events: MessageEvent[] = [];
  const translation = new MessageEvents(about, (event) => events.push(event));
  const reader = new ChatDeltas((delta) => translation.delta(delta));
  for (const one of chunks) reader.read(one);
  reader.end();
  return events;
}

/** The message that the official client builds from a stream. */
function built(events: readonly MessageEvent[]): Promise<Anthropic.Message> {
  const lines = events.filter(({ type }) => type !== "ping").map((event) => `${JSON.stringify(event)}\n`);
  return MessageStream.fromReadableStream(new Blob(lines).stream()).finalMessage();
}

const start: ChatDelta = { kind: "start", created: 1 };
const finish = (reason: string, stop?: string): ChatDelta => ({ kind: "finish", reason, stop });
const end: ChatDelta = { kind: "end" };
const text = (said: string): ChatDelta => ({ kind: "text", text: said, logprobs: undefined });
const reasoning = (said: string): ChatDelta => ({ kind: "reasoning", text: said });
const call = (index: number, id?: string): ChatDelta => ({ kind: "call", index, id, name: "f" });
const given = (index: number, json: string): ChatDelta => ({ kind: "arguments", index, text: json });
const whole = (deltas: readonly ChatDelta[], change: Partial<MessageFacts> = {}) =>
  messageOf([start, ...deltas, end], facts(change));

describe("a message", () => {
  it("is the same in a stream as the official client builds it, and as a whole", async () => {
    await fc.assert(
      fc.asyncProperty(chatReply, fc.nat(), async (reply, seed) => {
        const streamed = await built(eventsOf(chunksOf(reply, cutBy(seed))));
        // The published type has `citations`; the service leaves it out where there are none, and other clients refuse null.
        const message: Omit<Anthropic.Message, "content"> = messageOf(deltasOf(wholeReply(reply)), facts());
        // The client adds results of its own parser.
        const sent = JSON.stringify(streamed, (key, value) => (key.startsWith("parsed_") ? undefined : value));
        expect(JSON.parse(sent)).toEqual(JSON.parse(JSON.stringify(message)));
      }),
      { numRuns: longer(50, 200) },
    );
  });

  it("contains exactly the text, the reasoning and the calls of the chat", () => {
    fc.assert(
      fc.property(chatReply, (reply) => {
        const { content, usage } = messageOf(deltasOf(wholeReply(reply)), facts());
        const of = (type: string) => content.filter((block) => block.type === type);
        expect(
          of("text")
            .map((block) => block.type === "text" && block.text)
            .join(""),
        ).toBe(reply.text);
        expect(
          of("thinking")
            .map((block) => block.type === "thinking" && block.thinking)
            .join(""),
        ).toBe(reply.reasoning);
        // As sent: integers beyond 2^53 are kept as raw JSON.
        expect(JSON.parse(JSON.stringify(of("tool_use")))).toMatchObject(
          reply.calls.map(({ id, name, arguments: json }) => ({ id, name, input: JSON.parse(json) })),
        );
        expect(usage.output_tokens).toBe(reply.usage.completion_tokens);
      }),
    );
  });

  it("has the frame of its object in every event", () => {
    fc.assert(
      fc.property(chatReply, fc.nat(), fc.string({ unit: "binary" }), (reply, seed, more) => {
        const chunks = chunksOf({ ...reply, text: reply.text + more }, cutBy(seed));
        for (const event of eventsOf(chunks)) expect(messageFrame(event)).toBe(namedFrame(event.type, event));
      }),
    );
  });

  it("opens and closes its blocks one after the other, between the start and the end", () => {
    fc.assert(
      fc.property(chatReply, fc.nat(), (reply, seed) => {
        const events = eventsOf(chunksOf(reply, cutBy(seed)));
        const types = events.map(({ type }) => type).filter((type) => type !== "ping");
        expect(types[0]).toBe("message_start");
        expect(types.slice(-2)).toEqual(["message_delta", "message_stop"]);
        let open: number | undefined;
        let count = 0;
        for (const event of events) {
          if (event.type === "content_block_start") {
            expect([open, event.index]).toEqual([undefined, count]);
            open = event.index;
            count += 1;
          } else if (event.type === "content_block_delta") expect(event.index).toBe(open);
          else if (event.type === "content_block_stop") {
            expect(event.index).toBe(open);
            open = undefined;
          }
        }
        expect(open).toBeUndefined();
      }),
    );
  });

  it.each<[string, readonly ChatDelta[], object]>([
    ["end_turn", [text("a"), finish("stop")], {}],
    ["max_tokens", [text("a"), finish("length")], {}],
    ["tool_use", [call(0, "x"), given(0, "{}"), finish("tool_calls")], {}],
    ["tool_use", [call(0, "x"), finish("stop")], {}],
    ["max_tokens", [call(0, "x"), given(0, '{"a'), finish("length")], {}],
    ["refusal", [{ kind: "refusal", text: "No." }, finish("stop")], {}],
    ["refusal", [text("a"), finish("content_filter")], {}],
    ["stop_sequence", [text("a"), finish("stop", "END")], { stop_sequence: "END" }],
    // A stop string of the model's own settings.
    ["end_turn", [text("a"), finish("stop", "<|im_end|>")], { stop_sequence: null }],
    ["end_turn", [text("a")], {}],
  ])("stops for %s (%#)", (stop_reason, deltas, more) => {
    expect(whole(deltas, { stopSequences: ["END"] })).toMatchObject({ stop_reason, ...more });
  });

  it("counts cached input apart, and reasoning within the output", () => {
    const usage: ChatDelta = {
      kind: "usage",
      usage: { input: 10, output: 7, total: 17, cached: 4, reasoning: 2, estimatedCost: undefined },
    };
    expect(whole([text("a"), finish("stop"), usage]).usage).toMatchObject({
      input_tokens: 6,
      cache_read_input_tokens: 4,
      cache_creation_input_tokens: 0,
      output_tokens: 7,
      output_tokens_details: { thinking_tokens: 2 },
    });
  });

  it("keeps the text of thinking only in its signature where the request omits it", () => {
    const [block] = whole([reasoning("hm"), text("a")], { omitsThinking: true }).content;
    expect(block).toEqual({ type: "thinking", thinking: "", signature: `stoker1.${seal.seal("hm")}` });
  });

  it("signs each block of thinking, and none without a seal", () => {
    const deltas = [reasoning("h"), reasoning("m"), text("a"), reasoning("so"), text("b")];
    const signatures = (given: Partial<MessageFacts>) =>
      whole(deltas, given).content.flatMap((block) => (block.type === "thinking" ? [block.signature] : []));
    expect(signatures({})).toEqual([`stoker1.${seal.seal("hm")}`, `stoker1.${seal.seal("so")}`]);
    expect(signatures({ seal: undefined })).toEqual(["", ""]);
  });

  it("gives a call an id where the engine sent none, and an empty input for arguments that are no JSON", () => {
    expect(whole([call(0), given(0, '{"a":')]).content).toMatchObject([
      { type: "tool_use", id: expect.stringMatching(/^toolu_R1\d$/), name: "f", input: {} },
    ]);
  });

  it("keeps the digits of integers in arguments that no double holds", () => {
    const message = whole([call(0, "x"), given(0, '{"id":9007199254740993,"s":"1234567890123456789","n":[1.5]}')]);
    expect(JSON.stringify(message)).toContain('"input":{"id":9007199254740993,"s":"1234567890123456789","n":[1.5]}');
  });

  it("reports an error of the engine as an error event and ends there", () => {
    const events = eventsOf([
      JSON.stringify({ choices: [{ index: 0, delta: { content: "Hel" }, finish_reason: null }] }),
      JSON.stringify({ error: { message: "it is shutting down", type: "server_error", code: "drained" } }),
      "[DONE]",
    ]);
    expect(events.at(-1)).toEqual({
      type: "error",
      error: { type: "overloaded_error", message: "it is shutting down", details: { error_code: "drained" } },
      request_id: "R1",
    });
    expect(events.filter(({ type }) => type === "message_stop")).toEqual([]);
  });

  it("starts and ends also for a response without content", () => {
    expect(eventsOf([]).map(({ type }) => type)).toEqual(["message_start", "message_delta", "message_stop"]);
  });
});
