import fc from "fast-check";
import { expect, it } from "vitest";
import { eventsIn } from "../../../console/domain/chat.ts";

it("ignores comments and joins the lines of an event", () => {
  expect(eventsIn(": waiting\n\ndata: a\ndata: b\n\nevent: x\ndata:c\r\n\r\ndata: [DO")).toEqual({
    data: ["a\nb", "c"],
    rest: "data: [DO",
  });
});

it("parses the same events however the stream is chunked", () => {
  const text = fc.stringMatching(/^[a-z {}]{1,12}$/);
  fc.assert(
    fc.property(fc.array(text, { maxLength: 6 }), fc.array(fc.nat(7), { maxLength: 20 }), (events, sizes) => {
      const stream = events.map((event) => `data: ${event}\n\n`).join("");
      const seen: string[] = [];
      let rest = "";
      let at = 0;
      for (const size of [...sizes.map((one) => one + 1), stream.length]) {
        const read = eventsIn(rest + stream.slice(at, at + size));
        seen.push(...read.data);
        rest = read.rest;
        at += size;
      }
      expect(seen).toEqual(events);
      expect(rest).toBe("");
    }),
  );
});
