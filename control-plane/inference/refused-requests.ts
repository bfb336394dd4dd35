// Remembers requests that a host refused because they crash model servers (agent/ingress/stopping-requests.ts), so that the
// gateway does not send them to another host for the same account.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { shapeOf } from "../../proto/request-shape.ts";
import { ShapeMemory } from "../../proto/shape-memory.ts";

/** Equal to how long an agent remembers a crash of a model server. */
const rememberedMs = 30 * 60_000;
/** Limit memory use to about 25 MB. */
const [maxDeployments, maxShapes] = [200, 500];

interface Remembered {
  /** Value: monotonic time in ms until which a host refuses the request. */
  readonly shapes: ShapeMemory<number>;
  /** Maximum of these values. */
  refusedUntilMs: number;
}

export class RefusedRequests {
  readonly #clock: () => number;
  /** In order of their last change. */
  readonly #deployments = new Map<DeploymentId, Remembered>();

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** Seconds for which a host still refuses this request of the account; undefined if it may be sent. */
  secondsLeft(deployId: DeploymentId, account: AccountId, body: Buffer): number | undefined {
    const known = this.#find(deployId);
    if (!known || this.#clock() >= known.refusedUntilMs || !known.shapes.mayKnow(account, body)) return undefined;
    const leftMs = (known.shapes.get(account, shapeOf(body).whole) ?? 0) - this.#clock();
    return leftMs > 0 ? Math.ceil(leftMs / 1000) : undefined;
  }

  /** Records that a host refuses this request for `seconds`. */
  add(deployId: DeploymentId, account: AccountId, body: Buffer, seconds: number): void {
    const known = this.#touch(deployId);
    const untilMs = this.#clock() + seconds * 1000;
    known.shapes.set(account, shapeOf(body).whole, untilMs);
    known.refusedUntilMs = Math.max(known.refusedUntilMs, untilMs);
  }

  answered(deployId: DeploymentId, account: AccountId, body: Buffer): void {
    const known = this.#find(deployId);
    if (known?.shapes.mayKnow(account, body)) known.shapes.delete(account, shapeOf(body).whole);
  }

  #find(deployId: DeploymentId): Remembered | undefined {
    const known = this.#deployments.get(deployId);
    if (!known?.shapes.isEmpty) return known;
    this.#deployments.delete(deployId);
    return undefined;
  }

  /** Returns the entry for a change and moves it to the end of the order. */
  #touch(deployId: DeploymentId): Remembered {
    const clock = this.#clock;
    const shapes = () => new ShapeMemory<number>({ clock, rememberedMs, maxShapes });
    const known = this.#find(deployId) ?? { shapes: shapes(), refusedUntilMs: 0 };
    this.#deployments.delete(deployId);
    this.#deployments.set(deployId, known);
    for (const [id, { shapes: old }] of this.#deployments) {
      if (id === deployId || !(old.isEmpty || this.#deployments.size > maxDeployments)) break;
      this.#deployments.delete(id);
    }
    return known;
  }
}
