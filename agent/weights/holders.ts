// Who needs which set of the cache: instances that run from it, the operator's pins, downloads on their way. Agents that share
// a cache tell each other by lease files, which count for as long as they are renewed.
import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "./blobs.ts";

export interface Holders {
  /** The whole set of keys that must stay, every time. */
  want(keys: readonly string[]): void;
  /** A download that is putting a set together. Called back when it is done. */
  assemble(key: string, digests: readonly string[]): () => void;
  isAssembling(sha256: string): boolean;
  /** Blobs that other agents of this cache are putting into a set just now, however long that takes them. */
  assembledElsewhere(): Promise<ReadonlySet<string>>;
  /** A set was handed out, so that a later commit under the same key does not drop it from under its reader. */
  gave(key: string, commit: string): void;
  /** As of now, with what other agents say. */
  heldKeys(): Promise<(key: string, commit: string) => boolean>;
  close(): Promise<void>;
}

export const leaseMs = 60_000;
const renewEveryMs = leaseMs / 3;
/** No key begins so. */
const blobMark = "blob:";

/** Until anybody says what must stay, what was handed out here does. */
export function createHolders(folder: string): Holders {
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
    want(next) {
      wanted = next;
      for (const key of given.keys()) if (!next.includes(key)) given.delete(key);
      renew();
    },
    assemble(key, digests) {
      const id = Symbol(key);
      downloads.set(id, { key, digests });
      renew();
      return () => {
        downloads.delete(id);
      };
    },
    isAssembling: (sha256) => [...downloads.values()].some(({ digests }) => digests.includes(sha256)),
    async assembledElsewhere() {
      const theirs = await others(folder, mine);
      return new Set(theirs.flatMap((one) => (one.startsWith(blobMark) ? [one.slice(blobMark.length)] : [])));
    },
    gave(key, commit) {
      given.set(key, (given.get(key) ?? new Set()).add(commit));
    },
    async heldKeys() {
      const own = new Set(keys());
      const theirs = new Set(await others(folder, mine));
      return (key, commit) => {
        const commits = given.get(key);
        // Of a key with several commits those count that were handed out here.
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
      // Half written by a dying agent: its lease runs out by itself.
    }
  }
  return keys;
}
