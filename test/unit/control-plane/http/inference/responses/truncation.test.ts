import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ResponseItem } from "../../../../../../control-plane/http/inference/responses/responses-schemas.ts";
import {
  isOverflow,
  shorterConversations,
} from "../../../../../../control-plane/http/inference/responses/truncation.ts";
import { badRequest } from "../../../../../../control-plane/service-error.ts";

const said = fc.string({ minLength: 1, maxLength: 200 });
const turn = fc.tuple(said, fc.array(said, { maxLength: 2 }), said).map(([question, calls, answer]): ResponseItem[] => [
  { role: "user", content: question },
  ...calls.flatMap((given, n): ResponseItem[] => [
    { type: "function_call", call_id: `c${n}`, name: "f", arguments: given },
    { type: "function_call_output", call_id: `c${n}`, output: given },
  ]),
  { role: "assistant", content: answer },
]);
const head = fc
  .array(said, { maxLength: 2 })
  .map((texts) => texts.map((content): ResponseItem => ({ role: "developer", content })));

describe("shorter conversations", () => {
  it("keep leading instructions and the last turn, drop whole turns from the oldest, and become shorter", () => {
    fc.assert(
      fc.property(head, fc.array(turn, { minLength: 1, maxLength: 20 }), (instructions, turns) => {
        const items = [...instructions, ...turns.flat()];
        let length = items.length;
        for (const shorter of shorterConversations(items)) {
          expect(shorter.length).toBeLessThan(length);
          length = shorter.length;
          const kept = shorter.slice(instructions.length);
          expect(shorter.slice(0, instructions.length)).toEqual(instructions);
          expect(kept).toEqual(items.slice(-kept.length));
          expect(kept[0]?.role).toBe("user");
        }
        const last = turns.at(-1) as ResponseItem[];
        if (turns.length > 1) expect(length).toBe(instructions.length + last.length);
      }),
    );
  });

  it("are none where there is only one turn", () => {
    expect([...shorterConversations([{ role: "user", content: "Hi" }])]).toEqual([]);
    expect([...shorterConversations([])]).toEqual([]);
  });
});

it("recognises the refusal of too long a prompt by its code", () => {
  expect(isOverflow(badRequest("context_length_exceeded", "too long"))).toBe(true);
  expect(isOverflow(badRequest("invalid_request", "messages must alternate"))).toBe(false);
  expect(isOverflow(new Error("context length"))).toBe(false);
});
