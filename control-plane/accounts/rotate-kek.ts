// Rotation of the key-encryption key. The new key is stored as a file before it wraps anything, old ones stay, and each row is
// changed by a guarded statement: an interrupted rotation leaves every key readable, and the next run continues it.

import { setTimeout as wait } from "node:timers/promises";
import type { Act } from "../act.ts";
import { OperatorError } from "../service-error.ts";
import { type Kek, kekFingerprint, newestKek } from "./envelope.ts";
import { kekFile, type SecretFiles } from "./secret-files.ts";

/**
 * Sealed with a key-encryption key: data keys of accounts, ticket keys of hosts, the key that signs certificates, secrets of identity
 * providers, keys that sign invoices.
 */
export type SealedKind = "data keys" | "ticket keys" | "authority keys" | "provider secrets" | "invoice keys";
const kinds: readonly SealedKind[] = ["data keys", "ticket keys", "authority keys", "provider secrets", "invoice keys"];

export interface SealedRow {
  /** Id of the account or host. */
  readonly id: string;
  readonly sealed: Buffer;
}

/** Every method throws DatabaseUnavailable. */
export interface KekStore {
  /** The last rotation; undefined when there was none. */
  last(): Promise<{ readonly version: number; readonly isFinished: boolean } | undefined>;
  /** Audited and announced as `kek`. False when that version belongs to another key. */
  begin(version: number, fingerprint: Buffer, act: Act): Promise<boolean>;
  /** Control planes seen in the last `withinMs` that do not hold `version`. */
  lagging(version: number, withinMs: number): Promise<readonly string[]>;
  /** New accounts no longer use an older version. */
  use(version: number): Promise<void>;
  /** Rows sealed by an older version, by id, past `after`. */
  sealedBelow(kind: SealedKind, version: number, after: string, limit: number): Promise<readonly SealedRow[]>;
  /** Changes the rows that are unchanged since they were read; returns the count. */
  reseal(
    kind: SealedKind,
    version: number,
    rows: readonly (SealedRow & { readonly resealed: Buffer })[],
  ): Promise<number>;
  countBelow(kind: SealedKind, version: number): Promise<number>;
  finish(version: number, resealed: Readonly<Record<SealedKind, number>>, act: Act): Promise<void>;
  /** Records the newest version that this control plane has. */
  hold(replica: string, version: number): Promise<void>;
}

export interface Rotation {
  readonly version: number;
  readonly resealed: Readonly<Record<SealedKind, number>>;
  /** Still sealed by an older version, because no key of the folder opens them. */
  readonly left: Readonly<Record<SealedKind, number>>;
}

/** The message is for the operator: what happened, why, what to do. */
export class RotationRefused extends OperatorError {
  override readonly name = "RotationRefused";
}

export interface RotateDeps {
  readonly store: KekStore;
  readonly secrets: SecretFiles;
  /** Returns the secret sealed with the newest key. Throws when no key opens it. */
  readonly reseal: Readonly<Record<SealedKind, (id: string, sealed: Buffer) => Buffer>>;
  readonly act: Act;
  readonly print: (line: string) => void;
}

export interface RotateOptions {
  /** Time limit for control planes to read the new file. */
  readonly waitMs: number;
  readonly pollMs: number;
  /** A control plane without a heartbeat for this long is ignored. */
  readonly aliveMs: number;
  readonly batch: number;
}

/** Continues an unfinished rotation, otherwise starts a new one. Throws RotationRefused. */
export async function rotateKek(deps: RotateDeps, options: RotateOptions): Promise<Rotation> {
  const { store, secrets } = deps;
  const kek = (await unfinished(deps)) ?? secrets.addKek();
  const { version } = kek;
  if (!(await store.begin(version, kekFingerprint(kek), deps.act))) {
    throw new RotationRefused(
      `Another machine created another ${kekFile(version)}. Move the one in ${secrets.folder} aside, copy that machine's here, ` +
        "then run this again.",
    );
  }
  await waitForAll(deps, options, version);
  await store.use(version);
  const resealed = { "data keys": 0, "ticket keys": 0, "authority keys": 0, "provider secrets": 0, "invoice keys": 0 };
  const left = { ...resealed };
  for (const kind of kinds) {
    resealed[kind] = await resealAll(deps, kind, version, options.batch);
    left[kind] = await store.countBelow(kind, version);
  }
  await store.finish(version, resealed, deps.act);
  return { version, resealed, left };
}

async function unfinished({ store, secrets }: RotateDeps): Promise<Kek | undefined> {
  const kek = newestKek(secrets);
  const last = (await store.last()) ?? { version: 1, isFinished: true };
  if (last.version > kek.version) {
    throw new RotationRefused(
      `A rotation to ${kekFile(last.version)} was started on another machine. Copy that file to ${secrets.folder} (mode 0400), then run ` +
        "this again.",
    );
  }
  if (last.version < kek.version || !last.isFinished) return kek;
  for (const kind of kinds) if ((await store.countBelow(kind, kek.version)) > 0) return kek;
  return undefined;
}

/** A control plane without the new key could not open re-wrapped secrets. */
async function waitForAll(
  { store, secrets, print }: RotateDeps,
  options: RotateOptions,
  version: number,
): Promise<void> {
  const endsAtMs = performance.now() + options.waitMs;
  for (let isFirst = true; ; isFirst = false) {
    const lagging = await store.lagging(version, options.aliveMs);
    if (lagging.length === 0) return;
    if (isFirst)
      print(
        `Waiting until ${lagging.length} control planes have read ${kekFile(version)}. On other machines: copy it from ` +
          `${secrets.folder} to their secrets folder (mode 0400) now.`,
      );
    if (performance.now() >= endsAtMs) {
      throw new RotationRefused(
        `${lagging.length} control planes do not have ${kekFile(version)} yet (${lagging.join(", ")}), so nothing was ` +
          `re-wrapped. Copy it from ${secrets.folder} to the secrets folder of every machine that runs one, then run this ` +
          "again. A stopped one is ignored after half a minute.",
      );
    }
    await wait(options.pollMs);
  }
}

async function resealAll(deps: RotateDeps, kind: SealedKind, version: number, batch: number): Promise<number> {
  let after = "";
  let count = 0;
  for (;;) {
    const rows = await deps.store.sealedBelow(kind, version, after, batch);
    const last = rows.at(-1);
    if (!last) return count;
    const changed = rows.flatMap((row) => {
      try {
        return [{ ...row, resealed: deps.reseal[kind](row.id, row.sealed) }];
      } catch {
        // No key opens it: leave it unchanged; it is counted as left.
        return [];
      }
    });
    if (changed.length > 0) count += await deps.store.reseal(kind, version, changed);
    after = last.id;
  }
}

/** Reads new key-encryption keys and records the newest version of this control plane, for which a rotation waits. */
export function createKekWatch(deps: {
  readonly store: Pick<KekStore, "hold">;
  readonly secrets: SecretFiles;
  readonly replica: string;
}): { refresh(): Promise<void> } {
  let recorded = 0;
  return {
    async refresh() {
      deps.secrets.reread();
      const newest = deps.secrets.keks[0]?.version ?? 0;
      if (newest === recorded) return;
      await deps.store.hold(deps.replica, newest);
      recorded = newest;
    },
  };
}
