import { describe, expect, it } from "vitest";
import { type Entry, LogCursor, mostLines } from "../../../cli/log-cursor.ts";

const at = (ms: number) => `${1_682_343_934 + Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, "0")}000000`;
const full = (ms: (n: number) => number) =>
  Array.from({ length: mostLines }, (_, n): Entry => [at(ms(n)), `line ${n}`]);
/** As the server reads it. */
const fromMs = ({ from }: LogCursor) => Math.floor((Number(from) - 1_682_343_934) * 1000 + 1e-3);

describe("following a log", () => {
  it("shows each line once, and waits where nothing more is there", () => {
    const cursor = new LogCursor(undefined);
    expect(cursor.take([[at(1), "one"]])).toEqual([[at(1), "one"]]);
    expect(cursor).toMatchObject({ from: at(1), isAtEnd: true });
    const more: Entry[] = [
      [at(1), "one"],
      [at(2), "two"],
    ];
    expect(cursor.take(more)).toEqual([[at(2), "two"]]);
    expect(cursor.take([[at(2), "two"]])).toEqual([]);
    expect(cursor).toMatchObject({ from: at(2), isAtEnd: true });
  });

  it("does not wait while whole answers of new lines come", () => {
    const cursor = new LogCursor(at(0));
    expect(cursor.take(full((n) => n))).toHaveLength(mostLines);
    expect(cursor).toMatchObject({ from: at(mostLines - 1), isAtEnd: false });
  });

  it.each([0, 1, 123, 124, 999])(
    "waits at a millisecond (%i) of more lines than one answer holds, and gets past it",
    (ms) => {
      const cursor = new LogCursor(at(ms));
      expect(cursor.take(full(() => ms))).toHaveLength(mostLines);
      expect(cursor.take(full(() => ms))).toEqual([]);
      expect(cursor.isAtEnd).toBe(true);
      expect(fromMs(cursor)).toBe(ms + 1);
      // It stays there until something comes.
      expect(cursor.take([])).toEqual([]);
      expect(fromMs(cursor)).toBe(ms + 1);
      expect(cursor.take([[at(ms + 1), "next"]])).toEqual([[at(ms + 1), "next"]]);
      expect(cursor.from).toBe(at(ms + 1));
    },
  );
});
