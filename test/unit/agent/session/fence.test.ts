import { describe, expect, it } from "vitest";
import { judgeDesired } from "../../../../agent/session/session.ts";

const stamp = (nodeEpoch: bigint, generation: bigint) => ({ nodeEpoch, generation });
const session = { nodeEpoch: 5n };

describe("a desired state", () => {
  it.each([
    ["the first one", stamp(5n, 1n), undefined, "obey"],
    ["a newer generation", stamp(5n, 3n), stamp(5n, 2n), "obey"],
    ["the same generation in a newer epoch", stamp(5n, 2n), stamp(4n, 2n), "obey"],
    ["the same again", stamp(5n, 2n), stamp(5n, 2n), "same"],
    ["an older generation", stamp(5n, 1n), stamp(5n, 2n), "refuse"],
    ["an older generation of a newer epoch", stamp(5n, 1n), stamp(4n, 2n), "refuse"],
    ["one of another session", stamp(4n, 9n), stamp(4n, 2n), "refuse"],
  ])("%s", (_, given, held, verdict) => expect(judgeDesired(given, session, 5n, held).kind).toBe(verdict));

  it("is refused from a control plane older than an accepted one", () => {
    expect(judgeDesired(stamp(5n, 99n), session, 6n, undefined)).toEqual({ kind: "refuse", why: "rejected_epoch" });
  });
});
