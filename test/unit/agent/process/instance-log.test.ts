import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { beginLog, readLog, trimLog } from "../../../../agent/process/instance-log.ts";

const startMs = 1_700_000_000_000;
const said = (ms: number, msg: string) => JSON.stringify({ time: startMs + ms, msg });

function logFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "stoker-log-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "log");
}

it("gives each line a unique time, also without one in its text, so that a reader can continue after any of them", () => {
  const path = logFile();
  const plain = Array.from({ length: 1_500 }, (_, n) => `plain ${n}`);
  beginLog(path, startMs);
  appendFileSync(path, `${[...plain, said(5, "a"), said(5, "b"), "trace"].join("\n")}\n`);

  const first = readLog(path, { limit: 1_000, fromMs: startMs }, startMs);
  expect(first.at(-1)).toEqual({ at: "1700000000.000000999", line: "plain 999" });
  const rest = readLog(path, { limit: 1_000, fromMs: startMs, fromAt: "1700000000.000001000" }, startMs);
  expect(rest).toHaveLength(503);
  expect(rest[0]).toEqual({ at: "1700000000.000001000", line: "plain 1000" });
  expect(rest.slice(-3).map(({ at }) => at)).toEqual([
    "1700000000.005000000",
    "1700000000.005000001",
    "1700000000.005000002",
  ]);
});

it("keeps the times of lines before a new start: a follower gets no line twice and none out of order", () => {
  const path = logFile();
  const read = (launchedAtMs: number) => readLog(path, { limit: 100 }, launchedAtMs);
  beginLog(path, startMs);
  appendFileSync(path, `native 1\n${said(20, "a")}\nnative 2\ncut in the mid`);
  const before = read(startMs);
  expect(before.map(({ at }) => at)).toEqual([
    "1700000000.000000000",
    "1700000000.020000000",
    "1700000000.020000001",
    "1700000000.020000002",
  ]);
  beginLog(path, startMs + 60_000);
  appendFileSync(path, `it does not start\n${said(60_030, "b")}\n`);
  expect(read(startMs + 60_000)).toEqual([
    ...before,
    { at: "1700000060.000000000", line: "it does not start" },
    { at: "1700000060.030000000", line: said(60_030, "b") },
  ]);
});

it("keeps the times of lines printed before the log was trimmed, also if its beginning is no longer read", () => {
  const path = logFile();
  beginLog(path, startMs);
  appendFileSync(path, `${said(20, "a")}\n${"x".repeat(33 * 1024 * 1024)}\nnative\n${said(40, "b")}\n`);
  trimLog(path);
  appendFileSync(path, `${said(50, "c")}\n`);
  expect(readLog(path, { limit: 3 }, startMs + 60_000).map(({ at }) => at)).toEqual([
    "1700000000.040000000",
    "1700000000.040000001",
    "1700000000.050000000",
  ]);
});
