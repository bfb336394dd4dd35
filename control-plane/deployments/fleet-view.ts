// The fleet as placement reads it: an index of all hosts, updated by the hosts that changed.
import type { AccountId, HostId } from "../../proto/ids.ts";
import type { HostState, HostView } from "../fleet/host.ts";
import { createPlacementIndex, withPlaced } from "./place-index.ts";
import type { NewInstance } from "./store.ts";

export interface FleetSource {
  /** Returns all hosts, or the named ones. */
  readonly snapshot: (only?: readonly HostId[]) => Promise<readonly HostView[]>;
  readonly hostState: (host: HostId) => HostState;
  readonly monotonicMs: () => number;
  /** Maximum time without a full reload of a large fleet. */
  readonly resyncMs: number;
}

/** At or below this size, reload all hosts for each placement. */
const smallFleet = 100;

export class FleetView {
  index = createPlacementIndex();
  /** Raised whenever the fleet may have changed. */
  version = 0;
  readonly #source: FleetSource;
  readonly #moved = new Set<HostId>();
  #reloadedAtMs = Number.NEGATIVE_INFINITY;

  constructor(source: FleetSource) {
    this.#source = source;
  }

  /** Reads what changed since the last choice; a complete one reads all hosts. */
  async refresh(isComplete: boolean): Promise<void> {
    const nowMs = this.#source.monotonicMs();
    if (isComplete || this.index.size <= smallFleet || nowMs - this.#reloadedAtMs >= this.#source.resyncMs) {
      this.#moved.clear();
      this.index = createPlacementIndex(await this.#source.snapshot());
      this.#reloadedAtMs = nowMs;
      this.version += 1;
      return;
    }
    if (this.#moved.size > 0) {
      const ids = [...this.#moved];
      this.#moved.clear();
      const found = await this.#source.snapshot(ids).catch((error) => {
        for (const id of ids) this.#moved.add(id);
        throw error;
      });
      for (const id of ids) this.index.remove(id);
      for (const host of found) this.index.put(host);
      this.version += 1;
    }
    for (const host of [...this.index.hosts()]) {
      const state = this.#source.hostState(host.id);
      if (state === host.state) continue;
      this.index.put({ ...host, state });
      this.version += 1;
    }
  }

  /** One commit wrote these placements: the next choice includes them. */
  placed(placements: readonly (NewInstance & { readonly account: AccountId })[]): void {
    for (const [id, own] of Map.groupBy(placements, (one) => one.hostId)) {
      let host = this.index.get(id);
      // A concurrent claim: the guard failed, or the record shows it.
      if (host?.revision !== own[0]?.hostRevision) {
        this.#moved.add(id);
        continue;
      }
      for (const one of own) {
        const gpus = (host as HostView).inventory.gpus.filter((gpu) => one.gpus.some(({ uuid }) => uuid === gpu.uuid));
        const { gpuShare, gpuMemoryBytes, grantBytes, claimant, hostRevision: revision } = one;
        host = withPlaced(
          host as HostView,
          { host: id, revision, gpus, gpuShare, gpuMemoryBytes, grantBytes, isInTurn: claimant !== undefined },
          one.account,
        );
      }
      const now = host as HostView;
      this.index.put({ ...now, revision: now.revision + 1n, generation: now.generation + 1n });
    }
    this.version += 1;
  }

  /** The host's record changed; undefined: unknown which. */
  changed(host: HostId | undefined): void {
    if (host === undefined) this.#reloadedAtMs = Number.NEGATIVE_INFINITY;
    else this.#moved.add(host);
  }
}
