// Placement: hosts come, change and go, deployments of two accounts are placed, moved and removed, from one index.
import type { Want } from "../../../control-plane/deployments/place-fit.ts";
import { createPlacementIndex, withPlaced } from "../../../control-plane/deployments/place-index.ts";
import type { Gpu, HostView } from "../../../control-plane/fleet/host.ts";
import type { AccountId, HostId } from "../../../proto/ids.ts";
import { gib, gpu, hostView, inventory } from "../../fakes/fleet-records.ts";
import type { Seeded } from "../../fakes/seed.ts";
import type { Simulated, Simulation } from "./simulate.ts";

const accounts = ["u:ada", "u:bob", "u:cyd"] as AccountId[];
const hosts = ["h1", "h2", "h3", "h4"];
const hostMemory = 256 * gib;

interface Instance {
  readonly account: AccountId;
  readonly host: string;
  readonly gpus: readonly Gpu[];
  /** Of its GPU; 0: all of each. */
  readonly gpuMemoryBytes: number;
  readonly grantBytes: number;
}

const forgetful = "an index that does not learn of claims";
const sharing = "an account that is placed as another one";

function create(random: Seeded, defect?: string): Simulated {
  const machines = new Map<string, readonly Gpu[]>();
  const instances: Instance[] = [];
  const down = new Set<string>();
  const broken = new Set<string>();
  const index = createPlacementIndex([]);
  for (const host of hosts) {
    const type = random.pick(["H100-80GB", "other"] as const);
    const count = random.between(1, 8);
    const memoryBytes = (type === "other" ? 24 : 80) * gib;
    machines.set(
      host,
      Array.from({ length: count }, (_, n) => gpu(n, { uuid: `GPU-${host}-${n}`, type, memoryBytes })),
    );
    index.put(viewOf(host));
  }

  /** As it would be read from the rows of its instances. */
  function viewOf(host: string): HostView {
    const gpus = (machines.get(host) ?? []).map((one) => ({ ...one, isHealthy: !broken.has(one.uuid) }));
    let view = hostView(host, {
      inventory: inventory({ gpus, memoryBytes: hostMemory }),
      state: down.has(host) ? "unreachable" : "live",
    });
    for (const { account, ...placed } of instances.filter((one) => one.host === host))
      view = withPlaced(view, { ...placed, host: view.id, revision: 0n, gpuShare: 1 }, account);
    return view;
  }

  function place(): string {
    const account = random.pick(accounts);
    const want: Want = {
      gpu: random.pick(["H100-80GB", "other"] as const),
      gpusPerInstance: random.pick([1, 1, 1, 2, 4]),
      memoryBytes: random.pick([4, 10, 20, 60, 150]) * gib,
      engine: "stoker",
      sharesWith: random.between(0, 1) === 0 ? account : undefined,
      host: random.between(0, 9) === 0 ? random.pick(hosts) : undefined,
    };
    const asked = defect === sharing && want.sharesWith ? { ...want, sharesWith: random.pick(accounts) } : want;
    const found = index.place(asked);
    const words = `${account} wants ${want.gpusPerInstance} ${want.gpu} for ${want.memoryBytes / gib} GiB`;
    if (!found) return `${words}: nowhere`;
    const fault = whyNot(want, account, found.host, found.gpus);
    if (fault) throw new Error(`${words} on ${found.host}: ${fault}`);
    instances.push({ account, ...found, host: found.host });
    if (defect !== forgetful) index.put(withPlaced(index.get(found.host) as HostView, found, account));
    return `${words}: ${found.gpus.map(({ uuid }) => uuid).join(", ")}`;
  }

  function whyNot(want: Want, account: AccountId, host: HostId, gpus: readonly Gpu[]): string | undefined {
    if (down.has(host)) return "it is unreachable";
    if (want.host !== undefined && want.host !== host) return `only ${want.host} is allowed`;
    if (gpus.length !== want.gpusPerInstance) return `${gpus.length} GPUs`;
    for (const { uuid, type } of gpus) {
      if (type !== want.gpu) return `${uuid} is a ${type}`;
      if (broken.has(uuid)) return `${uuid} is broken`;
      const others = instances.filter((one) => one.gpus.some((other) => other.uuid === uuid));
      if (others.some((one) => one.account !== account)) return `${uuid} is another account's`;
      if (others.length > 0 && want.sharesWith === undefined) return `${uuid} is in use`;
    }
    return undefined;
  }

  function step(): string {
    const dice = random.between(0, 19);
    if (dice < 10) return place();
    const host = random.pick(hosts);
    if (dice < 15 && instances.length > 0) {
      const [gone] = instances.splice(random.between(0, instances.length - 1), 1);
      if (gone) index.put(viewOf(gone.host));
      return `an instance of ${gone?.account} on ${gone?.host} is gone`;
    }
    if (dice < 17) {
      if (!down.delete(host)) down.add(host);
      index.put(viewOf(host));
      return `${host} is ${down.has(host) ? "unreachable" : "back"}`;
    }
    if (dice === 17) {
      const { uuid } = random.pick(machines.get(host) ?? []);
      if (!broken.delete(uuid)) broken.add(uuid);
      index.put(viewOf(host));
      return `${uuid} is ${broken.has(uuid) ? "broken" : "whole"}`;
    }
    if (dice === 18) {
      index.remove(host as HostId);
      instances.splice(0, instances.length, ...instances.filter((one) => one.host !== host));
      index.put(viewOf(host));
      return `${host} is lost with its instances, and joins again`;
    }
    for (const name of hosts.toReversed()) index.put(viewOf(name));
    return "the index is read again";
  }

  /** GPUs by account and memory, over all instances. */
  function check(): string | undefined {
    for (const [host, gpus] of machines) {
      const here = instances.filter((one) => one.host === host);
      for (const { uuid, memoryBytes } of gpus) {
        const users = here.filter((one) => one.gpus.some((other) => other.uuid === uuid));
        if (new Set(users.map(({ account }) => account)).size > 1) return `${uuid} has two accounts`;
        if (users.length > 1 && users.some((one) => one.gpuMemoryBytes === 0)) return `${uuid} is whole and shared`;
        if (users.reduce((sum, one) => sum + one.gpuMemoryBytes, 0) > memoryBytes) return `${uuid} has no such memory`;
      }
      const granted = here.reduce((sum, one) => sum + one.grantBytes, 0);
      if (granted > hostMemory) return `${host} granted ${granted / gib} GiB`;
      const known = index.get(host as HostId);
      if (known?.grantedMemoryBytes !== granted)
        return `the index counts ${known?.grantedMemoryBytes} of ${granted} on ${host}`;
    }
    return undefined;
  }

  return { step, check };
}

export const placement: Simulation = { name: "placement", defects: [forgetful, sharing], create };
