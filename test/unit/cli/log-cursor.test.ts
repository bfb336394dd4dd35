import { describe, expect, it } from "vitest";
import { type Entry, LogCursor, maxLines } from "../../../cli/commands/log.ts";

const at = (ms: number) => `${1_682_343_934 + Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, "0")}000000`;
const full = (ms: (n: number) => number) => Array.from({ length: maxLines }, (_, n): Entry => [at(ms(n)), `line ${n}`]);
describe("LogCursor", () => {
  it("returns each line once and waits at the end", () => {
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

  it("does not wait while full pages of new lines arrive", () => {
    const cursor = new LogCursor(at(0));
    expect(cursor.take(full((n) => n))).toHaveLength(maxLines);
    expect(cursor).toMatchObject({ from: at(maxLines - 1), isAtEnd: false });
  });

  it("returns later lines of the last timestamp, including repeated text", () => {
    const cursor = new LogCursor(undefined);
    const one: Entry = [at(1), "loading"];
    expect(cursor.take([[at(0), "begin"], one])).toHaveLength(2);
    expect(cursor.take([one, [at(1), "trace"]])).toEqual([[at(1), "trace"]]);
    expect(cursor.take([one, [at(1), "trace"], one])).toEqual([one]);
    expect(cursor.take([one, [at(1), "trace"], one])).toEqual([]);
    expect(cursor.take([one, [at(1), "trace"], one, [at(2), "ready"]])).toEqual([[at(2), "ready"]]);
  });

  it("skips a timestamp with more lines than a page", () => {
    const cursor = new LogCursor(at(7));
    expect(cursor.take(full(() => 7))).toHaveLength(maxLines);
    expect(cursor.take(full(() => 7))).toEqual([]);
    expect(cursor).toMatchObject({ isAtEnd: true, from: "1682343934.007000001" });
    // It stays there until something comes.
    expect(cursor.take([])).toEqual([]);
    expect(cursor.from).toBe("1682343934.007000001");
    expect(cursor.take([[at(8), "next"]])).toEqual([[at(8), "next"]]);
    expect(cursor.from).toBe(at(8));
  });
});
