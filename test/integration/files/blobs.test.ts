// One suite for every blob store.
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createFolderBlobs } from "../../../control-plane/blobs/folder-blobs.ts";
import { createS3Blobs } from "../../../control-plane/blobs/s3-blobs.ts";
import { BlobMissing } from "../../../control-plane/files/blobs.ts";
import { startS3Server } from "../../fakes/s3-server.ts";

const server = await startS3Server();
if (!server)
  console.warn(
    "\n*** NOT PROVEN on a real S3 server: files of accounts\n*** because moto[server] is missing; scripts/test brings it\n",
  );
const folder = mkdtempSync(join(tmpdir(), "stoker-blobs-"));
const s3 = {
  bucket: "files-of-stoker",
  prefix: "a-prefix/",
  region: "us-east-1",
  endpoint: server?.endpoint,
  credentials: { accessKeyId: "test", secretAccessKey: "test" },
};
beforeAll(() => server?.makeBucket(s3.bucket));
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true });
});
const { signal } = new AbortController();

describe.each([
  ["a folder", true, () => createFolderBlobs(folder)],
  ["an S3 bucket", server !== undefined, () => createS3Blobs(s3)],
] as const)("blobs in %s", (_, isThere, open) => {
  it.skipIf(!isThere)("are read as written, also in several parts, and deleted on removal", async () => {
    const blobs = open();
    const parts = Array.from({ length: 18 }, (_, n) => Buffer.alloc(1024 * 1024, `${n}`));
    await blobs.put("files/large", Readable.from(parts), signal);
    const back = await buffer(await blobs.get("files/large"));
    expect(back.equals(Buffer.concat(parts))).toBe(true);
    await blobs.put("files/large", Readable.from(["again"]), signal);
    expect(await text(await blobs.get("files/large"))).toBe("again");
    await blobs.remove("files/large");
    await blobs.remove("files/large");
    await expect(blobs.get("files/large")).rejects.toThrow(BlobMissing);
  });

  it.skipIf(!isThere)("are empty if nothing was written", async () => {
    const blobs = open();
    await blobs.put("files/empty", Readable.from([]), signal);
    expect(await text(await blobs.get("files/empty"))).toBe("");
  });

  it.skipIf(!isThere)("do not exist if their upload broke off or was cancelled", async () => {
    const blobs = open();
    const breaking = Readable.from(
      (function* () {
        yield Buffer.alloc(9 * 1024 * 1024);
        throw new Error("the client went away");
      })(),
    );
    await expect(blobs.put("files/broken", breaking, signal)).rejects.toThrow("the client went away");
    await expect(blobs.get("files/broken")).rejects.toThrow(BlobMissing);
    await expect(blobs.put("files/late", Readable.from(["x"]), AbortSignal.abort())).rejects.toThrow();
    await expect(blobs.get("files/late")).rejects.toThrow(BlobMissing);
  });

  it.skipIf(!isThere)("never leave their store", async () => {
    await expect(open().put("../outside", Readable.from(["x"]), signal)).rejects.toThrow(/invalid blob key/);
  });
});

it("a folder retains nothing of a broken upload", () => {
  expect(readdirSync(join(folder, "files")).filter((name) => name.includes("part"))).toEqual([]);
});

it("the remains of an upload by a killed control plane are deleted with its key", async () => {
  const blobs = createFolderBlobs(folder);
  await blobs.put("files/whole", Readable.from(["x"]), signal);
  writeFileSync(join(folder, "files", "killed.part"), "half of it");
  await blobs.remove("files/killed");
  expect(readdirSync(join(folder, "files")).filter((name) => name.startsWith("killed"))).toEqual([]);
});

it("a reader that pauses for longer than a connection lives still gets the whole S3 object", async () => {
  const content = Buffer.concat(Array.from({ length: 10 }, (_, n) => Buffer.alloc(1024 * 1024, `${n}`)));
  let requests = 0;
  const slow = createServer((request, reply) => {
    requests += 1;
    const [, from = "0", to = ""] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "bytes=0-") ?? [];
    const end = to === "" ? content.length : Math.min(Number(to) + 1, content.length);
    const piece = content.subarray(Number(from), end);
    const headers = { "content-length": piece.length, "content-range": `bytes ${from}-${end - 1}/${content.length}` };
    reply.writeHead(206, headers).end(piece);
  });
  slow.listen(0, "127.0.0.1");
  await once(slow, "listening");
  onTestFinished(() => void slow.close());
  const endpoint = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
  const parts: Buffer[] = [];
  for await (const part of await createS3Blobs({ ...s3, endpoint }).get("files/any")) {
    parts.push(part);
    slow.closeAllConnections();
  }
  expect(Buffer.concat(parts).equals(content)).toBe(true);
  expect(requests).toBeGreaterThan(1);
});

it("an unreachable store differs from a missing file", async () => {
  const away = createS3Blobs({ ...s3, endpoint: "http://127.0.0.1:9" });
  await expect(away.get("files/any")).rejects.toMatchObject({ code: "file_store_away" });
  const blocked = createFolderBlobs("/dev/null/files");
  await expect(blocked.put("files/any", Readable.from(["x"]), signal)).rejects.toMatchObject({
    code: "file_store_away",
  });
});
