// Incomplete downloads: `<content key>.<process namespace>-<pid>.<random>.incomplete`. The writer holds a lease on its file: by
// writing, by touching it while nothing arrives, and by being alive. A takeover is a rename, which one process wins. Parts of
// one key hold the same bytes, so a late writer can only repeat them.
import { createHash, type Hash, randomBytes } from "node:crypto";
import { readlinkSync } from "node:fs";
import { open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";

export const partLeaseMs = 60_000;
const abandonedMs = 7 * 24 * 3600_000;
const form = /^(?<key>[0-9a-f]{40,64})\.(?<space>\d+)-(?<pid>\d+)\.[0-9a-f]+\.incomplete$/;
const space = processSpace();

type Claim =
  | { readonly isMine: true; readonly path: string }
  /** A live process downloads this; number of bytes present. */
  | { readonly isMine: false; readonly bytes: number };

export interface Part {
  readonly key: string;
  readonly path: string;
  readonly bytes: number;
  readonly isHeld: boolean;
  readonly changedAtMs: number;
}

/** Returns a file to continue: an earlier part of the same content without a writer, or an empty one. */
export async function claimPart(folder: string, key: string): Promise<Claim> {
  const mine = join(folder, `${key}.${space}-${process.pid}.${randomBytes(4).toString("hex")}.incomplete`);
  const parts = await partsOf(folder, key);
  const held = parts.find(({ isHeld }) => isHeld);
  if (held) return { isMine: false, bytes: held.bytes };
  if (!(await takeOver(parts, mine))) await (await open(mine, "wx")).close();
  // If two were created at the same time, the one with the smaller name stays.
  const rival = (await partsOf(folder, key)).find(({ path, isHeld }) => isHeld && path < mine);
  if (!rival) return { isMine: true, path: mine };
  if ((await stat(mine)).size > 0) await releasePart(mine);
  else await rm(mine, { force: true });
  return { isMine: false, bytes: rival.bytes };
}

export async function partBytes(folder: string, key: string): Promise<number> {
  return (await partsOf(folder, key))[0]?.bytes ?? 0;
}

/** Returns the longest part and removes the others, which hold a prefix of it. */
async function takeOver(free: readonly Part[], mine: string): Promise<boolean> {
  for (const [index, part] of free.entries()) {
    // Before the rename: a part without a lease may be removed to free space.
    await renewPart(part.path);
    const isTaken = await rename(part.path, mine).then(
      () => true,
      () => false,
    );
    if (!isTaken) continue;
    await Promise.all(free.slice(index + 1).map(({ path }) => rm(path, { force: true })));
    return true;
  }
  return false;
}

/** Renews the lease while nothing arrives to be written. */
export async function renewPart(path: string): Promise<void> {
  const now = new Date();
  await utimes(path, now, now).catch(() => {});
}

/** Releases the lease at once: the next download of this content continues from here. */
export async function releasePart(path: string): Promise<void> {
  await utimes(path, 0, 0).catch(() => {});
}

/** Returns parts, longest first. Also removes abandoned ones. */
async function partsOf(folder: string, key: string): Promise<Part[]> {
  const parts = await listParts(folder);
  for (const { key: other, path, isHeld, changedAtMs } of parts)
    if (other !== key && !isHeld && Date.now() - changedAtMs > abandonedMs) await rm(path, { force: true });
  return parts.filter((part) => part.key === key).sort((a, b) => b.bytes - a.bytes);
}

export async function listParts(folder: string): Promise<Part[]> {
  const parts: Part[] = [];
  for (const name of await readdir(folder)) {
    const { key, space: where, pid } = form.exec(name)?.groups ?? {};
    if (key === undefined) continue;
    const path = join(folder, name);
    const seen = await stat(path).catch(() => undefined);
    if (!seen) continue;
    // A process of another container cannot be checked: only its lease counts.
    const isHeld = Date.now() - seen.mtimeMs < partLeaseMs && (where !== space || isAlive(Number(pid)));
    parts.push({ key, path, bytes: seen.size, isHeld, changedAtMs: seen.ctimeMs });
  }
  return parts;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function processSpace(): string {
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
  } catch {
    return "0";
  }
}

/** An append-only file with the hash of its content. */
export type PartFile = Awaited<ReturnType<typeof openPartFile>>;

/** Reads existing bytes once, so that a resumed download is verified from its first byte. */
export async function openPartFile(path: string, gitSize: number | undefined, signal: AbortSignal) {
  const file = await open(path, "r+");
  let bytes = 0;
  let hashes = freshHashes(gitSize);
  try {
    for await (const chunk of file.createReadStream({ autoClose: false, start: 0, signal })) {
      for (const hash of hashes) hash.update(chunk as Buffer);
      bytes += (chunk as Buffer).length;
    }
  } catch (error) {
    await file.close();
    throw error;
  }
  return {
    path,
    bytes: () => bytes,
    async append(chunk: Buffer) {
      for (let done = 0; done < chunk.length; )
        done += (await file.write(chunk, done, chunk.length - done, bytes + done)).bytesWritten;
      for (const hash of hashes) hash.update(chunk);
      bytes += chunk.length;
    },
    async rewind() {
      await file.truncate(0);
      bytes = 0;
      hashes = freshHashes(gitSize);
    },
    /** Hashes of all bytes so far. `git` is valid only once `gitSize` bytes are present. */
    digests() {
      const [sha256 = "", git = ""] = hashes.map((hash) => hash.copy().digest("hex"));
      return { sha256, git };
    },
    async sync() {
      await file.chmod(0o644);
      await file.sync();
    },
    close: () => file.close(),
  };
}

function freshHashes(gitSize: number | undefined): Hash[] {
  const sha256 = createHash("sha256");
  return gitSize === undefined ? [sha256] : [sha256, createHash("sha1").update(`blob ${gitSize}\0`)];
}
