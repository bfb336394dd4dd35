// Incomplete downloads: `<content key>.<pid>.<random>.incomplete`. Whoever writes one holds a lease on it by writing; taking
// over is a rename, which one process wins. Parts of one key hold the same bytes, so a late writer can only repeat them.
import { randomBytes } from "node:crypto";
import { open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";

const leaseMs = 60_000;
const abandonedMs = 7 * 24 * 3600_000;
const form = /^(?<key>[0-9a-f]{40,64})\.(?<pid>\d+)\.[0-9a-f]+\.incomplete$/;

/** A file of ours to go on with: an earlier part of the same content that nobody writes, or an empty one. */
export async function claimPart(folder: string, key: string): Promise<string> {
  const mine = join(folder, `${key}.${process.pid}.${randomBytes(4).toString("hex")}.incomplete`);
  const free = await freeParts(folder, key);
  for (const [index, part] of free.entries()) {
    const isTaken = await rename(part.path, mine).then(
      () => true,
      () => false,
    );
    if (!isTaken) continue;
    await Promise.all(free.slice(index + 1).map(({ path }) => rm(path, { force: true })));
    return mine;
  }
  await (await open(mine, "wx")).close();
  return mine;
}

/** Gives the lease up at once: the next download of this content goes on from here. */
export async function releasePart(path: string): Promise<void> {
  await utimes(path, 0, 0).catch(() => {});
}

/** Longest first. Also removes what nobody came back for. */
async function freeParts(folder: string, key: string): Promise<{ path: string; size: number }[]> {
  const free: { path: string; size: number }[] = [];
  for (const name of await readdir(folder)) {
    const { key: found, pid } = form.exec(name)?.groups ?? {};
    if (found === undefined) continue;
    const path = join(folder, name);
    const { mtimeMs, ctimeMs, size } = await stat(path).catch(() => ({
      mtimeMs: Date.now(),
      ctimeMs: Date.now(),
      size: 0,
    }));
    const isHeld = Date.now() - mtimeMs < leaseMs && isAlive(Number(pid));
    if (found === key && !isHeld) free.push({ path, size });
    else if (!isHeld && Date.now() - ctimeMs > abandonedMs) await rm(path, { force: true });
  }
  return free.sort((a, b) => b.size - a.size);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
