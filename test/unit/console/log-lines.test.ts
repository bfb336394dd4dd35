import { describe, expect, it } from "vitest";
import { fieldsText, matchingLines, readLines } from "../../../console/domain/log-lines.ts";

describe("log lines", () => {
  it("are read from JSON into level, message and fields", () => {
    const [line] = readLines({
      i1: [["1795933983.985000000", '{"level":"warn","time":1,"instanceId":"i1","msg":"slow","ms":41,"paths":["a"]}']],
    });
    expect(line).toMatchObject({ level: "warn", message: "slow", instance: "i1", atMs: 1_795_933_983_985 });
    expect(fieldsText(line?.fields ?? {})).toBe('ms=41 paths=["a"]');
  });

  it("take the level of plain text from its words", () => {
    const levels = readLines({
      a: [
        ["1", "INFO 01-02 starting"],
        ["2", "WARNING: low memory"],
        ["3", "Traceback (most recent call last):"],
        ["4", "ValueError: bad"],
        ["5", "plain"],
        ["6", '{"level":50,"msg":"pino"}'],
      ],
    }).map(({ level }) => level);
    expect(levels).toEqual(["info", "warn", "error", "error", "info", "error"]);
  });

  it("of several instances are in the order of time", () => {
    const lines = readLines({
      a: [["3", "third"]],
      b: [
        ["1", "first"],
        ["2", "second"],
      ],
    });
    expect(lines.map(({ message }) => message)).toEqual(["first", "second", "third"]);
  });

  it("are found by a least level and all words", () => {
    const lines = readLines({
      a: [
        ["1", "ERROR disk full"],
        ["2", "INFO disk ok"],
      ],
    });
    expect(matchingLines(lines, "warn", "").map(({ raw }) => raw)).toEqual(["ERROR disk full"]);
    expect(matchingLines(lines, "debug", "ok DISK").map(({ raw }) => raw)).toEqual(["INFO disk ok"]);
  });
});
