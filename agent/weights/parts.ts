// Incomplete downloads: `<content key>.<process namespace>-<pid>.<random>.incomplete`. Whoever writes one holds a lease on it:
// by writing, by saying so while nothing comes, and by being alive. Taking over is a rename, which one process wins. Parts of
// one key hold the same bytes, so a late writer can only repeat them.
import { randomBytes } from "node:crypto";
import { readlinkSync } from "node:fs";
import { open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";

export const partLeaseMs = 60_000;
const abandonedMs = 7 * 24 * 3600_000;
const form = /^(?<key>[0-9a-f]{40,64})\.(?<space>\d+)-(?<pid>\d+)\.[0-9a-f]+\.incomplete$/;
const space = processSpace();

export type Claim =
  | { readonly isMine: true; readonly path: string }
  /** Somebody alive downloads this; so many bytes are there. */
  | { readonly isMine: false; readonly bytes: number };

interface Part {
  readonly path: string;
  readonly bytes: number;
  readonly isHeld: boolean;
}

/** A file of ours to go on with: an earlier part of the same content that nobody writes, or an empty one. */
export async function claimPart(folder: string, key: string): Promise<Claim> {
  const mine = join(folder, `${key}.${space}-${process.pid}.${randomBytes(4).toString("hex")}.incomplete`);
  const parts = await partsOf(folder, key);
  const held = parts.find(({ isHeld }) => isHeld);
  if (held) return { isMine: false, bytes: held.bytes };
  if (!(await takeOver(parts, mine))) await (await open(mine, "wx")).close();
  // Of two that came at the same moment the one with the smaller name stays.
  const rival = (await partsOf(folder, key)).find(({ path, isHeld }) => isHeld && path < mine);
  if (!rival) return { isMine: true, path: mine };
  if ((await stat(mine)).size > 0) await releasePart(mine);
  else await rm(mine, { force: true });
  return { isMine: false, bytes: rival.bytes };
}

/** Bytes of a content that an earlier download left. */
export async function partBytes(folder: string, key: string): Promise<number> {
  return (await partsOf(folder, key))[0]?.bytes ?? 0;
}

/** The longest of them; the others, which hold nothing that it does not, are removed. */
async function takeOver(free: readonly Part[], mine: string): Promise<boolean> {
  for (const [index, part] of free.entries()) {
    const isTaken = await rename(part.path, mine).then(
      () => true,
      () => false,
    );
    if (!isTaken) continue;
    await renewPart(mine);
    await Promise.all(free.slice(index + 1).map(({ path }) => rm(path, { force: true })));
    return true;
  }
  return false;
}

/** While nothing comes that could be written. */
export async function renewPart(path: string): Promise<void> {
  const now = new Date();
  await utimes(path, now, now).catch(() => {});
}

/** Gives the lease up at once: the next download of this content goes on from here. */
export async function releasePart(path: string): Promise<void> {
  await utimes(path, 0, 0).catch(() => {});
}

/** Longest first. Also removes what nobody came back for. */
async function partsOf(folder: string, key: string): Promise<Part[]> {
  const parts: Part[] = [];
  for (const name of await readdir(folder)) {
    const { key: found, space: where, pid } = form.exec(name)?.groups ?? {};
    if (found === undefined) continue;
    const path = join(folder, name);
    const seen = await stat(path).catch(() => undefined);
    if (!seen) continue;
    // A process of another container cannot be asked whether it lives: its lease alone counts.
    const isHeld = Date.now() - seen.mtimeMs < partLeaseMs && (where !== space || isAlive(Number(pid)));
    if (found === key) parts.push({ path, bytes: seen.size, isHeld });
    else if (!isHeld && Date.now() - seen.ctimeMs > abandonedMs) await rm(path, { force: true });
  }
  return parts.sort((a, b) => b.bytes - a.bytes);
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
