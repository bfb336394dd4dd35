import pino from "pino";
import { describe, expect, it } from "vitest";
import { createRejections, type Rejection, RejectionNotes } from "../../../../control-plane/billing/rejections.ts";
import type { AccountId, KeyId, RequestId } from "../../../../proto/ids.ts";

let count = 0;
const rejection = (more: Partial<Rejection> = {}) => {
  const { otherCount: _, ...one }: Rejection = {
    id: `r${++count}` as RequestId,
    account: "ada" as AccountId,
    key: "k" as KeyId,
    atMs: 1,
    model: "m",
    route: "/v1/chat/completions",
    status: 429,
    code: "rate_limit_exceeded",
    label: null,
    otherCount: 0,
    ...more,
  };
  return one;
};

describe("notes of rejected requests", () => {
  it("keep the first five of a code and minute, and count the others on the fifth", () => {
    let nowMs = 0;
    const notes = new RejectionNotes(() => nowMs);
    for (let n = 0; n < 12; n++) notes.note(rejection());
    expect(notes.take().map(({ otherCount }) => otherCount)).toEqual([0, 0, 0, 0, 7]);
    notes.note(rejection());
    expect(notes.take().map(({ otherCount }) => otherCount)).toEqual([8]);
    expect(notes.take()).toEqual([]);
    nowMs = 60_000;
    notes.note(rejection());
    expect(notes.take()).toHaveLength(1);
  });

  it("keep twenty of an account and minute, and the first of each other code", () => {
    const notes = new RejectionNotes(() => 0);
    const codes = ["a", "b", "c", "d", "e", "f"];
    for (const code of codes) for (let n = 0; n < 6; n++) notes.note(rejection({ code }));
    const taken = notes.take();
    const perCode = codes.map((code) => taken.filter((one) => one.code === code));
    expect(perCode.map((of) => of.length)).toEqual([5, 5, 5, 5, 1, 1]);
    expect(perCode.map((of) => of.at(-1)?.otherCount)).toEqual([1, 1, 1, 1, 5, 5]);
    notes.note(rejection({ account: "bob" as AccountId }));
    expect(notes.take()).toHaveLength(1);
  });

  it("keep five thousand of all accounts, also while they cannot be written", () => {
    const notes = new RejectionNotes(() => 0);
    for (let n = 0; n < 6_000; n++) notes.note(rejection({ account: `account-${n}` as AccountId }));
    const taken = notes.take();
    expect(taken).toHaveLength(5_000);
    notes.again(taken);
    notes.again(taken.map((one) => ({ ...one })));
    expect(notes.take()).toHaveLength(5_000);
  });

  it("are written again after a failure, and once more when it stops", async () => {
    const written: string[][] = [];
    let isDown = true;
    const rejections = createRejections({
      log: pino({ level: "silent" }),
      writeEveryMs: 1,
      store: {
        writeRejections: async (rows) => {
          if (isDown) throw new Error("down");
          written.push(rows.map(({ id }) => id));
        },
      },
    });
    const [first, second] = [rejection(), rejection()];
    rejections.note(first);
    await rejections.stop();
    expect(written).toEqual([]);
    isDown = false;
    rejections.note(second);
    await rejections.stop();
    expect(written).toEqual([[first.id, second.id]]);
  });
});
