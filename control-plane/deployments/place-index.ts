// Candidates without a look at every host: by GPU type and how many are free, by account with room on a GPU, by weights kept.
// What it answers is what comparing all hosts would (place-score.ts); the order in which they came makes no difference.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, HostId } from "../../proto/ids.ts";
import type { GpuClaim, HostView } from "../fleet/host.ts";
import { refuse } from "./place-filter.ts";
import { type Fit, fitOn, isKept, mayShare } from "./place-fit.ts";
import { freeGpus } from "./place-gpus.ts";
import { compare, type Scored, score } from "./place-score.ts";
import { SortedIds } from "./sorted-ids.ts";
import type { Placed, Want } from "./want.ts";

export interface PlacementIndex {
  place(want: Want): Placed | undefined;
  /** Adds it, or takes its place. */
  put(host: HostView): void;
  remove(id: HostId): void;
  get(id: HostId): HostView | undefined;
  hosts(): IterableIterator<HostView>;
  readonly size: number;
}

type Ids = SortedIds<HostId>;

interface Entry {
  readonly host: HostView;
  /** The sets it stands in. */
  readonly sets: readonly Ids[];
}

export function createPlacementIndex(hosts: Iterable<HostView> = []): PlacementIndex {
  const entries = new Map<HostId, Entry>();
  /** At n: hosts with n free GPUs of the type. */
  const byFree = new Map<GpuType, Ids[]>();
  const byRoom = new Map<string, Ids>();
  const byWeights = new Map<string, Ids>();
  const byName = new Map<string, Ids>();

  function setsOf(host: HostView): readonly Ids[] {
    const sets: Ids[] = [set(byName, host.hostname)];
    // Others are candidates for nothing; an answer for the one host that was asked for still finds them.
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
      if (gpu && claim.memoryBytes !== undefined) sets.push(set(byRoom, roomKey(claim.account, gpu.type)));
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

  function look(want: Want, id: HostId): Scored | undefined {
    const host = entries.get(id)?.host;
    if (!host || refuse(want, host) !== undefined) return undefined;
    const found = fitOn(want, host);
    return found && score(want, host, found);
  }

  function best(want: Want, ids: Iterable<HostId>): Fit | undefined {
    let first: Scored | undefined;
    for (const id of ids) {
      const found = look(want, id);
      if (found && (!first || compare(found, first) < 0)) first = found;
    }
    return first?.fit;
  }

  /** The tightest of those among `only`, in whose order they stand; nobody is looked at twice. */
  function tightest(want: Want, only: Ids | undefined): Fit | undefined {
    if (isKept(want)) return undefined;
    const buckets = byFree.get(want.gpu) ?? [];
    for (let free = want.gpusPerInstance; free < buckets.length; free++) {
      const bucket = buckets[free] as Ids;
      const [few, many] = only && only.size < bucket.size ? [only, bucket] : [bucket, only];
      for (const id of few) {
        if (many && !many.has(id)) continue;
        if (want.spread?.has(id)) continue;
        const found = look(want, id);
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
      const room = byRoom.get(roomKey(want.sharesWith as AccountId, want.gpu)) ?? [];
      const joined = best(want, spread ? [...room].filter((id) => !spread.has(id)) : room);
      if (joined?.isJoining) return joined;
    }
    const kept = want.weights === undefined ? undefined : byWeights.get(want.weights);
    const apart = (kept && tightest(want, kept)) ?? tightest(want, undefined);
    // Beside its like rather than nowhere.
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

/** The host as it is once an instance was placed there. */
export function withPlaced(host: HostView, placed: Placed, account: AccountId): HostView {
  const claims: GpuClaim[] = [...host.claims];
  for (const gpu of placed.gpus) {
    const at = claims.findIndex((claim) => claim.gpuUuid === gpu.uuid);
    const bytes = placed.gpuMemoryBytes;
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

const roomKey = (account: AccountId, type: GpuType) => `${account}/${type}`;
