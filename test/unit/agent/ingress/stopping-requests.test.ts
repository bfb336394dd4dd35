import { beforeEach, describe, expect, it, vi } from "vitest";
import { StoppingRequests } from "../../../../agent/ingress/stopping-requests.ts";

const minute = 60_000;
const body = (prompt: string, more: object = {}, account = "alice") => ({
  account,
  body: Buffer.from(JSON.stringify({ model: "m", messages: [{ role: "user", content: prompt }], ...more })),
});
/** The same request of another account. */
const bobs = (prompt: string, more: object = {}) => body(prompt, more, "bob");
const format = { response_format: { type: "regex", regex: "(a|b)*" } };

describe("requests that stop model servers", () => {
  let nowMs = 0;
  let stopping: StoppingRequests;
  beforeEach(() => {
    nowMs = 1_000;
    stopping = new StoppingRequests(() => nowMs);
  });

  it("are refused for ten minutes after the second death at which they were present", () => {
    expect(stopping.serverEnded([body("bomb")])).toBe(0);
    expect(stopping.refusedSeconds(body("bomb"))).toBeUndefined();
    expect(stopping.serverEnded([body("bomb", { user: "b", seed: 2, stream: true })])).toBe(2);
    expect(stopping.refusedSeconds(body("bomb", { user: "c" }))).toBe(600);
    expect(stopping.refusedSeconds(body("another"))).toBeUndefined();
    nowMs += 10 * minute;
    expect(stopping.refusedSeconds(body("bomb"))).toBeUndefined();
    expect(stopping.serverEnded([body("bomb")])).toBe(3);
    expect(stopping.refusedSeconds(body("bomb"))).toBe(600);
  });

  it("are distinguished from those that an engine answered between the deaths", () => {
    stopping.serverEnded([body("bomb"), body("hello")]);
    stopping.answered(body("hello", { user: "b" }));
    expect(stopping.serverEnded([body("bomb"), body("hello")])).toBe(2);
    expect(stopping.refusedSeconds(body("bomb"))).toBe(600);
    expect(stopping.refusedSeconds(body("hello"))).toBeUndefined();
  });

  it("need a third death when two kinds were present at both", () => {
    const both = [body("bomb"), body("hello")];
    expect([stopping.serverEnded(both), stopping.serverEnded(both)]).toEqual([0, 0]);
    expect(stopping.refusedSeconds(body("bomb"))).toBeUndefined();
    expect(stopping.serverEnded([body("bomb")])).toBe(3);
    expect(stopping.refusedSeconds(body("bomb"))).toBe(600);
    expect(stopping.refusedSeconds(body("hello"))).toBeUndefined();
  });

  it("are recognised by their format when the prompt changes", () => {
    stopping.serverEnded([body("one", format)]);
    expect(stopping.serverEnded([body("two", format)])).toBe(2);
    expect(stopping.refusedSeconds(body("three", format))).toBe(600);
    expect(stopping.refusedSeconds(body("three"))).toBeUndefined();
  });

  it("are refused only for the account that sent them", () => {
    for (const prompt of ["one", "two"]) stopping.serverEnded([body(prompt, format)]);
    expect(stopping.refusedSeconds(body("three", format))).toBe(600);
    expect(stopping.refusedSeconds(bobs("two", format))).toBeUndefined();
    for (const prompt of ["one", "two"]) stopping.serverEnded([bobs(prompt, format)]);
    expect(stopping.refusedSeconds(bobs("three", format))).toBe(600);
  });

  it("stay suspects of their account when another account's equal request is answered", () => {
    stopping.serverEnded([body("one", format), bobs("one", format)]);
    stopping.answered(bobs("one", format));
    expect(stopping.serverEnded([body("two", format), bobs("two", format)])).toBe(2);
    expect(stopping.refusedSeconds(body("three", format))).toBe(600);
    expect(stopping.refusedSeconds(bobs("three", format))).toBeUndefined();
  });

  it("are remembered however many another account sends", () => {
    stopping.serverEnded([body("bomb")]);
    for (let i = 0; i < 2_000; i++) stopping.serverEnded([bobs(`filler ${i}`)]);
    expect(stopping.serverEnded([body("bomb")])).toBe(2);
  });

  it("are forgotten after thirty minutes, and their number is bounded", () => {
    stopping.serverEnded([body("bomb")]);
    nowMs += 31 * minute;
    expect(stopping.serverEnded([body("bomb")])).toBe(0);
    for (let i = 0; i < 1_000; i++) stopping.serverEnded([body(`filler ${i}`)]);
    expect(stopping.serverEnded([body("bomb")])).toBe(0);
  });

  it("leave a death unexplained at which none was present", () => {
    expect([stopping.serverEnded([]), stopping.serverEnded([])]).toEqual([0, 0]);
  });

  describe("cost other requests", () => {
    const readsOf = (given: { readonly body: Buffer }) => vi.spyOn(given.body, "toString");

    it("one parse of each body of that account while they are refused, and none afterwards", () => {
      for (const _ of [1, 2]) stopping.serverEnded([body("bomb")]);
      const [during, afterwards] = [body("hello"), body("hello")];
      const ofAnother = bobs("hello");
      const readOfAnother = readsOf(ofAnother);
      expect(stopping.refusedSeconds(ofAnother)).toBeUndefined();
      stopping.answered(ofAnother);
      expect(readOfAnother).not.toHaveBeenCalled();
      const [readDuring, readAfterwards] = [readsOf(during), readsOf(afterwards)];
      expect(stopping.refusedSeconds(during)).toBeUndefined();
      stopping.answered(during);
      expect(readDuring).toHaveBeenCalledTimes(1);
      nowMs += 10 * minute;
      expect(stopping.refusedSeconds(afterwards)).toBeUndefined();
      nowMs += 21 * minute;
      stopping.answered(afterwards);
      expect(readAfterwards).not.toHaveBeenCalled();
    });

    it("no reading before the engine while nothing is refused", () => {
      stopping.serverEnded([body("bomb")]);
      const other = body("hello");
      const read = readsOf(other);
      expect(stopping.refusedSeconds(other)).toBeUndefined();
      expect(read).not.toHaveBeenCalled();
    });

    it("one reading at a death", () => {
      const other = body("hello");
      const read = readsOf(other);
      stopping.serverEnded([other, body("bomb")]);
      expect(read).toHaveBeenCalledTimes(1);
    });
  });

  it("are recognised by every byte when they are too large to parse", () => {
    const large = (fill: string, bytes = 3 * 1024 * 1024) => ({ account: "alice", body: Buffer.alloc(bytes, fill) });
    for (const _ of [1, 2]) stopping.serverEnded([large("b")]);
    expect(stopping.refusedSeconds(large("b"))).toBe(600);
    expect(stopping.refusedSeconds(large("c"))).toBeUndefined();
    expect(stopping.refusedSeconds(large("b", 3 * 1024 * 1024 - 1))).toBeUndefined();
    stopping.answered(large("b"));
    expect(stopping.refusedSeconds(large("b"))).toBeUndefined();
  });
});
