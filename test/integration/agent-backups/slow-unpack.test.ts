import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packFolder, unpackInto } from "../../../agent/backups/archive.ts";

const files = 200;
/** Each loses files with a probability of one in seven where the end of the archive is thrown away. */
const rounds = 50;
const { signal } = new AbortController();
let base: string;

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "stoker-archive-"));
});
afterAll(() => rm(base, { recursive: true }));

it("gives tar the whole archive also when tar is slower than the store", async () => {
  const from = join(base, "from");
  await mkdir(from);
  for (let n = 0; n < files; n++) await writeFile(join(from, `${n}`), "x".repeat(n % 50));
  const packed = packFolder(from, signal);
  const stored = await packed.body.toArray();

  // The end of the archive still waits in memory while tar creates the files.
  for (let round = 0; round < rounds; round++) {
    const to = join(base, `to-${round}`);
    await mkdir(to);
    await unpackInto(to, Readable.from(stored), packed.digest(), signal);
    expect(await readdir(to)).toHaveLength(files);
    await rm(to, { recursive: true });
  }
});
