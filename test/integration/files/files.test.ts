// Files on a real PostgreSQL and a real folder.
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { createFolderBlobs } from "../../../control-plane/blobs/folder-blobs.ts";
import { FileNotFound } from "../../../control-plane/files/errors.ts";
import { createFiles } from "../../../control-plane/files/files.ts";
import { createFileStore } from "../../../control-plane/store/work/file-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld } from "../billing/world.ts";

let postgres: TestDatabases;
let world: Awaited<ReturnType<typeof openWorld>>;
let folder: string;
let account: AccountId;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
beforeEach(async () => {
  world = await openWorld(postgres);
  account = await world.account(0n);
  folder = mkdtempSync(join(tmpdir(), "stoker-files-"));
});
afterEach(() => rmSync(folder, { recursive: true }));
afterAll(() => postgres?.stop());

const open = (quotaBytes = 1_000_000) =>
  createFiles({
    store: createFileStore(world.db),
    blobs: createFolderBlobs(folder),
    limits: { bytes: 1024, batchBytes: 1024, quotaBytes },
  });
const { signal } = new AbortController();
const expiry = { filename: "a.jsonl", expiresAfterMs: 3_600_000 };

async function keep(content: string, filename = "a.jsonl", owner = account) {
  const staged = await open().stage(owner, Readable.from([content]), signal);
  return staged.keep({ ...expiry, filename });
}
const onDisk = () => (existsSync(join(folder, "files")) ? readdirSync(join(folder, "files")) : []);

it("an upload is a file once stored, only of its account", async () => {
  const files = open();
  const kept = await keep("hello", "../../etc/p\u0000asswd");
  expect(kept).toMatchObject({ bytes: 5, filename: "passwd", purpose: "batch", account });
  expect(kept.expiresAtMs - kept.createdAtMs).toBe(3_600_000);
  expect(await text((await files.content(account, kept.id)).body)).toBe("hello");
  const other = await world.account(0n);
  for (const look of [files.get, files.content, files.remove])
    await expect(look(other, kept.id)).rejects.toThrow(FileNotFound);
  expect(await files.list(other, undefined, { after: undefined, order: "desc", limit: 10 })).toEqual({
    files: [],
    hasMore: false,
  });
});

it("of concurrent uploads only as many are stored as the quota allows", async () => {
  const files = open(25);
  const staged = await Promise.all(
    Array.from({ length: 5 }, () => files.stage(account, Readable.from(["ten bytes!"]), signal)),
  );
  const ends = await Promise.allSettled(staged.map((one) => one.keep(expiry)));
  expect(ends.filter((end) => end.status === "fulfilled")).toHaveLength(2);
  for (const end of ends)
    if (end.status === "rejected") expect(end.reason).toMatchObject({ code: "file_quota_used_up" });
});

it("refused, deleted, expired and unfinished files are removed with their bytes", async () => {
  const files = open();
  const deleted = await keep("deleted");
  const expired = await keep("expired");
  const stays = await keep("stays");
  const staged = await files.stage(account, Readable.from(["discarded"]), signal);
  await staged.discard();
  await files.stage(account, Readable.from(["its control plane died"]), signal);
  await files.remove(account, deleted.id);
  await world.db
    .updateTable("file")
    .set({ expiresAt: sql<Date>`now() - interval '1 s'` })
    .where((of) => of.or([of("fileId", "=", expired.id), of("isReady", "=", false)]))
    .execute();
  for (const gone of [deleted, expired]) await expect(files.get(account, gone.id)).rejects.toThrow(FileNotFound);
  expect(onDisk()).toHaveLength(5);
  expect(await files.sweep(signal)).toBe(4);
  expect(onDisk()).toEqual([stays.id]);
  expect(await files.sweep(signal)).toBe(0);
});

it("an upload that breaks off leaves neither a file nor bytes", async () => {
  const breaking = Readable.from(
    (function* () {
      yield Buffer.from("some");
      throw new Error("the client went away");
    })(),
  );
  await expect(open().stage(account, breaking, signal)).rejects.toThrow("the client went away");
  expect(onDisk()).toEqual([]);
  expect(await open().sweep(signal)).toBe(1);
});

it("pages continue in both orders, and report whether there are more", async () => {
  const files = open();
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) ids.push((await keep(`${n}`)).id);
  for (const order of ["asc", "desc"] as const) {
    const seen: string[] = [];
    for (let after: string | undefined; ; after = seen.at(-1)) {
      const page = await files.list(account, "batch", { after, order, limit: 2 });
      seen.push(...page.files.map((file) => file.id));
      expect(page.hasMore).toBe(seen.length < 5);
      if (!page.hasMore) break;
    }
    expect(seen).toEqual(order === "asc" ? ids : ids.toReversed());
  }
  await expect(files.list(account, undefined, { after: "file_none", order: "asc", limit: 2 })).rejects.toMatchObject({
    code: "unknown_cursor",
  });
  expect((await files.list(account, "batch_output", { after: undefined, order: "asc", limit: 2 })).files).toEqual([]);
});
