import { beforeEach, describe, expect, it, vi } from "vitest";
import { RefusedRequests } from "../../../../control-plane/inference/refused-requests.ts";
import type { AccountId, DeploymentId } from "../../../../proto/ids.ts";

const minute = 60_000;
const [ours, theirs] = ["ours", "theirs"] as DeploymentId[] as [DeploymentId, DeploymentId];
const [alice, bob] = ["alice", "bob"] as AccountId[] as [AccountId, AccountId];
const body = (prompt: string, more: object = {}) => Buffer.from(JSON.stringify({ prompt, ...more }));

describe("requests that hosts refuse", () => {
  let nowMs = 0;
  let requests: RefusedRequests;
  beforeEach(() => {
    nowMs = 1_000;
    requests = new RefusedRequests(() => nowMs);
  });
  /** How often the body of a request that is sent and answered is read for its shape. */
  const reads = (deployId: DeploymentId, prompt = "hello") => {
    const sent = body(prompt);
    const read = vi.spyOn(sent, "toString");
    expect(requests.secondsLeft(deployId, alice, sent)).toBeUndefined();
    requests.answered(deployId, alice, sent);
    return read.mock.calls.length;
  };

  it("are refused on every host of their deployment until the time is over", () => {
    requests.add(ours, alice, body("bomb"), 600);
    expect(requests.secondsLeft(ours, alice, body("bomb", { user: "b", seed: 2 }))).toBe(600);
    expect(requests.secondsLeft(ours, alice, body("hello"))).toBeUndefined();
    expect(requests.secondsLeft(theirs, alice, body("bomb"))).toBeUndefined();
    nowMs += 10 * minute;
    expect(requests.secondsLeft(ours, alice, body("bomb"))).toBeUndefined();
  });

  it("are refused only to the account that sent them", () => {
    requests.add(ours, alice, body("bomb"), 600);
    expect(requests.secondsLeft(ours, bob, body("bomb"))).toBeUndefined();
    requests.answered(ours, bob, body("bomb"));
    for (let i = 0; i < 500; i++) requests.add(ours, bob, body(`filler ${i}`), 600);
    expect(requests.secondsLeft(ours, alice, body("bomb"))).toBe(600);
  });

  it("do not make others read: no other deployment, and nobody once they are forgotten", () => {
    requests.add(ours, alice, body("bomb"), 600);
    requests.add(ours, alice, body("another bomb"), 600);
    expect([reads(ours), reads(theirs)]).toEqual([1, 0]);
    nowMs += 31 * minute;
    expect([reads(ours), reads(theirs)]).toEqual([0, 0]);
  });

  it("are looked for only while something is refused", () => {
    const sent = body("hello");
    const read = vi.spyOn(sent, "toString");
    expect(requests.secondsLeft(ours, alice, sent)).toBeUndefined();
    requests.add(ours, alice, body("bomb"), 60);
    nowMs += minute;
    expect(requests.secondsLeft(ours, alice, sent)).toBeUndefined();
    expect(read).not.toHaveBeenCalled();
  });

  it("are bounded in number, by deployment and in all", () => {
    requests.add(ours, alice, body("bomb"), 600);
    for (let i = 0; i < 500; i++) requests.add(ours, alice, body(`filler ${i}`), 600);
    expect(requests.secondsLeft(ours, alice, body("bomb"))).toBeUndefined();
    requests.add(theirs, alice, body("bomb"), 600);
    for (let i = 0; i < 199; i++) requests.add(`deployment ${i}` as DeploymentId, alice, body("bomb"), 600);
    expect(requests.secondsLeft(theirs, alice, body("bomb"))).toBe(600);
    expect(requests.secondsLeft(ours, alice, body("bomb"))).toBeUndefined();
    for (let i = 0; i < 200; i++) requests.add(`deployment ${i}` as DeploymentId, alice, body("bomb"), 600);
    expect(requests.secondsLeft(theirs, alice, body("bomb"))).toBeUndefined();
  });
});
