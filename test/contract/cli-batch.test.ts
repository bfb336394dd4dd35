// The CLI's words about files and batches against the real edge.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { batch, batchId } from "../fakes/batch-ports.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { fileId } from "../fakes/file-ports.ts";
import { apiKey } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
const folder = mkdtempSync(join(tmpdir(), "stoker-cli-batch-"));
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(async () => {
  await edge?.close();
  rmSync(folder, { recursive: true });
});

const stoker = (...args: string[]) => runCli(edge, apiKey, args);

it("uploads, downloads and deletes a file", async () => {
  const path = join(folder, "requests.jsonl");
  writeFileSync(path, '{"custom_id":"1"}\n');
  const made = await stoker("file", "create", path, "--expires", "2");
  expect(made).toMatchObject({ code: 0, err: "" });
  const id = made.out.trim();
  expect((await stoker("file", "get", id)).out).toBe('{"custom_id":"1"}\n');
  const copy = join(folder, "copy.jsonl");
  expect((await stoker("file", "get", id, "-o", copy)).code).toBe(0);
  expect(readFileSync(copy, "utf8")).toBe('{"custom_id":"1"}\n');
  expect(await stoker("file", "get", id, "-o", folder)).toMatchObject({
    code: 1,
    err: `error: Could not write ${folder}: it is a folder.\n`,
  });
  expect((await stoker("file", "list")).out).toMatch(new RegExp(`${id} +requests.jsonl +batch +18`));
  expect((await stoker("file", "delete", id, "--yes")).out).toBe(`${id} deleted\n`);
  const gone = await stoker("file", "get", id);
  expect(gone.code).not.toBe(0);
  expect(gone.err).toContain("File not found");
}, 60_000);

it("prints the bytes of a file unchanged, however they are chunked", async () => {
  const path = join(folder, "long.jsonl");
  // Every second place between bytes is inside of a character; the last byte is none.
  const bytes = Buffer.concat([Buffer.from(`x${"é".repeat(300_000)}`), Buffer.from([0xff])]);
  writeFileSync(path, bytes);
  const id = (await stoker("file", "create", path)).out.trim();
  const child = spawn(process.execPath, [join(import.meta.dirname, "../../cli/main.ts"), "file", "get", id], {
    env: { ...process.env, STOKER_HOST: edge.url, STOKER_API_KEY: apiKey },
  });
  expect(Buffer.compare(await buffer(child.stdout), bytes)).toBe(0);
}, 60_000);

it("creates a batch from a file, shows its progress and cancels it", async () => {
  expect((await stoker("batch", "create", fileId)).out).toMatch(/^batch_\w+\n$/);
  expect((await stoker("batch", "get", batchId)).out).toBe(`${batchId} is in_progress: 1 of 3 done, 1 failed\n`);
  expect((await stoker("batch", "list")).out).toMatch(new RegExp(`${batchId} +in_progress +org/model +1 +1 +3`));
  expect((await stoker("batch", "cancel", batchId)).out).toContain("is cancelling");
  const late = await stoker("batch", "get", batchId, "--wait", "--timeout", "0");
  expect(late.code).toBe(6);
  expect(late.err).toContain(`It continues in the background: \`stoker batch get ${batchId} --wait\``);
  const early = await stoker("batch", "results", batchId);
  expect(early.code).not.toBe(0);
  expect(early.err).toContain("Results are available when it ends");
}, 60_000);

it("shows why a batch failed, also when its results are requested", async () => {
  const data = [
    { code: "empty_file", line: null, message: "The input file is empty.", param: "input_file_id" },
  ] as const;
  edge.deps.batches.get = async () => batch({ status: "failed", errors: data });
  for (const verb of ["get", "results"]) {
    const { out, err } = await stoker("batch", verb, batchId);
    expect(out + err).toContain(`${batchId} is failed: The input file is empty.`);
  }
}, 60_000);

it("names the command for the errors of a batch without a result", async () => {
  edge.deps.batches.get = async () => batch({ status: "completed", outputFile: null, errorFile: fileId as never });
  const { err, code } = await stoker("batch", "results", batchId);
  expect(code).not.toBe(0);
  expect(err).toContain(`stoker batch results ${batchId} --errors`);
}, 60_000);

it("lists as many batches as requested, over several pages", async () => {
  const all = Array.from({ length: 150 }, (_, n) => batch({ id: `batch_${n}` as never }));
  const asked: unknown[] = [];
  edge.deps.batches.list = async (_caller, { cursor, limit }) => {
    asked.push([cursor?.id, limit]);
    const from = all.findIndex(({ id }) => id === cursor?.id) + 1;
    return { batches: all.slice(from, from + limit), hasMore: all.length > from + limit };
  };
  expect((await stoker("batch", "list", "--limit", "130")).out.match(/^batch_/gm)).toHaveLength(130);
  expect(asked).toEqual([
    [undefined, 100],
    ["batch_99", 30],
  ]);
}, 60_000);
