import { describe, expect, it } from "vitest";
import {
  AuditCheck,
  type AuditContent,
  auditFooter,
  auditHash,
  auditHeader,
  auditLine,
  auditStart,
  auditText,
} from "../../../proto/audit-chain.ts";

const entry = (id: number, note = "a note"): AuditContent => ({
  id: String(id),
  at: "2026-11-29T20:00:00.123456Z",
  actor: "u:1",
  action: "account.suspend",
  subject: "u:2",
  account: null,
  ip: "192.0.2.7",
  before: "null",
  // No number of JavaScript has this value.
  after: '{"limit": 9007199254740993.10}',
  note,
});

/** Lines of a file with rows after `after`. */
function fileOf(count: number, after = 0, previous = auditStart): string[] {
  let hash = previous;
  const lines = Array.from({ length: count }, (_, n) => {
    const seq = BigInt(after + n + 1);
    const text = auditText(entry(100 + Number(seq)));
    hash = auditHash(hash, seq, text);
    return auditLine(seq, hash, text).trimEnd();
  });
  return [auditHeader(BigInt(after), previous).trimEnd(), ...lines, auditFooter(BigInt(after + count), hash).trimEnd()];
}

function check(lines: readonly string[], known?: { seq: bigint; hash: string }) {
  const one = new AuditCheck();
  for (const line of lines) one.push(line);
  return one.end(known);
}

const hashIn = (line = "") => /"hash":"([0-9a-f]{64})"/.exec(line)?.[1] ?? "";

describe("an exported audit log", () => {
  it("is whole as it was written, with numbers that JavaScript cannot hold", () => {
    const lines = fileOf(5);
    expect(check(lines)).toEqual({ rows: 5, first: 1n, last: 5n, head: hashIn(lines[5]), problems: [] });
    expect(JSON.parse(lines[1] as string)).toMatchObject({ seq: 1, entry: { id: "101", action: "account.suspend" } });
    expect(lines[1]).toContain('"after":{"limit": 9007199254740993.10}');
  });

  it("is whole in several files, and in one that begins later", () => {
    const first = fileOf(3);
    const second = fileOf(2, 3, hashIn(first[3]));
    expect(check([...first, ...second]).problems).toEqual([]);
    expect(check(second)).toMatchObject({ first: 4n, last: 5n, problems: [] });
    expect(check(fileOf(0)).problems).toEqual([]);
  });

  it.each([
    ["a note", (line: string) => line.replace("a note", "another")],
    ["a number", (line: string) => line.replace("993.10", "993.1")],
    ["its action", (line: string) => line.replace("account.suspend", "account.lift")],
  ])("names the row of which %s was altered", (_what, alter) => {
    const lines = fileOf(5);
    lines[3] = alter(lines[3] as string);
    const { problems } = check(lines);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(/^Row 3 \(entry 103, /);
  });

  it("names the row after one that was altered with its hash", () => {
    const lines = fileOf(5);
    const text = auditText(entry(103, "forged"));
    lines[3] = auditLine(3n, auditHash(hashIn(lines[2]), 3n, text), text).trimEnd();
    expect(check(lines).problems).toEqual([expect.stringMatching(/^Row 4 .*hash of the row before it, was altered/)]);
  });

  it("names rows that are missing in the middle, at the start and at the end", () => {
    const lines = fileOf(6);
    expect(check(lines.toSpliced(3, 1)).problems).toEqual(["Row 3 is missing."]);
    expect(check(lines.toSpliced(3, 2)).problems).toEqual(["Rows 3 to 4 are missing."]);
    expect(check(lines.toSpliced(1, 1)).problems).toEqual(["Row 1 is missing."]);
    expect(check(lines.toSpliced(6, 1)).problems).toEqual(["Row 6 is missing at the end."]);
    expect(check(lines.slice(0, -1)).problems).toEqual([expect.stringContaining("last line is missing")]);
    expect(check(lines.slice(1)).problems).toEqual([expect.stringContaining("first line is missing")]);
  });

  it("names rows in another order, rows that are there twice, and foreign lines", () => {
    const lines = fileOf(4);
    const [header, one, two, three, four, footer] = lines as [string, string, string, string, string, string];
    expect(check([header, one, three, two, four, footer]).problems).toEqual([
      "Row 2 (entry 102, account.suspend) is out of order: it stands after row 3.",
    ]);
    expect(check([header, one, two, two, three, four, footer]).problems).toEqual([
      "Row 2 (entry 102, account.suspend) is there twice.",
    ]);
    expect(check([header, one, "rubbish", two, three, four, footer]).problems).toEqual([
      "Line 3 is not a line of an audit export.",
    ]);
  });

  it("does not fit a known hash once all later hashes were computed anew", () => {
    const known = { seq: 4n, hash: hashIn(fileOf(4)[4]) };
    expect(check(fileOf(5), known).problems).toEqual([]);
    const forged = fileOf(5, 0, "1".repeat(64));
    expect(check(forged).problems).toEqual([]);
    expect(check(forged, known).problems).toEqual([expect.stringMatching(/^Row 4 does not have the hash/)]);
  });
});
