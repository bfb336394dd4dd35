import { describe, expect, it } from "vitest";
import { type Outcome, RequestTally } from "../../../../control-plane/series/request-tally.ts";
import type { AccountId } from "../../../../proto/ids.ts";

const minuteMs = 60_000;

function tallied() {
  let nowMs = 20 * minuteMs;
  const tally = new RequestTally(() => nowMs);
  return {
    tally,
    pass: (ms: number) => {
      nowMs += ms;
    },
    note: (account: string, model: string | undefined, outcome: Outcome = 200) =>
      tally.note(
        account as AccountId,
        {
          startedMs: performance.now() - 100,
          firstByteAtMs: performance.now() - 50,
          isStream: true,
          model,
          usage: { input: 10, cachedInput: 0, output: 5, reasoning: 0, source: "engine", endReason: "stop" },
        },
        outcome,
      ),
    rows: () => {
      const { rows, written } = tally.take();
      written();
      return new Map(rows.map(({ atMs, account, model, sums }) => [`${atMs / minuteMs} ${account} ${model}`, sums]));
    },
  };
}

describe("the tally of requests", () => {
  it("sums by account, by model, by both and over all", () => {
    const { note, rows } = tallied();
    note("ada", "m1");
    note("ada", "m2", 429);
    note("bob", "m1", 502);
    note("bob", "m1", "client_gone");
    note("bob", undefined, 404);
    const sums = rows();
    const requests = [...sums].map(([key, { requests }]) => `${key}: ${requests}`);
    expect(requests.toSorted()).toEqual(
      [
        "20  : 5",
        "20  m1: 3",
        "20  m2: 1",
        "20 ada : 2",
        "20 ada m1: 1",
        "20 ada m2: 1",
        "20 bob : 3",
        "20 bob m1: 2",
      ].toSorted(),
    );
    expect(sums.get("20  ")).toMatchObject({
      clientErrors: 2,
      serverErrors: 1,
      aborted: 1,
      inputTokens: 50,
      outputTokens: 25,
    });
    const count = (histogram: readonly number[] = []) => histogram.reduce((sum, n) => sum + n, 0);
    expect(count(sums.get("20  ")?.totalMs)).toBe(2);
    expect(count(sums.get("20  ")?.firstMs)).toBe(5);
  });

  it("writes a minute again while it changes, with everything it has counted, and then never again", () => {
    const { note, rows, pass } = tallied();
    note("ada", "m1");
    expect(rows().get("20 ada ")?.requests).toBe(1);
    expect(rows().size).toBe(0);
    note("ada", "m1");
    expect(rows().get("20 ada ")?.requests).toBe(2);
    pass(minuteMs);
    note("ada", "m1");
    expect([...rows().keys()].every((key) => key.startsWith("21 "))).toBe(true);
  });

  it("repeats what could not be written, and forgets the oldest minutes of a long outage", () => {
    const { tally, note, rows, pass } = tallied();
    for (let i = 0; i < 15; i += 1) {
      note("ada", "m1");
      tally.take();
      tally.again();
      pass(minuteMs);
    }
    const minutes = [...new Set([...rows().keys()].map((key) => Number(key.split(" ")[0])))];
    expect(minutes).toEqual([25, 26, 27, 28, 29, 30, 31, 32, 33, 34]);
  });

  it("keeps the sums of an account with any number of models, and of all accounts, whole", () => {
    const { note, rows } = tallied();
    for (let i = 0; i < 500; i += 1) note("ada", `m${i}`);
    for (let i = 0; i < 3_000; i += 1) note(`account-${i}`, "m1");
    const sums = rows();
    expect(sums.get("20 ada ")?.requests).toBe(500);
    expect(sums.get("20  ")?.requests).toBe(3_500);
    expect(sums.size).toBeLessThan(4_500);
  });
});
