import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readTraceLine } from "../../../simulator/trace.ts";

const run = promisify(execFile);
const main = join(import.meta.dirname, "../../../simulator/main.ts");
const read = (fields: object) => readTraceLine(JSON.stringify(fields), 7, (name) => (name === "c" ? -1 : -2));
const request = { timestamp: 1_000, input_length: 1_200, output_length: 50 };

describe("a line of a trace", () => {
  it("is a prompt of blocks, of a conversation, or of its own", () => {
    expect(read({ ...request, hash_ids: [4, 5, 9] }).segments).toEqual([
      { id: 4, tokens: 512 },
      { id: 5, tokens: 512 },
      { id: 9, tokens: 176 },
    ]);
    expect(read({ ...request, conversation: "c", account: "ada" })).toEqual({
      atMs: 1_000,
      account: "ada",
      segments: [{ id: -1, tokens: 1_200 }],
      outputTokens: 50,
      thinkMs: 0,
    });
    const agent = { ...request, conversation: "c", prefix: "system", prefix_length: 400, caller: "one", think: 5 };
    expect(read(agent)).toMatchObject({
      segments: [
        { id: -2, tokens: 400 },
        { id: -1, tokens: 800 },
      ],
      caller: "one",
      thinkMs: 5,
    });
    expect(read(request).segments).toEqual([{ id: -2, tokens: 1_200 }]);
  });

  it.each([
    [{ ...request, timestamp: "now" }, "Line 7: timestamp must be a number of at least 0."],
    [{ ...request, input_length: 0 }, "Line 7: input_length must be a number of at least 1."],
    [{ ...request, output_length: 1e9 }, "Line 7: a length must be at most 10000000."],
    [{ ...request, hash_ids: [1, 2, 3, 4] }, "Line 7: hash_ids has more blocks than input_length."],
    [{ ...request, hash_ids: [1, "2"] }, "Line 7: hash_ids must contain integers."],
    [{ ...request, prefix: "p" }, "Line 7: prefix_length must be a number of at least 1."],
    [{ ...request, prefix: "p", prefix_length: 1_200 }, "Line 7: prefix_length must be below input_length."],
    [{ ...request, caller: 3 }, "Line 7: caller must be a string."],
    [{ ...request, account: 3 }, "Line 7: account must be a string."],
  ])("that is wrong is refused with its number: %o", (fields, message) => {
    expect(() => read(fields)).toThrow(message);
  });

  it("that is no JSON is refused", () => {
    expect(() => readTraceLine("{", 2, () => 0)).toThrow("Line 2: not a JSON object.");
    expect(() => readTraceLine("null", 2, () => 0)).toThrow("Line 2: not a JSON object.");
  });
});

describe("the command", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "stoker-trace-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it("replays a trace and reports its figures", async () => {
    const trace = join(folder, "trace.jsonl");
    const lines = Array.from({ length: 40 }, (_, i) =>
      JSON.stringify({ timestamp: i * 500, input_length: 2_000 + 50 * i, output_length: 20, conversation: "c" }),
    );
    writeFileSync(trace, lines.join("\n"));
    const args = [main, "--trace", trace, "--instances", "4", "--policy", "stoker", "--json"];
    const { stdout } = await run(process.execPath, args);
    const outcome = JSON.parse(stdout);
    expect(outcome).toMatchObject({ policy: "stoker", refused: 0, broken: 0 });
    expect(outcome.cachedShare).toBeGreaterThan(0.9);
    expect(outcome.ttftMs.p50).toBeGreaterThan(0);
  });

  it("names the words that a profile may have", async () => {
    const profile = join(folder, "profile.json");
    writeFileSync(profile, JSON.stringify({ cache: "pages" }));
    await expect(run(process.execPath, [main, "--trace", "x", "--profile", profile])).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining("cache must be one of blocks, slots."),
    });
  });

  it.each([
    [["--instances", "0", "--trace", "x"], "error: --instances must be an integer from 1 to 10000."],
    [["--policy", "best"], "error: Unknown policy best."],
    [["--scenario", "nothing"], 'error: No scenario contains "nothing".'],
    [["--profile", "900b", "--trace", "x"], "error: Unknown profile 900b."],
    [["--nothing"], "error: Unknown option '--nothing'"],
    [["--trace", "missing.jsonl"], "error: File missing.jsonl not found"],
  ])("refuses wrong arguments: %o", async (args, message) => {
    await expect(run(process.execPath, [main, ...args])).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining(message),
    });
  });
});
