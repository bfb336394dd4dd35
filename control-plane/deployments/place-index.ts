// Index of candidates by GPU type and free count, by account with shared capacity, and by weights present. Its result equals
// a comparison of all hosts (place-score.ts), independent of insertion order.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, HostId } from "../../proto/ids.ts";
import { type GpuClaim, type HostView, sleepPool } from "../fleet/host.ts";
import {
  type Fit,
  fitOn,
  freeGpus,
  isReserved,
  mayShare,
  type Placed,
  refuse,
  turnBytes,
  type Want,
} from "./place-fit.ts";

interface PlacementIndex {
  place(want: Want): Placed | undefined;
  /** Adds or replaces the host. */
  put(host: HostView): void;
  remove(id: HostId): void;
  get(id: HostId): HostView | undefined;
  hosts(): IterableIterator<HostView>;
  readonly size: number;
}

type Ids = SortedIds<HostId>;

interface Entry {
  readonly host: HostView;
  /** Sets that contain it. */
  readonly sets: readonly Ids[];
}

export function createPlacementIndex(hosts: Iterable<HostView> = []): PlacementIndex {
  const entries = new Map<HostId, Entry>();
  /** Index n: hosts with n free GPUs of the type. */
  const byFree = new Map<GpuType, Ids[]>();
  const byCapacity = new Map<string, Ids>();
  const byWeights = new Map<string, Ids>();
  const byName = new Map<string, Ids>();

  function setsOf(host: HostView): readonly Ids[] {
    const sets: Ids[] = [set(byName, host.hostname)];
    // Other hosts are never candidates; a lookup of the one required host still finds them.
    if (host.state !== "live" || !host.schedulable) return sets;
    for (const type of new Set(host.inventory.gpus.map((gpu) => gpu.type))) {
      const buckets = byFree.get(type) ?? [];
      byFree.set(type, buckets);
      const free = freeGpus(host, type).length;
      for (let n = buckets.length; n <= free; n++) buckets.push(new SortedIds());
      sets.push(buckets[free] as Ids);
    }
    for (const claim of host.claims) {
      const gpu = host.inventory.gpus.find((one) => one.uuid === claim.gpuUuid);
      if (gpu && claim.memoryBytes !== undefined) sets.push(set(byCapacity, capacityKey(claim.account, gpu.type)));
    }
    for (const key of host.keptWeights) sets.push(set(byWeights, key));
    return sets;
  }

  function remove(id: HostId): void {
    for (const one of entries.get(id)?.sets ?? []) one.delete(id);
    entries.delete(id);
  }

  function put(host: HostView): void {
    remove(host.id);
    const sets = setsOf(host);
    for (const one of sets) one.add(host.id);
    entries.set(host.id, { host, sets });
  }

  function evaluate(want: Want, id: HostId): Scored | undefined {
    const host = entries.get(id)?.host;
    if (!host || refuse(want, host) !== undefined) return undefined;
    const found = fitOn(want, host);
    return found && score(want, host, found);
  }

  function best(want: Want, ids: Iterable<HostId>): Fit | undefined {
    let first: Scored | undefined;
    for (const id of ids) {
      const found = evaluate(want, id);
      if (found && (!first || compare(found, first) < 0)) first = found;
    }
    return first?.fit;
  }

  /** Returns the tightest fit among `only`, in its order; checks each host once. */
  function tightest(want: Want, only: Ids | undefined): Fit | undefined {
    if (isReserved(want)) return undefined;
    const buckets = byFree.get(want.gpu) ?? [];
    for (let free = want.gpusPerInstance; free < buckets.length; free++) {
      const bucket = buckets[free] as Ids;
      const [few, many] = only && only.size < bucket.size ? [only, bucket] : [bucket, only];
      for (const id of few) {
        if (many && !many.has(id)) continue;
        if (want.spread?.has(id)) continue;
        const found = evaluate(want, id);
        if (found) return found.fit;
      }
    }
    return undefined;
  }

  function find(want: Want): Fit | undefined {
    if (want.host !== undefined) {
      const named = [...(byName.get(want.host) ?? [])];
      return best(want, new Set([want.host as HostId, ...named]));
    }
    if (want.gpusPerInstance === 0) return best(want, entries.keys());
    const { spread } = want;
    if (mayShare(want)) {
      const shared = byCapacity.get(capacityKey(want.sharesWith as AccountId, want.gpu)) ?? [];
      const joined = best(want, spread ? [...shared].filter((id) => !spread.has(id)) : shared);
      if (joined?.isJoining) return joined;
    }
    const local = want.weights === undefined ? undefined : byWeights.get(want.weights);
    const apart = (local && tightest(want, local)) ?? tightest(want, undefined);
    if (!apart && want.sleeps) {
      const inTurn = best(want, byCapacity.get(capacityKey(sleepPool, want.gpu)) ?? []);
      if (inTurn) return inTurn;
    }
    // Prefer a host with sibling instances to none.
    return apart ?? (spread ? best(want, spread.keys()) : undefined);
  }

  for (const host of hosts) put(host);
  return {
    put,
    remove,
    get: (id) => entries.get(id)?.host,
    *hosts() {
      for (const { host } of entries.values()) yield host;
    },
    get size() {
      return entries.size;
    },
    place(want) {
      const found = find(want);
      if (!found) return undefined;
      const { left: _, isJoining: __, ...placed } = found;
      return placed;
    },
  };
}

/** Returns the host with an instance placed on it. */
export function withPlaced(host: HostView, placed: Placed, owner: AccountId): HostView {
  const claims: GpuClaim[] = [...host.claims];
  const account = placed.isInTurn ? sleepPool : owner;
  for (const gpu of placed.gpus) {
    const at = claims.findIndex((claim) => claim.gpuUuid === gpu.uuid);
    const bytes = placed.isInTurn ? turnBytes(gpu) : placed.gpuMemoryBytes;
    const before = claims[at]?.memoryBytes ?? 0;
    const claim = { gpuUuid: gpu.uuid, account, ...(bytes > 0 ? { memoryBytes: before + bytes } : {}) };
    if (at >= 0) claims[at] = claim;
    else claims.push(claim);
  }
  return { ...host, claims, grantedMemoryBytes: host.grantedMemoryBytes + placed.grantBytes };
}

function set(map: Map<string, Ids>, key: string): Ids {
  const known = map.get(key);
  if (known) return known;
  const made: Ids = new SortedIds();
  map.set(key, made);
  return made;
}

const capacityKey = (account: AccountId, type: GpuType) => `${account}/${type}`;

/** Set of ids in sorted order: each change costs a binary search and a short copy. */
class SortedIds<Id extends string> {
  readonly #ids: Id[] = [];

  get size(): number {
    return this.#ids.length;
  }

  has(id: Id): boolean {
    return this.#ids[this.#at(id)] === id;
  }

  add(id: Id): void {
    const at = this.#at(id);
    if (this.#ids[at] !== id) this.#ids.splice(at, 0, id);
  }

  delete(id: Id): void {
    const at = this.#at(id);
    if (this.#ids[at] === id) this.#ids.splice(at, 1);
  }

  [Symbol.iterator](): Iterator<Id> {
    return this.#ids[Symbol.iterator]();
  }

  /** Its index, or its insertion point. */
  #at(id: Id): number {
    let low = 0;
    let high = this.#ids.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ids[middle] as Id) < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

interface Scored {
  readonly fit: Fit;
  /** Sibling instances there: the loss of one host must not take all of them. */
  readonly beside: number;
  /** Its weights are present. */
  readonly isLocal: boolean;
}

export function score(want: Want, host: HostView, fit: Fit): Scored {
  return {
    fit,
    beside: want.spread?.get(host.id) ?? 0,
    isLocal: want.weights !== undefined && host.keptWeights.has(want.weights),
  };
}

/**
 * Orders by fewest siblings; then GPUs already shared by the account; then weights present; then the tightest fit, because
 * an empty host is worth more to an 8-GPU model; then id.
 */
export function compare(a: Scored, b: Scored): number {
  return (
    a.beside - b.beside ||
    Number(b.fit.isJoining) - Number(a.fit.isJoining) ||
    Number(b.isLocal) - Number(a.isLocal) ||
    a.fit.left - b.fit.left ||
    (a.fit.host < b.fit.host ? -1 : 1)
  );
}
