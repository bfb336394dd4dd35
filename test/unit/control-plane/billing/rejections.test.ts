import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import pino from "pino";
import { describe, expect, it } from "vitest";
import { createRejections, type Rejection, RejectionNotes } from "../../../../control-plane/billing/rejections.ts";
import { DatabaseUnavailable } from "../../../../control-plane/service-error.ts";
import type { AccountId, KeyId, RequestId } from "../../../../proto/ids.ts";

let count = 0;
/** A text in one piece, as of a parsed body. */
const flat = (letter: string, length: number) => JSON.parse(`"${letter.repeat(length)}"`) as string;
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

  it("keep only the first of each minute after 300 of a code and day, and 2,000 of an account and day", () => {
    let nowMs = 0;
    const notes = new RejectionNotes(() => nowMs);
    const keptOf = (accountId: string, codes: readonly string[], minutes: number): number[] =>
      Array.from({ length: minutes }, () => {
        for (const code of codes)
          for (let n = 0; n < 10; n++) notes.note(rejection({ account: accountId as AccountId, code }));
        nowMs += 60_000;
        return notes.take().length;
      });
    const kept = keptOf("ada", ["a"], 1_440);
    expect(kept.slice(0, 60)).toEqual(Array(60).fill(5));
    expect(kept.slice(60)).toEqual(Array(1_380).fill(1));
    expect(keptOf("ada", ["a"], 1)).toEqual([5]);
    const codes = Array.from({ length: 40 }, (_, n) => `code-${n}`);
    const sum = (of: readonly number[]) => of.reduce((all, n) => all + n, 0);
    expect(sum(keptOf("eve", codes, 700))).toBe(2_000);
    expect(keptOf("bob", ["a"], 1)).toEqual([5]);
  });

  it.each([
    ["org/model:1.0@adapter", "org/model:1.0@adapter"],
    ["m".repeat(300), "m".repeat(256)],
    [`${"m".repeat(255)}\u{1f600}`, ""],
    ["\ud800", ""],
    ["a\0b", ""],
    ["My password is secret", ""],
  ])("name the model %j as %j", (model, name) => {
    const notes = new RejectionNotes(() => 0);
    notes.note(rejection({ model }));
    expect(notes.take().map((one) => one.model)).toEqual([name]);
  });

  it("do not keep the text of which the model is a part", () => {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    const notes = new RejectionNotes(() => 0);
    const heapOf = () => {
      gc();
      return process.memoryUsage().heapUsed;
    };
    const before = heapOf();
    for (let n = 0; n < 20; n++)
      notes.note(rejection({ account: `a-${n}` as AccountId, model: flat("m", 1_000_000 + n) }));
    expect(heapOf() - before).toBeLessThan(5_000_000);
    expect(notes.take()).toHaveLength(20);
  });

  it("are written without one that the database refuses", async () => {
    const written = new Set<string>();
    const rejections = createRejections({
      log: pino({ level: "silent" }),
      store: {
        writeRejections: async (rows) => {
          if (rows.some(({ code }) => code === "refused")) throw new Error("invalid input");
          for (const { id } of rows) written.add(id);
        },
      },
    });
    const all = Array.from({ length: 9 }, (_, n) => rejection({ code: n === 4 ? "refused" : `code-${n}` }));
    for (const one of all) rejections.note(one);
    await rejections.stop();
    expect([...written]).toEqual(all.filter(({ code }) => code !== "refused").map(({ id }) => id));
    written.clear();
    await rejections.stop();
    expect([...written]).toEqual([]);
  });

  it("are written without one that fails with an internal error while others are written, and kept while all fail", async () => {
    const written: string[] = [];
    let isFailing = true;
    const rejections = createRejections({
      log: pino({ level: "silent" }),
      store: {
        writeRejections: async (rows) => {
          if (isFailing || rows.some(({ code }) => code === "damaged"))
            throw new DatabaseUnavailable("failing", new Error("XX001"));
          written.push(...rows.map(({ id }) => id));
        },
      },
    });
    const all = Array.from({ length: 9 }, (_, n) => rejection({ code: n === 4 ? "damaged" : `code-${n}` }));
    for (const one of all) rejections.note(one);
    await rejections.stop();
    expect(written).toEqual([]);
    isFailing = false;
    // Groups are split after five failures: until then the server may be the cause.
    for (let n = 0; n < 3; n++) await rejections.stop();
    expect(written).toEqual([]);
    await rejections.stop();
    const others = all.filter(({ code }) => code !== "damaged").map(({ id }) => id);
    expect(written).toEqual(others);
    await rejections.stop();
    expect(written).toEqual(others);
  });

  it("are written again after a failure, and once more when it stops", async () => {
    const written: string[][] = [];
    let isDown = true;
    const rejections = createRejections({
      log: pino({ level: "silent" }),
      writeEveryMs: 1,
      store: {
        writeRejections: async (rows) => {
          if (isDown) throw new DatabaseUnavailable("unreachable", new Error("down"));
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
