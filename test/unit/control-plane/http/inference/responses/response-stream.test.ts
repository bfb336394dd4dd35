import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { frameOf, responseObject } from "../../../../../../control-plane/http/inference/responses/response-object.ts";
import { textDelta } from "../../../../../../control-plane/http/inference/responses/response-output.ts";
import { frameWriter } from "../../../../../../control-plane/http/inference/responses/response-stream.ts";
import { namedFrame } from "../../../../../../control-plane/http/inference/translated-stream.ts";

const frame = frameOf({ model: "org/model", metadata: { a: '"}' } }, "resp_1", "org/model", 1, "default");
const write = frameWriter(frame);

describe("the frame of a text delta", () => {
  it("equals the frame that any other event would have", () => {
    const event = fc.record({
      type: fc.constant(textDelta),
      sequence_number: fc.nat(),
      item_id: fc.constantFrom("msg_7f3a_0", "msg_7f3a_12"),
      output_index: fc.nat(20),
      content_index: fc.nat(3),
      delta: fc.string({ unit: "binary" }),
      logprobs: fc.array(fc.record({ token: fc.string({ unit: "binary" }), logprob: fc.double({ max: 0 }) })),
    });
    fc.assert(
      fc.property(event, (one) => {
        expect(write(one)).toBe(namedFrame(one.type, one));
      }),
    );
  });
});

describe("the frame of an event with the response", () => {
  it("equals the frame of its object", () => {
    const text = fc.string({ unit: "binary" });
    const state = fc.record(
      {
        status: fc.constantFrom("in_progress", "completed", "incomplete", "failed"),
        output: fc.array(fc.record({ type: fc.constant("message"), text })),
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
      fc.property(state, fc.nat(), (one, sequence_number) => {
        const type = `response.${one.status}` as const;
        const expected = namedFrame(type, { type, sequence_number, response: responseObject(frame, one) });
        // A second event with the same state, as the first two of a stream.
        for (let i = 0; i < 2; i += 1) expect(write({ type, sequence_number, state: one })).toBe(expected);
      }),
    );
  });
});
