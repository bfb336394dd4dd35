import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createS3Blobs } from "../../../agent/backups/s3-blobs.ts";
import { startS3Server } from "../../fakes/s3-server.ts";
import { backupSuite } from "./backup-suite.ts";

const server = await startS3Server();
if (!server)
  console.warn(
    "\n*** NOT PROVEN on a real S3 server: backup and restore\n*** because moto[server] is missing; scripts/test brings it\n",
  );

describe.skipIf(!server)("on a real S3 server", () => {
  const options = {
    bucket: "backups-of-stoker",
    prefix: "a-prefix/",
    region: "us-east-1",
    endpoint: server?.endpoint,
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
  };
  const blobs = createS3Blobs(options);
  beforeAll(() => server?.makeBucket(options.bucket));
  afterAll(async () => {
    blobs.close();
    await server?.stop();
  });
  const signal = new AbortController().signal;

  backupSuite(() => blobs);

  test("a backup of several parts comes back whole", async () => {
    const part = Buffer.alloc(1024 * 1024, "stoker");
    const written = createHash("sha256");
    const body = Readable.from(
      (function* () {
        for (let index = 0; index < 70; index++) {
          part.writeUInt32BE(index);
          written.update(part);
          yield Buffer.from(part);
        }
      })(),
      { objectMode: false },
    );
    await blobs.put("backups/v/large", body, signal);
    const read = createHash("sha256");
    for await (const chunk of await blobs.get("backups/v/large", signal)) read.update(chunk);
    expect(read.digest("hex")).toBe(written.digest("hex"));
  });

  test("an upload that was cut off is not in the store, and the sweep of its volume takes its parts away", async () => {
    const cut = new AbortController();
    const endless = Readable.from(
      (async function* () {
        for (let index = 0; ; index++) {
          if (index === 80) cut.abort(new Error("cut off"));
          yield Buffer.alloc(1024 * 1024);
        }
      })(),
      { objectMode: false },
    );
    await expect(blobs.put("backups/v/cut", endless, cut.signal)).rejects.toThrow();
    await expect(blobs.get("backups/v/cut", signal)).rejects.toMatchObject({ code: "backup_missing" });
    await fetch(`${server?.endpoint}/${options.bucket}/a-prefix/backups/v/orphan?uploads`, { method: "POST" });
    const uploads = async () => (await fetch(`${server?.endpoint}/${options.bucket}?uploads`)).text();
    expect(await uploads()).toContain("orphan");
    await blobs.sweep("backups/v", signal);
    expect(await uploads()).not.toContain("orphan");
  });

  test("a store that refuses is told as such, its word is for the operator", async () => {
    const other = createS3Blobs({ ...options, bucket: "no-such-bucket" });
    const refused = other.put("backups/v/x", Readable.from([Buffer.from("x")]), signal);
    await expect(refused).rejects.toMatchObject({
      code: "store_away",
      message: expect.not.stringContaining("NoSuchBucket"),
      cause: { name: "NoSuchBucket" },
    });
    other.close();
  });
});

test("a store that takes everything and says nothing is given up as away", async () => {
  const silent = createServer((request) => void request.resume());
  await once(silent.listen(0, "127.0.0.1"), "listening");
  const blobs = createS3Blobs({
    bucket: "b",
    prefix: "",
    region: "us-east-1",
    endpoint: `http://127.0.0.1:${(silent.address() as AddressInfo).port}`,
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    silenceMs: 300,
  });
  try {
    const put = blobs.put("backups/v/x", Readable.from([Buffer.from("x")]), AbortSignal.timeout(20_000));
    await expect(put).rejects.toMatchObject({ code: "store_away" });
  } finally {
    blobs.close();
    silent.closeAllConnections();
    silent.close();
  }
}, 25_000);
