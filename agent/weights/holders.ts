// Holders of each set of the cache: running instances, the operator's pins, current downloads. Agents that share a cache publish
// lease files, which are valid while they are renewed.
import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "./blobs.ts";

export type Holders = ReturnType<typeof createHolders>;

const leaseMs = 60_000;
const renewEveryMs = leaseMs / 3;
/** Prefix that no key has. */
const blobMark = "blob:";

/** Until the first set of keys arrives, sets returned by this agent stay. */
export function createHolders(folder: string) {
  const mine = join(folder, `${process.pid}-${randomBytes(6).toString("hex")}.json`);
  const downloads = new Map<symbol, { readonly key: string; readonly digests: readonly string[] }>();
  const given = new Map<string, Set<string>>();
  let wanted: readonly string[] | undefined;
  let isWritten = false;

  const keys = (): string[] => [...(wanted ?? given.keys()), ...[...downloads.values()].map(({ key }) => key)];
  let writing: Promise<void> = Promise.resolve();
  const renew = (): void => {
    writing = writing.then(write).catch(() => {});
  };
  async function write(): Promise<void> {
    const blobs = [...downloads.values()].flatMap(({ digests }) => digests.map((digest) => blobMark + digest));
    const now = [...keys(), ...blobs];
    if (now.length === 0 && !isWritten) return;
    await mkdir(folder, { recursive: true });
    await replaceFile(mine, JSON.stringify(now));
    isWritten = true;
  }
  const timer = setInterval(renew, renewEveryMs);
  timer.unref();

  return {
    want(next: readonly string[]) {
      wanted = next;
      for (const key of given.keys()) if (!next.includes(key)) given.delete(key);
      renew();
    },
    /** Registers a download that assembles a set; call the returned function when it is done. */
    assemble(key: string, digests: readonly string[]) {
      const id = Symbol(key);
      downloads.set(id, { key, digests });
      renew();
      return () => {
        downloads.delete(id);
      };
    },
    isAssembling: (sha256: string) => [...downloads.values()].some(({ digests }) => digests.includes(sha256)),
    /** Returns blobs that other agents of this cache are assembling into a set. */
    async assembledElsewhere() {
      const theirs = await others(folder, mine);
      return new Set(theirs.flatMap((one) => (one.startsWith(blobMark) ? [one.slice(blobMark.length)] : [])));
    },
    /** Records that a set was returned, so that a later commit under the same key does not remove it while it is read. */
    gave(key: string, commit: string) {
      given.set(key, (given.get(key) ?? new Set()).add(commit));
    },
    /** Current holders, including those of other agents. */
    async heldKeys(): Promise<(key: string, commit: string) => boolean> {
      const own = new Set(keys());
      const theirs = new Set(await others(folder, mine));
      return (key, commit) => {
        const commits = given.get(key);
        // For a key with several commits, the ones that this agent returned count.
        return theirs.has(key) || (own.has(key) && (commits === undefined || commits.has(commit)));
      };
    },
    async close() {
      clearInterval(timer);
      await writing;
      await rm(mine, { force: true });
    },
  };
}

async function others(folder: string, mine: string): Promise<string[]> {
  const keys: string[] = [];
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    if (path === mine || !name.endsWith(".json")) continue;
    const seen = await stat(path).catch(() => undefined);
    if (!seen) continue;
    if (Date.now() - seen.mtimeMs > leaseMs) {
      await rm(path, { force: true });
      continue;
    }
    try {
      const value: unknown = JSON.parse(await readFile(path, "utf8"));
      if (Array.isArray(value)) keys.push(...value.filter((key) => typeof key === "string"));
    } catch {
      // Written partially by an agent that died: its lease expires.
    }
  }
  return keys;
}
