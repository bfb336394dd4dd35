import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { textDelta } from "../../../../../../control-plane/http/inference/responses/response-output.ts";
import { textFrame } from "../../../../../../control-plane/http/inference/responses/response-stream.ts";
import { namedFrame } from "../../../../../../control-plane/http/inference/translated-stream.ts";

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
        expect(textFrame(one)).toBe(namedFrame(one.type, one));
      }),
    );
  });
});
