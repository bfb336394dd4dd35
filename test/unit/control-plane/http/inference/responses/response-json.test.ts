import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ChatDeltas } from "../../../../../../control-plane/http/inference/chat-deltas.ts";
import {
  type StateEvent,
  textDelta,
} from "../../../../../../control-plane/http/inference/responses/response-events.ts";
import { frameWriter, responseJson } from "../../../../../../control-plane/http/inference/responses/response-json.ts";
import {
  frameOf,
  type ResponseState,
  responseObject,
} from "../../../../../../control-plane/http/inference/responses/response-object.ts";
import { ResponseOutput } from "../../../../../../control-plane/http/inference/responses/response-output.ts";
import { calledTools } from "../../../../../../control-plane/http/inference/responses/tools.ts";
import { namedFrame } from "../../../../../../control-plane/http/inference/translated-stream.ts";
import { chatReply, chunksOf, cutBy } from "../../../../../fakes/chat-replies.ts";

const frame = frameOf({ model: "org/model", metadata: { a: '"}' } }, "resp_1", "org/model", 1, "default");
const text = fc.string({ unit: "binary" });
const logprobs = fc.array(fc.record({ token: text, logprob: fc.double({ max: 0 }) }));

describe("the frame of an event", () => {
  it("equals that of its object", () => {
    const variants = fc.record({ isSummary: fc.boolean(), more: text });
    fc.assert(
      fc.property(chatReply, fc.nat(), variants, (reply, seed, { isSummary, more }) => {
        const write = frameWriter(frame);
        const tools = calledTools([{ type: "custom", name: "run" }]);
        const options = { frame, idBase: "1", isSummary, tools, now: () => 2 };
        const output = new ResponseOutput(options, (event) => {
          const { state, ...rest } = event as StateEvent;
          const object = state ? { ...rest, response: responseObject(frame, state) } : event;
          expect(write(event)).toBe(namedFrame(event.type, object));
        });
        const deltas = new ChatDeltas((delta) => output.take(delta));
        for (const chunk of chunksOf({ ...reply, text: reply.text + more }, cutBy(seed))) deltas.read(chunk);
        deltas.end();
        expect(output.final).toBeDefined();
      }),
    );
  });

  it("equals that of its object with log probabilities", () => {
    const event = fc.record({
      type: fc.constant(textDelta),
      sequence_number: fc.nat(),
      item_id: fc.constantFrom("msg_7f3a_0", "msg_7f3a_12"),
      output_index: fc.nat(20),
      content_index: fc.nat(3),
      delta: text,
      logprobs,
    });
    fc.assert(
      fc.property(event, (one) => {
        expect(frameWriter(frame)(one)).toBe(namedFrame(one.type, one));
      }),
    );
  });
});

describe("the text of a response", () => {
  it("equals that of its object", () => {
    const part = fc.oneof(
      fc.record({ type: fc.constant("output_text"), text, annotations: fc.constant([]), logprobs }),
      fc.record({ type: fc.constant("refusal"), refusal: text }),
    );
    const item = fc.oneof(
      fc.record({
        id: fc.constant("msg_1_0"),
        type: fc.constant("message"),
        status: fc.constantFrom("completed", "incomplete"),
        role: fc.constant("assistant"),
        content: fc.array(part, { maxLength: 3 }),
      }),
      fc.record({ type: fc.constant("function_call"), arguments: text }),
    );
    const state: fc.Arbitrary<ResponseState> = fc.record(
      {
        status: fc.constantFrom("queued", "in_progress", "completed", "incomplete", "failed", "cancelled"),
        output: fc.array(item, { maxLength: 3 }),
        usage: fc.record({
          input: fc.nat(),
          output: fc.nat(),
          total: fc.nat(),
          cached: fc.nat(),
          reasoning: fc.nat(),
          estimatedCost: fc.option(fc.double({ min: 0, max: 1 }), { nil: undefined }),
        }),
        completedAt: fc.nat(),
        error: fc.record({ code: fc.constant("server_error"), message: text }),
        incompleteReason: fc.constantFrom("max_output_tokens", "content_filter"),
      },
      { requiredKeys: ["status", "output"] },
    );
    fc.assert(
      fc.property(state, (one) => {
        expect(responseJson(JSON.stringify(frame), one)).toBe(JSON.stringify(responseObject(frame, one)));
      }),
    );
  });
});
