// Keeps instances of a deployment free of accounts that use a large part of it, while other accounts use it too. Batch slots of an
// engine are shared fairly by the agent's gate, but requests in one batch slow each other down: only other instances do not.
// Each gateway decides from its own requests, and all choose the same instances.
import { oncePer } from "../../proto/once-per.ts";
import type { Route } from "../fleet/routes.ts";
import { hashSeed, hashText, mixed } from "./hash.ts";

/** One of this many instances is kept free, and two from this number on: on a single one, requests too often wait for each other's prompts. */
const instancesPerReserved = 8;
/** Smaller deployments have none to spare. */
const minInstances = 4;
/** An account is heavy from this share of the batch slots on, as one gateway counts them, until it has half of that. */
const heavyShare = 1 / 8;
/** How long a light account that sends nothing counts as present. */
const presentMs = 60_000;
/** Idle deployments are forgotten above this number. */
const maxDeployments = 4_096;

/** Requests of one account to one deployment through this gateway. */
export interface AccountLoad {
  readonly account: string;
  readonly of: DeploymentLoad;
  /** Sequences. */
  inFlight: number;
  isHeavy: boolean;
}

interface DeploymentLoad {
  readonly accounts: Map<string, AccountLoad>;
  /** Light account of the latest request, its time (monotonic ms), and that of the latest request of another light account. */
  light: string;
  lightAtMs: number;
  otherLightAtMs: number;
}

interface Reserved {
  readonly slots: number;
  /** By position in the list of routes: 1 for an instance that is kept free. */
  readonly marks: Uint8Array;
}

export class Reserve {
  readonly #clock: () => number;
  readonly #deployments = new Map<string, DeploymentLoad>();

  /** `clock`: monotonic milliseconds. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Returns the load of an account, to be counted by `started` and `ended`; undefined if the deployment has too few instances. */
  loadOf(ready: readonly Route[], account: string): AccountLoad | undefined {
    if (ready.length < minInstances) return undefined;
    const { deployId } = ready[0] as Route;
    let deployment = this.#deployments.get(deployId);
    if (!deployment) {
      if (this.#deployments.size >= maxDeployments) this.#forgetIdle();
      const never = Number.NEGATIVE_INFINITY;
      deployment = { accounts: new Map(), light: "", lightAtMs: never, otherLightAtMs: never };
      this.#deployments.set(deployId, deployment);
    }
    return deployment.accounts.get(account) ?? { account, of: deployment, inFlight: 0, isHeavy: false };
  }

  /** Returns marks of the instances that a request of this account must avoid; undefined: none. */
  avoidedBy(load: AccountLoad, ready: readonly Route[]): Uint8Array | undefined {
    const { slots, marks } = reservedIn(ready);
    // Many accounts can fill a deployment although none uses an eighth of it.
    const share = Math.min(heavyShare, 1 / (2 * Math.max(1, load.of.accounts.size)));
    const limit = Math.max(ready.length, slots * share);
    load.isHeavy = load.inFlight >= (load.isHeavy ? limit / 2 : limit);
    const nowMs = this.#clock();
    const { account, of } = load;
    if (load.isHeavy) {
      const presentAtMs = of.light === account ? of.otherLightAtMs : of.lightAtMs;
      return nowMs - presentAtMs < presentMs ? marks : undefined;
    }
    if (of.light !== account) {
      of.otherLightAtMs = of.lightAtMs;
      of.light = account;
    }
    of.lightAtMs = nowMs;
    return undefined;
  }

  started(load: AccountLoad, sequences: number): void {
    // One object for all requests of the account, although each of them may have got its own while it was idle.
    const known = load.of.accounts.get(load.account);
    if (known === undefined) load.of.accounts.set(load.account, load);
    (known ?? load).inFlight += sequences;
  }

  ended(load: AccountLoad, sequences: number): void {
    const { accounts } = load.of;
    const known = accounts.get(load.account);
    if (!known) return;
    known.inFlight -= sequences;
    if (known.inFlight <= 0) accounts.delete(load.account);
  }

  #forgetIdle(): void {
    for (const [id, { accounts }] of this.#deployments) if (accounts.size === 0) this.#deployments.delete(id);
  }
}

/**
 * The instances with the lowest hashes of their ids: the same at every gateway, and mostly the same after one was added or lost.
 * The routing table (`Routes.ready`) returns the same list while it has the same members.
 */
const reservedIn = oncePer((ready: readonly Route[]): Reserved => {
  const marks = new Uint8Array(ready.length);
  const order = ready.map(({ instanceId }, at) => ({ at, hash: mixed(hashText(instanceId, hashSeed)) >>> 0 }));
  order.sort((one, other) => one.hash - other.hash || one.at - other.at);
  const count = Math.max(ready.length < instancesPerReserved ? 1 : 2, Math.ceil(ready.length / instancesPerReserved));
  for (const { at } of order.slice(0, count)) marks[at] = 1;
  let slots = 0;
  for (const { maxBatchSize } of ready) slots += maxBatchSize;
  return { slots, marks };
});
